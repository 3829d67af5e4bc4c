package xdp

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"

	"spillway/wire"
)

// Config sizes an aggregator. All memory is taken at load.
type Config struct {
	// Slots in each size class; a zero Slots means DefaultSlots.
	Slots Slots
	// MaxJobs bounds job ids: 0 <= id < MaxJobs. 0 means DefaultMaxJobs.
	MaxJobs uint32
	// FirstPort and Ports are the UDP ports of the home: Ports (a power of two)
	// of them from FirstPort on. Zeros mean wire.BasePort and 1.
	FirstPort, Ports uint16
}

// DefaultMaxJobs is the number of jobs an aggregator has room for unless told
// otherwise. A job costs about 5 kB of maps besides its slots (65 members, 64
// replicas, and counters for each CPU).
const DefaultMaxJobs = 256

// Aggregator is the loaded program with its maps. Its methods may be called
// from several goroutines at once.
type Aggregator struct {
	config   Config
	objects  aggregatorObjects
	names    []string   // of the counters, by index
	mu       sync.Mutex // over what follows; nothing else is locked while it is held
	regions  [classes]*Allocator
	jobs     map[uint16]*installed
	attached []attachment
}

// Load loads the program and its maps into the kernel and attaches nothing. It
// needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, or root. When the verifier
// refuses, the error is its summary; print it with %+v for the whole log.
func Load(config Config) (*Aggregator, error) {
	if config.Slots == (Slots{}) {
		config.Slots = DefaultSlots
	}
	if config.MaxJobs == 0 {
		config.MaxJobs = DefaultMaxJobs
	}
	if config.FirstPort == 0 {
		config.FirstPort = wire.BasePort
	}
	if config.Ports == 0 {
		config.Ports = 1
	}
	if config.MaxJobs > 1<<16 {
		return nil, fmt.Errorf("%d jobs: job ids have 16 bits", config.MaxJobs)
	}
	if config.Ports&(config.Ports-1) != 0 || int(config.FirstPort)+int(config.Ports) > 1<<16 {
		return nil, fmt.Errorf("ports %d + %d: want a power of two of ports below 65536", config.FirstPort, config.Ports)
	}
	// Kernels before 5.11 account maps against this limit.
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("lift the limit on locked memory: %w", err)
	}
	spec, err := loadAggregator()
	if err != nil {
		return nil, fmt.Errorf("read the compiled program: %w", err)
	}
	if err := config.apply(spec); err != nil {
		return nil, err
	}
	a := &Aggregator{config: config, jobs: make(map[uint16]*installed)}
	if a.names, err = counterNames(spec.Types); err != nil {
		return nil, err
	}
	for class, n := range config.Slots {
		a.regions[class] = NewAllocator(n)
	}
	if err := spec.LoadAndAssign(&a.objects, nil); err != nil {
		return nil, fmt.Errorf("load the aggregator: %w", err)
	}
	return a, nil
}

// apply sets sizes and load-time constants in spec.
func (c Config) apply(spec *ebpf.CollectionSpec) error {
	for name, value := range map[string]any{
		"max_jobs": c.MaxJobs, "first_port": c.FirstPort, "port_count": c.Ports,
	} {
		variable, ok := spec.Variables[name]
		if !ok {
			return fmt.Errorf("the compiled program has no constant %s", name)
		}
		if err := variable.Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	entries := map[string]uint32{
		"jobs": c.MaxJobs, "counters": c.MaxJobs + 1,
		"members": c.MaxJobs * maxMembers, "replicas": c.MaxJobs * wire.MaxChildren,
		"slots": c.Slots.total(),
	}
	for class, elements := range classElements {
		entries[fmt.Sprintf("payload_%d_map", elements)] = c.Slots[class]
	}
	for name, n := range entries {
		m, ok := spec.Maps[name]
		if !ok {
			return fmt.Errorf("the compiled program has no map %s", name)
		}
		m.MaxEntries = max(n, 1)
	}
	return nil
}

// Close detaches the program from every interface and frees its maps. Sums that
// are in flight are lost here; the workers still have all it takes to redo them.
func (a *Aggregator) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, at := range a.attached {
		errs = append(errs, at.detach())
	}
	a.attached = nil
	return errors.Join(append(errs, a.objects.Close())...)
}

// Process runs one Ethernet frame through the program as if it had arrived on
// an interface, and returns the verdict and the frame as the program left it. It
// is the kernel's program, not a model of it: tests and simulations use it.
func (a *Aggregator) Process(frame []byte) (Verdict, []byte, error) {
	opts := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256)}
	ret, err := a.objects.Aggregator.Run(&opts)
	if err != nil {
		return 0, nil, fmt.Errorf("run a frame of %d bytes: %w", len(frame), err)
	}
	return Verdict(ret), opts.DataOut, nil
}

// Verdict is what the program wants done with a frame (enum xdp_action).
type Verdict uint32

// The verdicts the aggregator uses.
const (
	Drop     Verdict = 1 // consumed
	Pass     Verdict = 2 // not Spillway's, or for the replicator
	Transmit Verdict = 3 // out of the interface it came from
)

// attachment is the program on one interface.
type attachment struct {
	link      link.Link
	handle    *netlink.Handle // of the interface's network namespace
	filter    *netlink.BpfFilter
	ownClsact *netlink.GenericQdisc // nil when somebody else's
}

func (at attachment) detach() error {
	var errs []error
	if at.filter != nil {
		errs = append(errs, at.handle.FilterDel(at.filter))
	}
	if at.ownClsact != nil {
		errs = append(errs, at.handle.QdiscDel(at.ownClsact))
	}
	at.handle.Close()
	return errors.Join(append(errs, at.link.Close())...)
}
