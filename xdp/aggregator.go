package xdp

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

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
	// SimulatedClock has jobs with a Policy go by SetClock instead of the kernel's clock: for simulated networks.
	SimulatedClock bool
}

// DefaultMaxJobs is the number of jobs an aggregator has room for unless told
// otherwise. A job costs about 14 kB of maps besides its slots (65 members, 64
// replicas, lateness of 64 ranks), and 3.9 kB for each CPU (counters, what came from each member, and the members that the CPU remembers).
const DefaultMaxJobs = 256

// Aggregator is the loaded program with its maps. Its methods may be called
// from several goroutines at once.
type Aggregator struct {
	config   Config
	takeover Takeover
	objects  aggregatorObjects
	names    []string // of the counters, by index
	tag      string
	pins     *pins // nil: not pinned, all of it goes with the process
	adopted  bool
	mu       sync.Mutex // over what follows; nothing else is locked while it is held
	regions  [classes]*Allocator
	jobs     map[uint16]*installed
	attached map[int]*attachment // by interface
}

// A build is what a binary would load: the compiled programs and their versions.
type build struct {
	layout, version uint32
	spec            func() (*ebpf.CollectionSpec, error)
}

// thisBuild is this binary's.
func thisBuild() *build { return &build{layoutVersion, programVersion, loadAggregator} }

// Load loads the program and its maps into the kernel and attaches nothing. They go with the process; Open makes what
// stays. It needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, or root. When the verifier
// refuses, the error is its summary; print it with %+v for the whole log.
func Load(config Config) (*Aggregator, error) {
	config, err := config.completed()
	if err != nil {
		return nil, err
	}
	return thisBuild().load(config, nil)
}

// completed has defaults in place of zeros.
func (c Config) completed() (Config, error) {
	if c.Slots == (Slots{}) {
		c.Slots = DefaultSlots
	}
	if c.MaxJobs == 0 {
		c.MaxJobs = DefaultMaxJobs
	}
	if c.FirstPort == 0 {
		c.FirstPort = wire.BasePort
	}
	if c.Ports == 0 {
		c.Ports = 1
	}
	if c.MaxJobs > 1<<16 {
		return c, fmt.Errorf("%d jobs: job ids have 16 bits", c.MaxJobs)
	}
	if c.Ports&(c.Ports-1) != 0 || int(c.FirstPort)+int(c.Ports) > 1<<16 {
		return c, fmt.Errorf("ports %d + %d: want a power of two of ports below 65536", c.FirstPort, c.Ports)
	}
	return c, nil
}

// load makes an aggregator of a completed config: over the given maps by name, or over new ones.
func (b *build) load(config Config, over map[string]*ebpf.Map) (*Aggregator, error) {
	a, spec, err := b.prepare(config)
	if err != nil {
		return nil, err
	}
	if err := spec.LoadAndAssign(&a.objects, &ebpf.CollectionOptions{MapReplacements: over}); err != nil {
		return nil, fmt.Errorf("load the aggregator: %w", err)
	}
	if err := a.readTag(); err != nil {
		return nil, errors.Join(err, a.objects.Close())
	}
	return a, nil
}

// prepare makes all of an aggregator but its objects in the kernel, and the spec to load these from.
func (b *build) prepare(config Config) (*Aggregator, *ebpf.CollectionSpec, error) {
	// Kernels before 5.11 account maps against this limit; on later ones this does nothing and needs no capability.
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, nil, fmt.Errorf("lift the limit on locked memory: %w", err)
	}
	spec, err := b.spec()
	if err != nil {
		return nil, nil, fmt.Errorf("read the compiled program: %w", err)
	}
	if err := config.apply(spec); err != nil {
		return nil, nil, err
	}
	a := &Aggregator{config: config, jobs: make(map[uint16]*installed), attached: make(map[int]*attachment)}
	if a.names, err = counterNames(spec.Types); err != nil {
		return nil, nil, err
	}
	for class, n := range config.Slots {
		a.regions[class] = NewAllocator(n)
	}
	return a, spec, nil
}

// apply sets sizes and load-time constants in spec.
func (c Config) apply(spec *ebpf.CollectionSpec) error {
	for name, value := range map[string]any{
		"max_jobs": c.MaxJobs, "first_port": c.FirstPort, "port_count": c.Ports, "simulated_clock": boolean(c.SimulatedClock),
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
		"jobs": c.MaxJobs, "counters": c.MaxJobs + 1, "progress": c.MaxJobs, "lateness": c.MaxJobs, "known": c.MaxJobs, "uplinks": c.MaxJobs, "parents": c.MaxJobs,
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

func (a *Aggregator) readTag() error {
	info, err := a.objects.Aggregator.Info()
	if err != nil {
		return fmt.Errorf("read the program's tag: %w", err)
	}
	a.tag = info.Tag
	return nil
}

// Tag is the kernel's hash over the program's instructions; load-time constants and sizes do not change it.
func (a *Aggregator) Tag() string { return a.tag }

// Close detaches the program from every interface and frees its maps, pinned ones too: Release leaves them. Sums that
// are in flight are lost here; the workers still have all it takes to redo them.
func (a *Aggregator) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, at := range a.attached {
		errs = append(errs, a.takeOff(at))
	}
	if a.pins != nil {
		if err := errors.Join(errs...); err == nil {
			errs = append(errs, a.pins.remove())
			a.pins.removeDir()
		}
		errs = append(errs, a.pins.close())
	}
	return errors.Join(append(errs, a.objects.Close())...)
}

// Release ends this process's part and leaves the data plane running: it closes handles, and the next Open takes over.
// Of an aggregator that is not pinned nothing would be left, so it refuses.
func (a *Aggregator) Release() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pins == nil {
		return errors.New("this aggregator is not pinned and would not outlive its process: close it")
	}
	var errs []error
	for _, at := range a.attached {
		errs = append(errs, at.close())
	}
	clear(a.attached)
	return errors.Join(append(errs, a.objects.Close(), a.pins.close())...)
}

// Adopted reports whether maps and jobs are those of the process before.
func (a *Aggregator) Adopted() bool { return a.adopted }

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
	Redirect Verdict = 4 // out of another
)

// Attachments returns the interfaces that the program is on, by index.
func (a *Aggregator) Attachments() []Attachment {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []Attachment
	for _, at := range a.attached {
		if at.link != nil {
			all = append(all, Attachment{Ifindex: at.ifindex, Mode: at.mode})
		}
	}
	slices.SortFunc(all, func(x, y Attachment) int { return x.Ifindex - y.Ifindex })
	return all
}
