package ledger

import (
	"errors"
	"fmt"
	"net/netip"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/wire"
	"spillway/xdp"
)

// Request is what a job asks for.
type Request struct {
	Name                      string // for texts
	Workers, Elements, Window uint32
	// Lag is how many chunks more than a window the slowest worker may be behind.
	Lag uint32
	// Tor says what of the ToR's memory it uses; unspecified is none. TorSlots is the size of a private region, a power of two.
	Tor      v1.TorUse
	TorSlots uint32
	// Multicast asks for a group.
	Multicast bool
	// Shards is among how many nodes its chunks are shared out; 0 is 1.
	Shards uint32
}

// ring is how many slots of the aggregator it takes.
func (r *Request) ring() uint32 { return wire.RingSizeWithLag(int(r.Window), int(r.Lag)) }

// needs says what takes them.
func (r *Request) needs() string {
	if r.Lag == 0 {
		return fmt.Sprintf("a window of %d", r.Window)
	}
	return fmt.Sprintf("a window of %d with stragglers up to %d chunks further behind", r.Window, r.Lag)
}

// Ledger is the account. It is not safe for several goroutines at once.
type Ledger struct {
	config  Config
	nodes   map[string]*memory
	ids     numbers // id - 1
	groups  numbers // of Config.Groups
	ports   numbers // from FirstWorkerPort on
	regions regions
	held    map[uint16]Allocation // by id
}

// New is the account of no nodes and no jobs.
func New(config Config) (*Ledger, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	l := &Ledger{
		config:  config,
		ids:     newNumbers(config.ids()),
		groups:  newNumbers(config.groups()),
		ports:   newNumbers(config.workerPorts()),
		regions: regions{shared: config.SharedSlots, sharers: map[uint32]int{}},
		held:    map[uint16]Allocation{},
		nodes:   map[string]*memory{},
	}
	return l, nil
}

// SetTorSlots says how many slots the ToR has. Until then nobody can have any. A number that is smaller than what is given away takes nothing back.
func (l *Ledger) SetTorSlots(n uint32) { l.regions.slots = n }

// Reserve gives a job all that it asks for, or nothing: then the error is a *refusal.Error that names everything that is lacking, with what was asked for
// and what is free. Its rings are at the first of the nodes that have room, one for each shard; where too few have, they are fewer.
func (l *Ledger) Reserve(request Request, nodes ...string) (Allocation, error) {
	if err := l.withinQuota(request); err != nil {
		return Allocation{}, err
	}
	var lacks shortage
	a := Allocation{Slots: request.ring()}
	var class int
	class, a.ClassElements = xdp.ClassOf(int(request.Elements))
	if id, ok := l.ids.next(); ok {
		a.ID = uint16(id + 1)
	} else {
		lacks.add("jobs", 1, 0, "all %d jobs that there can be are there", l.ids.total)
	}
	fitting := l.fitting(a, class, nodes)
	if len(fitting) == 0 {
		l.lackOfSlots(request, a, class, nodes, &lacks)
	}
	if port, ok := l.ports.next(); ok {
		a.WorkerPort = l.config.FirstWorkerPort + uint16(port)
	} else {
		lacks.add("worker_ports", 1, 0, "all %d worker ports are taken", l.ports.total)
	}
	if request.Multicast {
		if group, ok := l.groups.next(); ok {
			a.Group = l.config.group(group)
		} else {
			lacks.add("groups", 1, 0, "all %d multicast groups of %v are taken", l.groups.total, l.config.Groups)
		}
	}
	a.Region = l.region(request, &lacks)
	if err := lacks.refusal(request.Name); err != nil {
		return Allocation{}, err
	}
	for _, node := range fitting[:min(len(fitting), int(max(request.Shards, 1)))] {
		first, err := l.nodes[node].take(a.ID, class, a.Slots)
		if err != nil {
			return Allocation{}, err
		}
		a.Places = append(a.Places, Place{node, first})
	}
	l.enter(a)
	return a, nil
}

// fitting are the nodes that have room for a ring.
func (l *Ledger) fitting(a Allocation, class int, nodes []string) (fitting []string) {
	for _, node := range nodes {
		if m := l.nodes[node]; m != nil && m.fits(a.ID, class, a.Slots) {
			fitting = append(fitting, node)
		}
	}
	return fitting
}

// lackOfSlots says what of the slots is free at the node that has the longest run.
func (l *Ledger) lackOfSlots(request Request, a Allocation, class int, nodes []string, lacks *shortage) {
	best, at := newMemory(xdp.Slots{}, 0), ""
	for _, node := range nodes {
		if m := l.nodes[node]; m != nil && m.runs[class].Largest() >= best.runs[class].Largest() {
			best = m
			if len(nodes) > 1 {
				at = fmt.Sprintf(" at node %s, the one with the most", node)
			}
		}
	}
	largest := best.runs[class].Largest()
	if largest >= a.Slots && a.ID != 0 {
		lacks.add("jobs", 1, 0, "the ids that are free, from %d on, are more than the nodes have room for", a.ID)
		return
	}
	lacks.add("slots", uint64(a.Slots), uint64(largest), "%s needs %d slots of %d elements in one run, and the longest free run has %d (%d of %d are free%s)",
		request.needs(), a.Slots, a.ClassElements, largest, best.runs[class].Free(), best.slots[class], at)
}

// region is the part of the ToR's memory that a request would get.
func (l *Ledger) region(request Request, lacks *shortage) *Region {
	r := Region{Period: Period(request.Window)}
	switch request.Tor {
	case v1.TorUse_TOR_USE_PRIVATE:
		base, ok := l.regions.fit(request.TorSlots)
		if !ok {
			largest := l.regions.largest()
			lacks.add("tor_slots", uint64(request.TorSlots), uint64(largest), "a region of %d slots of the ToR is asked for, and the largest that is free has %d (%d of %d slots are taken)",
				request.TorSlots, largest, l.regions.used(), l.regions.slots)
		}
		r.Base, r.Slots = base, request.TorSlots
	case v1.TorUse_TOR_USE_SHARED:
		if !l.regions.hasShared() {
			lacks.add("tor_slots", uint64(max(l.regions.shared, 1)), 0, "the shared region is %d slots by the configuration, and the ToR has %d", l.regions.shared, l.regions.slots)
		}
		r.Slots, r.Offset, r.Shared = l.regions.shared, l.regions.offset(), true
	default:
		return nil
	}
	return &r
}

// enter writes down an allocation; its slots of the aggregators are taken already.
func (l *Ledger) enter(a Allocation) {
	l.held[a.ID] = a
	l.ids.take(int(a.ID) - 1)
	l.ports.take(l.portNumber(a.WorkerPort))
	if a.Group.IsValid() {
		l.groups.take(l.groupNumber(a.Group))
	}
	if a.Region != nil {
		l.regions.take(*a.Region)
	}
}

// Restore puts an allocation that was written down back at its places, all of it or nothing. It fails when the configuration has no such place any more, or
// another job has it. A place at a node that is not known is no fault: SetNode sees to it when the node is there.
func (l *Ledger) Restore(a Allocation) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	class, room := xdp.ClassOf(a.ClassElements)
	if room != a.ClassElements || a.ClassElements == 0 {
		return fmt.Errorf("there are no slots of %d elements", a.ClassElements)
	}
	if !l.ids.available(int(a.ID) - 1) {
		wrong("id %d is taken, or not one of 1 to %d", a.ID, l.ids.total)
	}
	if !l.ports.available(l.portNumber(a.WorkerPort)) {
		wrong("worker port %d is taken, or not one of %d to %d", a.WorkerPort, l.config.FirstWorkerPort, l.config.LastWorkerPort)
	}
	if a.Group.IsValid() && !l.groups.available(l.groupNumber(a.Group)) {
		wrong("group %v is taken, or not one of %v", a.Group, l.config.Groups)
	}
	if a.Region != nil {
		if err := l.regions.check(*a.Region); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if a.Slots == 0 {
		return errors.New("a ring of no slots")
	}
	for i, place := range a.Places {
		m := l.nodes[place.Node]
		if m == nil {
			continue
		}
		if _, twice := m.held[a.ID]; twice {
			wrong("it has two places at node %q", place.Node)
		} else if err := m.takeAt(a.ID, class, place.First, a.Slots); err != nil {
			errs = append(errs, err)
		}
		if len(errs) > 0 {
			for _, place := range a.Places[:i+1] {
				if m := l.nodes[place.Node]; m != nil {
					m.give(a.ID)
				}
			}
			return errors.Join(errs...)
		}
	}
	l.enter(a)
	return nil
}

// Release takes back all that the job with an id holds. It reports whether it held anything.
func (l *Ledger) Release(id uint16) bool {
	a, ok := l.held[id]
	if !ok {
		return false
	}
	delete(l.held, id)
	for _, m := range l.nodes {
		m.give(id)
	}
	l.ids.give(int(a.ID) - 1)
	l.ports.give(l.portNumber(a.WorkerPort))
	if a.Group.IsValid() {
		l.groups.give(l.groupNumber(a.Group))
	}
	if a.Region != nil {
		l.regions.give(*a.Region)
	}
	return true
}

func (l *Ledger) portNumber(port uint16) int { return int(port) - int(l.config.FirstWorkerPort) }

// groupNumber is -1 for an address that is no group of the configuration.
func (l *Ledger) groupNumber(group netip.Addr) int {
	if !l.config.Groups.IsValid() || !l.config.Groups.Contains(group) {
		return -1
	}
	a, first := group.As4(), l.config.Groups.Addr().As4()
	number := func(b [4]byte) int { return int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3]) }
	return number(a) - number(first)
}

// Capacity is what there is at these nodes, and what of it is given away. What the ToR has is left out as long as it is not known.
func (l *Ledger) Capacity(nodes ...string) *v1.Capacity {
	c := &v1.Capacity{
		Jobs:        &v1.Amount{Total: uint64(l.ids.total), Used: uint64(len(l.held))},
		Groups:      &v1.Amount{Total: uint64(l.groups.total), Used: uint64(len(l.groups.taken))},
		MemoryBytes: &v1.Amount{},
	}
	if most := l.config.Quota.Jobs; most > 0 {
		c.Jobs.Total = min(c.Jobs.Total, uint64(most))
	}
	l.addSlots(c, nodes)
	if l.regions.slots > 0 {
		c.TorSlots = &v1.Amount{Total: uint64(l.regions.end()), Used: uint64(l.regions.used())}
	}
	return c
}

// NodeCapacity is what one node has, and what of it is given away; jobs are those that it can have a ring for, and those that have one.
func (l *Ledger) NodeCapacity(node string) *v1.Capacity {
	c := &v1.Capacity{Jobs: &v1.Amount{}, MemoryBytes: &v1.Amount{}}
	if m := l.nodes[node]; m != nil {
		c.Jobs.Total, c.Jobs.Used = uint64(min(l.ids.total, int(m.maxJobs)-1)), uint64(len(m.held))
	}
	l.addSlots(c, []string{node})
	return c
}

// addSlots adds up the slots of nodes.
func (l *Ledger) addSlots(c *v1.Capacity, nodes []string) {
	for class, room := range classElements() {
		sum := &v1.SlotClass{Elements: uint32(room), Slots: &v1.Amount{}}
		for _, node := range nodes {
			m := l.nodes[node]
			if m == nil {
				continue
			}
			sum.Slots.Total += uint64(m.slots[class])
			sum.Slots.Used += uint64(m.slots[class] - m.runs[class].Free())
			sum.LargestFree = max(sum.LargestFree, m.runs[class].Largest())
		}
		c.SlotClasses = append(c.SlotClasses, sum)
		c.MemoryBytes.Total += sum.Slots.Total * xdp.SlotBytes(class)
		c.MemoryBytes.Used += sum.Slots.Used * xdp.SlotBytes(class)
	}
}

// classElements are the rooms of the size classes.
func classElements() (rooms []int) {
	for _, room := xdp.ClassOf(1); room > 0; _, room = xdp.ClassOf(room + 1) {
		rooms = append(rooms, room)
	}
	return rooms
}
