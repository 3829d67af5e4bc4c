package dataplane

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"spillway/wire"
)

// Config sizes a data plane. All memory of slots is taken at load: 32 bytes a
// slot, and 4 for each element.
type Config struct {
	Slots    uint32 // 1 to 65535; 0: DefaultSlots
	Elements int    // of the longest chunk that rests: a multiple of 32 up to 832; 0: DefaultElements
}

// What a Tofino has (docs/tofino.md).
const (
	DefaultSlots    = 32768
	DefaultElements = 32
)

// Dataplane is the loaded program with its tables. Its methods may be called
// from several goroutines at once.
type Dataplane struct {
	config  Config
	objects torObjects

	runMu sync.Mutex // over Process: the port that the program is told; taken before mu

	mu        sync.Mutex // over what follows, and all writing of tables
	routes    map[netip.Prefix]uint32
	members   map[MemberKey]uint32
	tenants   map[uint16]*torTenant
	jobs      int
	multicast map[uint16][]Port
	attached  map[Port]attachment
	// Free indices of counters of entries.
	freeRoutes, freeMembers []uint32
}

// attachment is the program on one interface.
type attachment struct {
	ifindex int
	link    link.Link
	space   namespace
}

// Load loads the program and its maps into the kernel and attaches nothing. It
// needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, or root. When the verifier
// refuses, the error is its summary; print it with %+v for the whole log.
func Load(config Config) (*Dataplane, error) {
	if config.Slots == 0 {
		config.Slots = DefaultSlots
	}
	if config.Elements == 0 {
		config.Elements = DefaultElements
	}
	if config.Slots > noSlot {
		return nil, fmt.Errorf("%d slots: want at most %d", config.Slots, noSlot)
	}
	if config.Elements < wire.MinElements || config.Elements > wire.MaxElements || config.Elements%wire.ElementStep != 0 {
		return nil, fmt.Errorf("slots of %d elements: want a multiple of %d from %d to %d",
			config.Elements, wire.ElementStep, wire.MinElements, wire.MaxElements)
	}
	// Kernels before 5.11 account maps against this limit.
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("lift the limit on locked memory: %w", err)
	}
	spec, err := loadTor()
	if err != nil {
		return nil, fmt.Errorf("read the compiled program: %w", err)
	}
	if err := config.apply(spec); err != nil {
		return nil, err
	}
	d := &Dataplane{config: config, attached: make(map[Port]attachment)}
	d.forget()
	if err := spec.LoadAndAssign(&d.objects, nil); err != nil {
		return nil, fmt.Errorf("load the software ToR: %w", err)
	}
	return d, nil
}

// noSlot is the slot index of chunks that are not for the ToR.
const noSlot = 0xffff

// apply sets sizes and load-time constants in spec.
func (c Config) apply(spec *ebpf.CollectionSpec) error {
	elements, ok := spec.Variables["slot_elements"]
	if !ok {
		return errors.New("the compiled program has no constant slot_elements")
	}
	if err := elements.Set(uint32(c.Elements)); err != nil {
		return fmt.Errorf("set slot_elements: %w", err)
	}
	slots, payloads := spec.Maps["slots"], spec.Maps["payloads"]
	if slots == nil || payloads == nil {
		return errors.New("the compiled program has no maps of slots")
	}
	slots.MaxEntries, payloads.MaxEntries = c.Slots, c.Slots
	payloads.ValueSize = uint32(c.Elements) * wire.ElementSize
	payloads.Key, payloads.Value = nil, nil // the type is that of the smallest slot
	return nil
}

// forget empties what Go knows of the tables.
func (d *Dataplane) forget() {
	d.routes = make(map[netip.Prefix]uint32)
	d.members = make(map[MemberKey]uint32)
	d.tenants = make(map[uint16]*torTenant)
	d.multicast = make(map[uint16][]Port)
	d.jobs = 0
	d.freeRoutes, d.freeMembers = countdown(maxRoutes), countdown(maxMembers)
}

// countdown is n-1 to 0, so that indices are handed out from 0 on.
func countdown(n uint32) []uint32 {
	c := make([]uint32, n)
	for i := range c {
		c[i] = n - 1 - uint32(i)
	}
	return c
}

// Close detaches the program from all ports and frees its memory. Sums that are
// in flight are lost here; the workers still have all it takes to redo them.
func (d *Dataplane) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for port, at := range d.attached {
		errs = append(errs, at.link.Close(), at.space.Close())
		delete(d.attached, port)
	}
	return errors.Join(append(errs, d.objects.Close())...)
}

// Limits are the number of slots and the elements of the longest chunk that rests.
func (d *Dataplane) Limits() (slots uint32, elements int) { return d.config.Slots, d.config.Elements }

// EventNames are the names of the events by number; numbers that mean nothing have "".
func EventNames() ([]string, error) {
	spec, err := loadTor()
	if err != nil {
		return nil, fmt.Errorf("read the compiled program: %w", err)
	}
	var enum *btf.Enum
	if err := spec.Types.TypeByName("event", &enum); err != nil {
		return nil, fmt.Errorf("the compiled program's events: %w", err)
	}
	names := make([]string, torEventEVENT_END)
	for _, v := range enum.Values {
		if v.Value < uint64(len(names)) {
			names[v.Value] = strings.ToLower(strings.TrimPrefix(v.Name, "EVENT_"))
		}
	}
	return names, nil
}
