package xdp

import (
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"

	"spillway/wire"
)

// Parent is the node above this one in a tree (docs/protocol.md, section 9): it gets the sum of the job's members here as one contribution,
// and its RESULT is published to them. A job has its own name at each node, so ids need not agree.
type Parent struct {
	// Home is the parent's address and the first of its HomePorts ports, which must be none that a ToR takes for homes'.
	Home      netip.AddrPort
	HomePorts uint16
	// Shards is how many homes the job has at each level; this node sends all that it sums to the one parent. 0 means 1.
	Shards int
	// Job, Generation and Cookie are the job's there.
	Job        uint16
	Generation uint8
	Cookie     uint32
	// Children is how many the parent has, Rank which of them this node is.
	Children, Rank int
	// Self is this node's address as the parent's member, and the port, one of the aggregator's, to which the parent's packets come. The job's own HomePorts are others.
	Self netip.AddrPort
	// Group is the parent's multicast group; not valid: the parent sends copies.
	Group netip.Addr
	// MAC is the next hop on the way to the parent, SelfMAC that of the interface it is behind.
	MAC, SelfMAC net.HardwareAddr
	// ChildrenMAC is that of the interface that the members are behind.
	ChildrenMAC net.HardwareAddr
	// Up and Down are these interfaces. 0: the one that the packet which is answered came from.
	Up, Down int
}

// maxHomePorts bounds the ports of a home.
const maxHomePorts = 1 << 15

// What the program calls TERM_INNER and TERM_ABOVE (bpf/quorum.h). Of an other number TestTreeRules would see nothing go up, or come down.
const (
	termInner = 1 << 3
	termAbove = 1 << 4
)

// validate says what is wrong with the parent of a job, if anything.
func (p *Parent) validate(j *Job) error {
	switch {
	case !p.Home.Addr().Is4() || p.Home.Port() == 0:
		return fmt.Errorf("parent %v: want an IPv4 address and a port", p.Home)
	case p.HomePorts == 0 || p.HomePorts > maxHomePorts || p.HomePorts&(p.HomePorts-1) != 0:
		return fmt.Errorf("%d ports of the parent: want a power of two", p.HomePorts)
	case p.Shards < 0 || p.Shards > wire.MaxChildren:
		return fmt.Errorf("%d homes of the level of parent %v: want 1 to %d", p.Shards, p.Home, wire.MaxChildren)
	case p.Children < 1 || p.Children > wire.MaxChildren || p.Rank < 0 || p.Rank >= p.Children:
		return fmt.Errorf("child %d of the %d of parent %v: want 1 to %d children, and one of them", p.Rank, p.Children, p.Home, wire.MaxChildren)
	case !p.Self.Addr().Is4() || p.Self.Port() == 0:
		return fmt.Errorf("own address %v below parent %v: want an IPv4 address and a port", p.Self, p.Home)
	case p.Self.Addr() == p.Home.Addr():
		return fmt.Errorf("parent %v is the node itself", p.Home)
	case p.Group.IsValid() && (!p.Group.Is4() || !p.Group.IsMulticast()):
		return fmt.Errorf("group %v of parent %v: want an IPv4 multicast address", p.Group, p.Home)
	case len(p.MAC) != 6 || len(p.SelfMAC) != 6 || len(p.ChildrenMAC) != 6:
		return fmt.Errorf("parent %v: want the MAC addresses of the next hop, and of the interfaces to the parent and to the members", p.Home)
	case p.Up < 0 || p.Down < 0:
		return fmt.Errorf("parent %v: interfaces %d and %d", p.Home, p.Up, p.Down)
	case p.Self.Port() >= j.Home.Port() && p.Self.Port()-j.Home.Port() < j.HomePorts:
		return fmt.Errorf("port %d for what parent %v sends is one of the job's own", p.Self.Port(), p.Home)
	case !j.Policy.waits(j.Workers):
		return errors.New("a job with a quorum cannot have a parent: a sum of some of the members is none of all")
	}
	for _, m := range j.Members {
		if m.Addr == p.Home.Addr() {
			return fmt.Errorf("parent %v is a member as well", p.Home)
		}
	}
	return nil
}

// clone shares nothing with p.
func (p *Parent) clone() *Parent {
	if p == nil {
		return nil
	}
	c := *p
	c.MAC, c.SelfMAC, c.ChildrenMAC = cloneMAC(p.MAC), cloneMAC(p.SelfMAC), cloneMAC(p.ChildrenMAC)
	return &c
}

func cloneMAC(mac net.HardwareAddr) net.HardwareAddr { return append(net.HardwareAddr(nil), mac...) }

func (p *Parent) key() aggregatorParentKey {
	return aggregatorParentKey{Addr: networkOrder(p.Home.Addr()), Job: swap16(p.Job), Port: swap16(p.Self.Port())}
}

// installParent writes what the program needs to know of a job's parent. Its packets are taken from the moment that the job is active.
func (a *Aggregator) installParent(j *Job) error {
	p := j.Parent
	if p == nil {
		return nil
	}
	first, last := a.config.FirstPort, a.config.FirstPort+a.config.Ports-1
	if p.Self.Port() < first || p.Self.Port() > last {
		return fmt.Errorf("port %d for what parent %v sends: this aggregator listens on %d to %d", p.Self.Port(), p.Home, first, last)
	}
	up := aggregatorUplink{
		Full: wire.FullBitmap(p.Children), Bit: 1 << p.Rank, Rank: uint8(p.Rank),
		Parent: networkOrder(p.Home.Addr()), Self: networkOrder(p.Self.Addr()),
		Job: p.Job, Generation: p.Generation, Cookie: p.Cookie,
		ParentPort: swap16(p.Home.Port()), ParentPorts: p.HomePorts, SelfPort: swap16(p.Self.Port()),
		Shards: uint16(max(p.Shards, 1)), Up: uint32(p.Up), Down: uint32(p.Down),
	}
	if p.Group.IsValid() {
		up.Group = networkOrder(p.Group)
	}
	copy(up.Mac[:], p.MAC)
	copy(up.SelfMac[:], p.SelfMAC)
	copy(up.DownMac[:], p.ChildrenMAC)
	if err := a.objects.Uplinks.Put(uint32(j.ID), up); err != nil {
		return fmt.Errorf("parent %v: %w", p.Home, err)
	}
	key := p.key()
	if err := a.objects.Parents.Update(key, aggregatorBelow{Job: uint32(j.ID), Terms: termAbove}, ebpf.UpdateNoExist); err != nil {
		return fmt.Errorf("parent %v, whose job %d comes to port %d: %w", p.Home, p.Job, p.Self.Port(), err)
	}
	return nil
}

// uninstallParent undoes installParent, also one that stopped half-way.
func (a *Aggregator) uninstallParent(id uint16, p *Parent) error {
	if p == nil {
		return nil
	}
	errs := []error{a.objects.Uplinks.Put(uint32(id), aggregatorUplink{})}
	var owner aggregatorBelow
	if err := a.objects.Parents.Lookup(p.key(), &owner); err == nil && owner.Job == uint32(id) {
		errs = append(errs, a.objects.Parents.Delete(p.key()))
	}
	return errors.Join(errs...)
}

// readParents reads back what installParent put there, and clears away what belongs to no job.
func (a *Aggregator) readParents() error {
	var orphans []aggregatorParentKey
	var key aggregatorParentKey
	var below aggregatorBelow
	found := make(map[uint16]bool)
	entries := a.objects.Parents.Iterate()
	for entries.Next(&key, &below) {
		id := below.Job
		var job aggregatorJob
		in := a.jobs[uint16(id)]
		if in == nil {
			orphans = append(orphans, key)
			continue
		}
		if err := a.objects.Jobs.Lookup(id, &job); err != nil {
			return fmt.Errorf("read job %d: %w", id, err)
		}
		var up aggregatorUplink
		if err := a.objects.Uplinks.Lookup(id, &up); err != nil {
			return fmt.Errorf("read the parent of job %d: %w", id, err)
		}
		p := parseParent(&up)
		if job.Inner == 0 || p.key() != key {
			orphans = append(orphans, key)
			continue
		}
		in.job.Parent, found[uint16(id)] = p, true
	}
	if err := entries.Err(); err != nil {
		return fmt.Errorf("read the parents: %w", err)
	}
	for _, key := range orphans {
		if err := a.objects.Parents.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove the parent of no job: %w", err)
		}
	}
	for id := range a.jobs {
		var job aggregatorJob
		if err := a.objects.Jobs.Lookup(uint32(id), &job); err != nil {
			return fmt.Errorf("read job %d: %w", id, err)
		}
		if job.Inner != 0 && !found[id] {
			return fmt.Errorf("%w: job %d has a parent that is not there", ErrDamaged, id)
		}
	}
	return nil
}

func parseParent(up *aggregatorUplink) *Parent {
	p := &Parent{
		Home: netip.AddrPortFrom(addrOf(up.Parent), swap16(up.ParentPort)), HomePorts: up.ParentPorts, Shards: int(up.Shards),
		Job: up.Job, Generation: up.Generation, Cookie: up.Cookie, Children: bits.OnesCount64(up.Full), Rank: int(up.Rank),
		Self: netip.AddrPortFrom(addrOf(up.Self), swap16(up.SelfPort)),
		MAC:  up.Mac[:], SelfMAC: up.SelfMac[:], ChildrenMAC: up.DownMac[:], Up: int(up.Up), Down: int(up.Down),
	}
	if up.Group != 0 {
		p.Group = addrOf(up.Group)
	}
	return p
}
