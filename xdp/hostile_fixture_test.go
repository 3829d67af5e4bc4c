package xdp

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"spillway/wire"
	"spillway/wire/hostile"
)

// The jobs under attack: one with a ToR, whose partial sums may have any bits, one of unicast copies, one with a quorum and a ToR, and one
// whose home is a node of a tree (innerJob), with a ToR. They have chunks of 64 elements and lie side by side in one class of slots. They are on other ports of the home.
const (
	attackedSlots = 64
	attackedRing  = 16
	// attackedQuorum is the job with a quorum, whose ring is as large.
	attackedQuorum = 3
	// attackedNode is the job of the tree.
	attackedNode = 4
)

var attackedTor = netip.MustParseAddr("10.77.0.253")

func attackedJobs() []Job {
	a := testJob(3, 64)
	a.HomePorts = 2
	a.Members = append(a.Members, Member{Addr: attackedTor, Bits: wire.FullBitmap(3)})
	b := testJob(4, 64)
	b.ID, b.Generation, b.Cookie, b.Group = 2, 0xff, 1, netip.Addr{}
	b.Home = netip.AddrPortFrom(homeAddr, wire.BasePort+2)
	for i := range b.Members {
		b.Members[i].MAC, b.Members[i].Ifindex = workerMAC(i), 1
	}
	c := testJob(3, 64)
	c.ID, c.Generation, c.Cookie, c.Policy = attackedQuorum, 4, 0xfeedbeee, Policy{Quorum: 2, After: time.Millisecond}
	c.Home = netip.AddrPortFrom(homeAddr, wire.BasePort+3)
	c.Members = append(c.Members, Member{Addr: attackedTor, Bits: wire.FullBitmap(3)})
	d := innerJob(3, 64)
	d.ID, d.Generation, d.Cookie, d.Home = attackedNode, 5, 0xfeedbeed, netip.AddrPortFrom(homeAddr, wire.BasePort+4)
	d.Parent.Self = netip.AddrPortFrom(nodeAddr, wire.BasePort+5)
	return []Job{a, b, c, d}
}

// An attack is an aggregator under attack: what is in its maps, as it was after the packet before.
type attack struct {
	testing.TB
	a      *Aggregator
	jobs   []Job
	world  hostile.World
	before content
	clock  time.Duration     // of the job with a quorum
	behind *behind           // of the jobs as they were last made anew; copies of an attack share it, as they share the program's maps
	met    map[string]uint64 // what only a job with a quorum does
}

// content is all that packets change: slots with their elements, and counters by the job's id, or noJob.
type content struct {
	slots    []slotContent
	counters map[int]map[string]uint64
}

const noJob = -1

// underAttack loads an aggregator of its own, so that all there is of slots can be read at once.
func underAttack(t testing.TB) *attack {
	t.Helper()
	a, err := Load(Config{MaxJobs: 16, Slots: Slots{1, attackedSlots, 1, 1}, Ports: 8, SimulatedClock: true})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	at := &attack{TB: t, a: a, jobs: attackedJobs(), behind: &behind{}, met: map[string]uint64{}}
	at.world = hostile.World{
		Addrs: []netip.Addr{homeAddr, attackedTor, groupAddr, parentAddr, nodeAddr, aboveGroup, workerAddr(tor), netip.MustParseAddr("10.77.0.77"), netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("255.255.255.255")},
		Ports: []uint16{wire.BasePort, wire.BasePort + 1, wire.BasePort + 2, wire.BasePort + 3, wire.BasePort + 4, wire.BasePort + 5, wire.BasePort + 8, wire.BasePort - 1, workerPort, 0, 0xffff},
		Jobs:  []uint16{0, 2, 3, 4, 5, 7, 15, 16, 0xffff}, Generations: []uint8{0, 1, 2, 3, 4, 5, 77, 0xfe, 0xff}, Cookies: []uint32{0, 1, 0xfeedbeef, 0xfeedbeee, 0xfeedbeed, 0xabcdef01},
		Bitmaps: []uint64{0, 1, 2, 3, 4, 6, 7, 8, 15, 16, 1 << 63, ^uint64(0)}, Slots: []uint16{0, 1, 64, 65, 127, 128, 0xffff}, Ring: attackedRing,
		Elements: []int{0, 1, 31, 32, 33, 63, 64, 65, 96, 832, 833},
	}
	for rank := range 5 {
		at.world.Addrs = append(at.world.Addrs, workerAddr(rank))
	}
	at.renew()
	return at
}

// renew makes the jobs anew, with empty slots.
func (at *attack) renew() {
	at.Helper()
	for _, j := range at.jobs {
		if err := at.a.RemoveJob(j.ID); err != nil && !errors.Is(err, ErrNoJob) {
			at.Fatal(err)
		}
		if err := at.a.AddJob(j); err != nil {
			at.Fatal(err)
		}
	}
	at.before, *at.behind = at.content(), behind{}
}

// wait lets time pass for the job with a quorum.
func (at *attack) wait(d time.Duration) {
	at.Helper()
	at.clock += d
	if err := at.a.SetClock(attackedQuorum, at.clock); err != nil {
		at.Fatal(err)
	}
}

// honest is a valid packet of a member, for one of the chunks from base on.
func (at *attack) honest(rng *rand.Rand, base uint32) []byte {
	job := at.jobs[rng.IntN(len(at.jobs))]
	if job.Parent != nil && rng.IntN(2) == 0 {
		return honestParent(rng, &job, base)
	}
	who := job.Members[rng.IntN(len(job.Members))]
	h := wire.Header{
		Version: wire.Version, Type: wire.Data, Job: job.ID, Generation: job.Generation, Cookie: job.Cookie, Priority: 1,
		Seq: base + uint32(rng.IntN(job.Window)), Bitmap: who.Bits, Elems: 64, Slot: 0xffff,
	}
	if who.aggregates() {
		h.Bitmap = 1 + rng.Uint64N(who.Bits)
	}
	if rng.IntN(3) == 0 {
		h.Flags = wire.Resend
	}
	switch rng.IntN(8) {
	case 0:
		h.Type, h.Elems = wire.Probe, 0
	case 1:
		h.Type, h.Bitmap = wire.Result, wire.FullBitmap(job.Workers)
	}
	payload := make([]byte, wire.HeaderSize+int(h.Elems)*wire.ElementSize)
	h.Encode(payload)
	for i := wire.HeaderSize; i < len(payload); i++ {
		payload[i] = byte(rng.Uint32())
	}
	home := netip.AddrPortFrom(job.Home.Addr(), job.Home.Port()+wire.HomePort(h.Seq, job.HomePorts))
	return udpFrame(workerMAC(0), homeMAC, netip.AddrPortFrom(who.Addr, workerPort), home, 2, payload)
}

// honestParent is a valid packet of a job's parent.
func honestParent(rng *rand.Rand, job *Job, base uint32) []byte {
	p := job.Parent
	h := wire.Header{
		Version: wire.Version, Type: wire.Result, Job: p.Job, Generation: p.Generation, Cookie: p.Cookie,
		Seq: base + uint32(rng.IntN(job.Window)), Bitmap: wire.FullBitmap(p.Children), Elems: 64, Slot: uint16(rng.IntN(3)<<6 | rng.IntN(4)),
	}
	if t := rng.IntN(4); t < 3 {
		h.Type, h.Elems, h.Bitmap = []wire.Type{wire.Solicit, wire.Pending, wire.Pending}[t], 0, uint64(rng.IntN(8))
		if t == 2 && rng.IntN(2) == 0 {
			h.Flags, h.Bitmap = wire.Partial, rng.Uint64()
		}
	}
	payload := make([]byte, wire.HeaderSize+int(h.Elems)*wire.ElementSize)
	h.Encode(payload)
	for i := wire.HeaderSize; i < len(payload); i++ {
		payload[i] = byte(rng.Uint32())
	}
	to := p.Self
	if rng.IntN(2) == 0 {
		to = netip.AddrPortFrom(p.Group, to.Port())
	}
	return udpFrame(parentMAC, nodeMAC, p.Home, to, 2, payload)
}

// below is the job whose parent a frame is from, by docs/protocol.md, section 9; nil: it is none's.
func (at *attack) below(f []byte) *Job {
	for i := range at.jobs {
		p := at.jobs[i].Parent
		if p != nil && p.Home.Addr().As4() == [4]byte(f[26:30]) && p.Job == binary.BigEndian.Uint16(f[46:]) && p.Self.Port() == binary.BigEndian.Uint16(f[36:]) {
			return &at.jobs[i]
		}
	}
	return nil
}

// refusalOfParent is the reason to drop what is a parent's, up to the slot.
func refusalOfParent(f []byte, job *Job) (reason string, counted int) {
	p, to, typ := job.Parent, netip.AddrFrom4([4]byte(f[30:34])), wire.Type(f[43])
	bitmap, full, flags := binary.BigEndian.Uint64(f[58:]), wire.FullBitmap(p.Children), wire.Flags(f[44])
	allowed := wire.Flags(0)
	if typ == wire.Pending {
		allowed = wire.Partial
	}
	switch {
	case to != p.Self.Addr() && to != p.Group:
		return "unknown_job", noJob
	case f[48] != p.Generation:
		reason = "bad_generation"
	case binary.BigEndian.Uint32(f[50:]) != p.Cookie:
		reason = "bad_cookie"
	case int(binary.BigEndian.Uint16(f[66:])) > job.Elements:
		reason = "bad_elems"
	case typ == wire.Result && (bitmap != full || flags&wire.Partial != 0):
		reason = "bad_bitmap"
	case typ == wire.Result:
	case flags&^allowed != 0:
		reason = "bad_flags"
	case flags == 0 && bitmap&^full != 0:
		reason = "bad_bitmap"
	}
	return reason, int(job.ID)
}

// content reads the maps whole, for there are many packets.
func (at *attack) content() content {
	at.Helper()
	c := content{slots: make([]slotContent, attackedSlots), counters: map[int]map[string]uint64{}}
	all, payloads := make([]aggregatorSlot, at.a.config.Slots.total()), make([][64]int32, attackedSlots)
	keys := make([]uint32, len(all))
	var cursor ebpf.MapBatchCursor
	if _, err := at.a.objects.Slots.BatchLookup(&cursor, keys, all, nil); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		at.Fatal(err)
	}
	cursor = ebpf.MapBatchCursor{}
	if _, err := at.a.objects.Payload64Map.BatchLookup(&cursor, keys[:attackedSlots], payloads, nil); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		at.Fatal(err)
	}
	first := at.a.config.Slots.base(1)
	for i := range c.slots {
		s := all[first+uint32(i)]
		c.slots[i] = slotContent{s.Seq, s.Tenant, s.Bitmap, s.Elems, s.Op, s.Flags, s.Complete, payloads[i]}
	}
	var err error
	if c.counters[noJob], err = at.a.UnknownJobCounters(); err != nil {
		at.Fatal(err)
	}
	for _, j := range at.jobs {
		if c.counters[int(j.ID)], err = at.a.Counters(j.ID); err != nil {
			at.Fatal(err)
		}
	}
	return c
}

// refusal is docs/protocol.md, section 3, up to the slot, in other words than the program's: whether the frame is the aggregator's at all, the
// reason to drop it, whose counter that goes to, and, if there is none, the job.
func (at *attack) refusal(f []byte) (mine bool, reason string, counted int, admitted *Job) {
	if len(f) < 42 || binary.BigEndian.Uint16(f[12:]) != 0x0800 || f[14]&15 != 5 || f[23] != 17 {
		return false, "", 0, nil
	}
	if [4]byte(f[26:30]) == [4]byte(f[30:34]) {
		return true, "not_member", noJob, nil
	}
	if f[14] != 0x45 || binary.BigEndian.Uint16(f[20:])&0x1fff != 0 {
		return false, "", 0, nil
	}
	port := binary.BigEndian.Uint16(f[36:])
	if port < wire.BasePort || port >= wire.BasePort+at.a.config.Ports {
		return false, "", 0, nil
	}
	ip, udp := int(binary.BigEndian.Uint16(f[16:])), int(binary.BigEndian.Uint16(f[38:]))
	if len(f) < 70 || f[20]&0x20 != 0 || ip != len(f)-14 || udp != ip-20 {
		return true, "bad_length", noJob, nil
	}
	elems := int(binary.BigEndian.Uint16(f[66:]))
	typ := wire.Type(f[43])
	switch {
	case f[42] != wire.Version:
		return true, "bad_version", noJob, nil
	case typ < wire.Data || typ > wire.Probe, (typ == wire.Solicit || typ == wire.Pending) && at.below(f) == nil:
		return true, "bad_type", noJob, nil
	case f[44] > 15:
		return true, "bad_flags", noJob, nil
	case f[45] > 2:
		return true, "bad_op", noJob, nil
	case (elems == 0) != (typ >= wire.Solicit) || elems > wire.MaxElements:
		return true, "bad_elems", noJob, nil
	case udp != 36+4*elems:
		return true, "bad_length", noJob, nil
	}
	if job := at.below(f); job != nil && typ != wire.Data && typ != wire.Probe {
		reason, counted = refusalOfParent(f, job)
		return true, reason, counted, job
	}
	i := slices.IndexFunc(at.jobs, func(j Job) bool { return j.ID == binary.BigEndian.Uint16(f[46:]) })
	if i < 0 || [4]byte(f[30:34]) != homeAddr.As4() || port < at.jobs[i].Home.Port() || port >= at.jobs[i].Home.Port()+at.jobs[i].HomePorts {
		return true, "unknown_job", noJob, nil
	}
	job := &at.jobs[i]
	who := slices.IndexFunc(job.Members, func(m Member) bool { return m.Addr.As4() == [4]byte(f[26:30]) })
	bitmap, full := binary.BigEndian.Uint64(f[58:]), wire.FullBitmap(job.Workers)
	switch {
	case f[48] != job.Generation:
		reason = "bad_generation"
	case binary.BigEndian.Uint32(f[50:]) != job.Cookie:
		reason = "bad_cookie"
	case elems > job.Elements:
		reason = "bad_elems"
	case who < 0:
		reason = "not_member"
	case bitmap == 0,
		typ == wire.Result && bitmap != full && (f[44]&byte(wire.Partial) == 0 || bitmap&^full != 0 || job.Parent != nil),
		typ != wire.Result && bitmap&^job.Members[who].Bits != 0:
		reason = "bad_bitmap"
	}
	return true, reason, int(job.ID), job
}
