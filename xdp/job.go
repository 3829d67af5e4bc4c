package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"

	"spillway/wire"
)

// Errors of AddJob and RemoveJob that callers decide on.
var (
	ErrJobExists = errors.New("job is already there")
	ErrNoJob     = errors.New("no such job")
	ErrNoSlots   = errors.New("not enough free slots")
)

// Job is what the aggregator knows of a job.
type Job struct {
	ID         uint16
	Generation uint8
	Cookie     uint32
	Elements   int // E: a multiple of 32 from 32 to 832
	Window     int // W; the job takes Ring() slots
	Workers    int // 1 to 64; in a tree, of this level: the node's children
	// Home is the address DATA comes to and the first of HomePorts ports.
	Home      netip.AddrPort
	HomePorts uint16
	// Group is the multicast group for RESULT and SOLICIT. Not valid: unicast,
	// a copy for each member by the replicator.
	Group      netip.Addr
	WorkerPort uint16
	// Members say who may send what; all bits of the job must be covered.
	Members []Member
	// Policy says when sums are released that lack somebody; the zero Policy waits for all.
	Policy Policy
	// Resumed means that workers of an earlier generation carry on in this one, whose sums the aggregator does not know. Sums that lack
	// somebody are then released only of chunks that no earlier generation can have released. A job with a Policy whose home lost its memory, or that
	// moves to another home, takes a generation that no home had before; with the same one, two homes could publish different sums of a chunk.
	Resumed bool
	// Place is the first of the job's slots in its class (ClassOf), where somebody keeps account of them ahead of the
	// aggregator; nil takes the first run that fits. Jobs always sets it.
	Place *uint32
	// Parent is the node above, if this one is not the root of the job's tree; nil: it publishes what it sums.
	Parent *Parent
}

// Member is a source address of a job.
type Member struct {
	Addr netip.Addr
	Bits uint64 // what packets from Addr may carry; one bit for a worker, all of the job's for its ToR
	// MAC and Ifindex say where copies for this member go; unicast jobs need them of every worker. A ToR has neither: it is sent nothing.
	MAC     net.HardwareAddr
	Ifindex int
	// Port is where copies go for this member; 0: the job's worker port. A node that is a child has its own (Parent.Self).
	Port uint16
}

// maxMembers is 64 workers and the ToR, which sends partial sums.
const maxMembers = wire.MaxChildren + 1

// aggregates reports whether the member sends partial sums.
func (m *Member) aggregates() bool { return m.Bits&(m.Bits-1) != 0 }

// addressed reports whether copies can go to the member.
func (m *Member) addressed() bool { return len(m.MAC) != 0 || m.Ifindex != 0 }

// installed is a job that is in the maps. Once it is in Aggregator.jobs, nothing of it changes.
type installed struct {
	class int
	slots span
	job   Job // as Jobs gives it
}

// Validate says what is wrong with the job, if anything.
func (j *Job) Validate() error {
	switch {
	case j.Elements < wire.MinElements || j.Elements > wire.MaxElements || j.Elements%wire.ElementStep != 0:
		return fmt.Errorf("job %d: %d elements a chunk: want a multiple of %d from %d to %d",
			j.ID, j.Elements, wire.ElementStep, wire.MinElements, wire.MaxElements)
	case j.Window < 1 || j.Window > 1<<20:
		return fmt.Errorf("job %d: window %d: want 1 to %d chunks", j.ID, j.Window, 1<<20)
	case j.Workers < 1 || j.Workers > wire.MaxChildren:
		return fmt.Errorf("job %d: %d workers: want 1 to %d", j.ID, j.Workers, wire.MaxChildren)
	case !j.Home.Addr().Is4() || j.Home.Port() == 0:
		return fmt.Errorf("job %d: home %v: want an IPv4 address and a port", j.ID, j.Home)
	case j.HomePorts == 0 || j.HomePorts&(j.HomePorts-1) != 0:
		return fmt.Errorf("job %d: %d home ports: want a power of two", j.ID, j.HomePorts)
	case j.WorkerPort == 0:
		return fmt.Errorf("job %d: no worker port", j.ID)
	case j.Group.IsValid() && (!j.Group.Is4() || !j.Group.IsMulticast()):
		return fmt.Errorf("job %d: group %v: want an IPv4 multicast address", j.ID, j.Group)
	case len(j.Members) > maxMembers:
		return fmt.Errorf("job %d: %d members: want at most %d workers and a ToR", j.ID, len(j.Members), wire.MaxChildren)
	}
	var covered uint64
	var copies int
	seen := make(map[netip.Addr]bool)
	for _, m := range j.Members {
		switch {
		case !m.Addr.Is4():
			return fmt.Errorf("job %d: member %v: want an IPv4 address", j.ID, m.Addr)
		case seen[m.Addr]:
			return fmt.Errorf("job %d: member %v is there twice", j.ID, m.Addr)
		case m.Addr == j.Home.Addr():
			return fmt.Errorf("job %d: member %v is the home itself", j.ID, m.Addr)
		case m.Bits == 0 || m.Bits&^wire.FullBitmap(j.Workers) != 0:
			return fmt.Errorf("job %d: member %v: bits %#x of a job of %d workers", j.ID, m.Addr, m.Bits, j.Workers)
		case !j.Group.IsValid() && (len(m.MAC) != 6 || m.Ifindex <= 0) && (m.addressed() || !m.aggregates()):
			return fmt.Errorf("job %d: member %v: a job without a multicast group needs its MAC address and interface", j.ID, m.Addr)
		}
		if m.addressed() {
			copies++
		}
		seen[m.Addr] = true
		covered |= m.Bits
	}
	if copies > wire.MaxChildren {
		return fmt.Errorf("job %d: copies go to %d members: want at most %d", j.ID, copies, wire.MaxChildren)
	}
	if err := j.Policy.validate(j.Workers); err != nil {
		return fmt.Errorf("job %d: %w", j.ID, err)
	}
	if j.Parent != nil {
		if err := j.Parent.validate(j); err != nil {
			return fmt.Errorf("job %d: %w", j.ID, err)
		}
	}
	if covered != wire.FullBitmap(j.Workers) {
		return fmt.Errorf("job %d: nobody may send bits %#x", j.ID, wire.FullBitmap(j.Workers)&^covered)
	}
	return nil
}

// AddJob installs a job; packets of it count from the moment it returns. Either
// all of the job is there afterwards or nothing of it.
func (a *Aggregator) AddJob(j Job) error {
	if err := j.Validate(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	first, last := a.config.FirstPort, a.config.FirstPort+a.config.Ports-1
	switch {
	case uint32(j.ID) >= a.config.MaxJobs:
		return fmt.Errorf("job %d: this aggregator has room for ids below %d", j.ID, a.config.MaxJobs)
	case j.Home.Port() < first || j.Home.Port()+j.HomePorts-1 > last:
		return fmt.Errorf("job %d: home ports %d to %d: this aggregator listens on %d to %d",
			j.ID, j.Home.Port(), j.Home.Port()+j.HomePorts-1, first, last)
	case a.jobs[j.ID] != nil:
		return fmt.Errorf("job %d: %w", j.ID, ErrJobExists)
	}
	class, _ := ClassOf(j.Elements)
	in := &installed{class: class, slots: span{count: j.Ring()}}
	if err := a.place(&j, in); err != nil {
		return fmt.Errorf("job %d of %d elements a chunk, window %d: %w", j.ID, j.Elements, j.Window, err)
	}
	in.job = j.clone()
	in.job.Policy, in.job.Resumed = j.policy()
	in.job.Place = &in.slots.first
	if p := in.job.Parent; p != nil {
		p.Shards = max(p.Shards, 1)
	}
	for i := range in.job.Members {
		if m := &in.job.Members[i]; j.Group.IsValid() {
			m.MAC, m.Ifindex, m.Port = nil, 0, 0
		} else if m.addressed() && m.Port == 0 {
			m.Port = j.WorkerPort
		}
	}
	if err := a.install(&j, in); err != nil {
		return errors.Join(fmt.Errorf("install job %d: %w", j.ID, err), a.uninstall(j.ID, in))
	}
	a.jobs[j.ID] = in
	return nil
}

// place allocates the job's slots.
func (a *Aggregator) place(j *Job, in *installed) (err error) {
	region := a.regions[in.class]
	if j.Place == nil {
		in.slots.first, err = region.Take(in.slots.count)
		return err
	}
	in.slots.first = *j.Place
	return region.TakeAt(*j.Place, in.slots.count)
}

func (a *Aggregator) install(j *Job, in *installed) error {
	base := a.config.Slots.base(in.class) + in.slots.first
	for i := range in.slots.count {
		if err := a.objects.Slots.Put(base+i, aggregatorSlot{}); err != nil {
			return fmt.Errorf("clear slot %d: %w", base+i, err)
		}
	}
	if err := a.clearCounters(uint32(j.ID)); err != nil {
		return err
	}
	if err := a.clearLateness(j.ID); err != nil {
		return err
	}
	if err := a.clearKnown(uint32(j.ID)); err != nil {
		return err
	}
	var replicas uint32
	for i, m := range j.Members {
		key := aggregatorMemberKey{Addr: networkOrder(m.Addr), Job: uint32(j.ID)}
		if err := a.objects.Members.Put(key, aggregatorMember{Bits: m.Bits, Index: uint32(i), Rank: uint32(bits.TrailingZeros64(m.Bits))}); err != nil {
			return fmt.Errorf("member %v: %w", m.Addr, err)
		}
		if j.Group.IsValid() || !m.addressed() {
			continue
		}
		copyTo := aggregatorReplica{Addr: networkOrder(m.Addr), Ifindex: uint32(m.Ifindex), Port: swap16(m.Port)}
		if m.Port == 0 {
			copyTo.Port = swap16(j.WorkerPort)
		}
		copy(copyTo.Mac[:], m.MAC)
		if err := a.objects.Replicas.Put(uint32(j.ID)*wire.MaxChildren+replicas, copyTo); err != nil {
			return fmt.Errorf("replica %v: %w", m.Addr, err)
		}
		replicas++
	}
	if err := a.installParent(j); err != nil {
		return err
	}
	after, err := a.installProgress(j)
	if err != nil {
		return err
	}
	job := aggregatorJob{
		Full:        wire.FullBitmap(j.Workers),
		Cookie:      j.Cookie,
		Home:        networkOrder(j.Home.Addr()),
		RingMask:    in.slots.count - 1,
		SlotBase:    base,
		PayloadBase: in.slots.first,
		HomePort:    swap16(j.Home.Port()),
		WorkerPort:  swap16(j.WorkerPort),
		Elements:    uint16(j.Elements),
		Bound:       bound(j.Workers),
		Class:       uint8(in.class),
		Generation:  j.Generation,
		Replicas:    uint8(replicas),
		HomePorts:   j.HomePorts,
		Window:      uint32(j.Window),
		Quorum:      uint8(in.job.Policy.Quorum),
		After:       after,
		Active:      1,
	}
	if j.Parent != nil {
		job.Inner = termInner
	}
	if j.Group.IsValid() {
		job.Group = networkOrder(j.Group)
	}
	if err := a.objects.Jobs.Put(uint32(j.ID), job); err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	return nil
}

// bound is 2^k: what each of n children stays below in magnitude when it leaves
// room for n addends in an int32.
func bound(n int) uint32 { return 1 << (31 - bits.Len(uint(n-1))) }

// RemoveJob takes a job out; its packets are refused from then on.
func (a *Aggregator) RemoveJob(id uint16) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	in := a.jobs[id]
	if in == nil {
		return fmt.Errorf("job %d: %w", id, ErrNoJob)
	}
	delete(a.jobs, id)
	return a.uninstall(id, in)
}

// uninstall undoes install, also one that stopped half-way. It waits for packets that are in the program at this moment: they
// may hold slots, which the next job gets.
func (a *Aggregator) uninstall(id uint16, in *installed) error {
	errs := []error{a.objects.Jobs.Put(uint32(id), aggregatorJob{})}
	if len(a.attached) > 0 {
		errs = append(errs, waitForPackets())
	}
	for _, m := range in.job.Members {
		key := aggregatorMemberKey{Addr: networkOrder(m.Addr), Job: uint32(id)}
		if err := a.objects.Members.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, a.uninstallParent(id, in.job.Parent))
	a.regions[in.class].Give(in.slots.first, in.slots.count)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove job %d: %w", id, err)
	}
	return nil
}

// networkOrder is the address as the program sees it: its bytes as they are on
// the wire, read as an integer of the machine.
func networkOrder(addr netip.Addr) uint32 {
	b := addr.As4()
	return binary.NativeEndian.Uint32(b[:])
}

func swap16(port uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], port)
	return binary.NativeEndian.Uint16(b[:])
}
