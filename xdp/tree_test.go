package xdp

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/wire"
)

// The node of the tests is child 1 of 3 below a parent that knows its job as 5, in a network of its own.
var (
	parentAddr = netip.MustParseAddr("10.78.0.9")
	nodeAddr   = netip.MustParseAddr("10.78.0.2")
	aboveGroup = netip.MustParseAddr("239.78.0.5")
	parentMAC  = net.HardwareAddr{2, 0, 0, 0, 1, 9}
	nodeMAC    = net.HardwareAddr{2, 0, 0, 0, 1, 2}
)

const (
	parentPort = 9740
	nodePort   = wire.BasePort + 3
)

func innerJob(n, elements int) Job {
	j := testJob(n, elements)
	j.Parent = &Parent{
		Home: netip.AddrPortFrom(parentAddr, parentPort), HomePorts: 2, Job: 5, Generation: 77, Cookie: 0xabcdef01, Children: 3, Rank: 1,
		Self: netip.AddrPortFrom(nodeAddr, nodePort), Group: aboveGroup, MAC: parentMAC, SelfMAC: nodeMAC, ChildrenMAC: homeMAC,
	}
	j.Members = append(j.Members, Member{Addr: workerAddr(tor), Bits: wire.FullBitmap(n)})
	return j
}

// above is a packet of the parent.
func above(typ wire.Type, seq uint32, bitmap uint64, flags wire.Flags, slot uint16, elements ...int32) []byte {
	h := wire.Header{
		Version: wire.Version, Type: typ, Flags: flags, Job: 5, Generation: 77, Cookie: 0xabcdef01, Seq: seq, Bitmap: bitmap, Elems: uint16(len(elements)), Slot: slot,
	}
	f := frame(0, h, elements)
	return udpFrame(parentMAC, nodeMAC, netip.AddrPortFrom(parentAddr, parentPort), netip.AddrPortFrom(nodeAddr, nodePort), 2, f[42:])
}

func loadTree(t testing.TB, jobs ...Job) *Aggregator {
	t.Helper()
	a, err := Load(Config{MaxJobs: 16, Slots: Slots{256, 64, 1, 1}, Ports: 4})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, j := range jobs {
		if err := a.AddJob(j); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// where a packet of the node goes.
const (
	nowhere = iota
	up
	down
	back // to the sender
)

// TestTreeRules goes through docs/protocol.md, section 9, row by row. The node's own bit at the parent is 2.
func TestTreeRules(t *testing.T) {
	const (
		D, R, P, S, W = wire.Data, wire.Result, wire.Probe, wire.Solicit, wire.Pending
		resend        = wire.Resend
		own           = 1<<6 | 2 // the slot of what this node asked for its child 2
		foreign       = 2<<6 | 1 // and of what another node asked
	)
	type step struct {
		name     string
		frame    []byte
		to       int
		typ      wire.Type
		flags    wire.Flags
		bitmap   uint64
		slot     uint16
		elements []int32
		counted  []string
	}
	data := func(rank int, flags wire.Flags, x ...int32) []byte {
		return frame(rank, packet(D, rank, 70, 1<<rank, flags, len(x)), x)
	}
	probe := func(rank int) []byte { return frame(rank, packet(P, rank, 70, 1<<rank, 0, 0), nil) }
	result := func(rank int, seq uint32, x ...int32) []byte {
		return frame(rank, packet(R, rank, seq, 7, 0, len(x)), x)
	}
	sum := []step{
		{"first", data(0, 0, 1, 2), nowhere, 0, 0, 0, 0, nil, []string{"data", "claimed"}},
		{"second", data(1, 0, 10, 20), nowhere, 0, 0, 0, 0, nil, []string{"data", "merged"}},
		{"the sum goes up", data(2, 0, 100, 200), up, D, 0, 2, own, []int32{111, 222}, []string{"data", "merged", "sent_up"}},
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"up, and the RESULT down", append(slices.Clone(sum),
			step{"a duplicate", data(1, 0, 10, 20), up, D, 0, 2, 1<<6 | 1, []int32{111, 222}, []string{"data", "sent_up"}},
			step{"a RESEND", data(2, resend, 100, 200), up, D, resend, 2, own, []int32{111, 222}, []string{"data", "sent_up"}},
			step{"a PROBE", probe(2), up, P, 0, 2, own, nil, []string{"probe", "asked_up"}},
			step{"RESULT", above(R, 70, 7, wire.Saturated|wire.ECN, own, 1000, 2000), down, R, wire.Saturated | wire.ECN, 7, 0x1234, []int32{1000, 2000}, []string{"result", "restored", "published"}},
			step{"RESULT again", above(R, 70, 7, 0, own, 1000, 2000), nowhere, 0, 0, 0, 0, nil, []string{"result", "duplicate_result"}},
			step{"a late RESEND", data(0, resend, 1, 2), back, R, wire.Saturated | wire.ECN, 7, 0x1234, []int32{1000, 2000}, []string{"data", "result_resent"}},
			step{"a late PROBE", probe(0), back, W, 0, 7, 0x1234, nil, []string{"probe", "pending"}},
			step{"the parent lost it", above(S, 70, 1, 0, foreign), down, S, 0, 6, 1023 << 6, nil, []string{"passed_down"}},
			step{"a child gives it", result(0, 70, 1000, 2000), up, R, 0, 7, 1 << 6, []int32{1000, 2000}, []string{"result", "returned_up"}},
			step{"the parent has this node's", above(S, 70, 3, 0, foreign), nowhere, 0, 0, 0, 0, nil, []string{"needless"}},
			step{"a late PENDING", above(W, 70, 0, 0, own), nowhere, 0, 0, 0, 0, nil, []string{"needless"}},
		)},
		{"the parent's word while it waits", append(slices.Clone(sum),
			step{"it lost the sum", above(W, 70, 5, 0, own), down, S, 0, 3, 2 << 6, nil, []string{"passed_down"}},
			step{"it lost the sum, others ask", above(S, 70, 5, 0, foreign), down, S, 0, 6, 1023 << 6, nil, []string{"passed_down"}},
			step{"it has the sum", above(W, 70, 3, 0, own), down, W, wire.Partial, 3, 2 << 6, nil, []string{"passed_down"}},
			step{"it has the sum, to all", above(S, 70, 3, 0, own), down, W, wire.Partial, 3, 2 << 6, nil, []string{"passed_down"}},
			step{"it has the sum, others ask", above(S, 70, 3, 0, foreign), nowhere, 0, 0, 0, 0, nil, []string{"needless"}},
			step{"a level above has", above(W, 70, 0xf0, wire.Partial, own), down, W, wire.Partial, 0xf0, 2 << 6, nil, []string{"passed_down"}},
			step{"it is done", above(W, 70, 7, 0, own), down, S, 0, 3, 2 << 6, nil, []string{"passed_down"}},
			step{"a child knows the RESULT", result(1, 70, 1000, 2000), down, R, 0, 7, 0x1234, []int32{1000, 2000}, []string{"result", "restored", "published"}},
		)},
		{"not all are in it", []step{
			{"first", data(0, 0, 1, 2), nowhere, 0, 0, 0, 0, nil, []string{"data", "claimed"}},
			{"the parent asks", above(S, 70, 1, 0, foreign), down, S, 0, 1, 1023 << 6, nil, []string{"passed_down"}},
			{"the parent has it", above(S, 70, 2, 0, foreign), nowhere, 0, 0, 0, 0, nil, []string{"needless"}},
			{"a PENDING of before", above(W, 70, 0, 0, own), nowhere, 0, 0, 0, 0, nil, []string{"needless"}},
			{"a PROBE is answered here", probe(1), down, S, 0, 1, 0x1234, nil, []string{"probe", "solicited"}},
			{"RESULT of another length", above(R, 70, 7, 0, own, 1), nowhere, 0, 0, 0, 0, nil, []string{"result", "mismatch"}},
			{"RESULT", above(R, 70, 7, 0, own, 5, 6), down, R, 0, 7, 0x1234, []int32{5, 6}, []string{"result", "restored", "published"}},
		}},
		{"nothing is here", []step{
			{"the parent asks", above(S, 70, 0, 0, foreign), down, S, 0, 0, 1023 << 6, nil, []string{"passed_down"}},
			{"the parent has it", above(S, 70, 2, 0, foreign), nowhere, 0, 0, 0, 0, nil, []string{"needless"}},
			{"a child gives a RESULT", result(2, 70, 5, 6), up, R, 0, 7, own, []int32{5, 6}, []string{"result", "returned_up"}},
			{"a PROBE", probe(2), back, W, 0, 0, 0x1234, nil, []string{"probe", "pending"}},
			{"RESULT", above(R, 70, 7, 0, own, 5, 6), down, R, 0, 7, 0xffff, []int32{5, 6}, []string{"result", "restored", "published"}},
			{"older RESULT", above(R, 70-16, 7, 0, own, 5, 6), nowhere, 0, 0, 0, 0, nil, []string{"result", "stale"}},
			{"older SOLICIT", above(S, 70-16, 0, 0, foreign), nowhere, 0, 0, 0, 0, nil, []string{"stale"}},
			{"a child's older RESULT", result(2, 70-16, 5, 6), nowhere, 0, 0, 0, 0, nil, []string{"result", "stale"}},
			{"newer RESULT", above(R, 70+16, 7, 0, own, 7, 8), down, R, 0, 7, 0xffff, []int32{7, 8}, []string{"result", "restored", "published"}},
		}},
		{"a ToR's sum of all", []step{
			{"sum", frame(tor, packet(D, 0, 70, 7, 0, 2), []int32{7, 8}), up, D, 0, 2, 1 << 6, []int32{7, 8}, []string{"data", "claimed", "sent_up"}},
			{"again, with a RESEND", frame(tor, packet(D, 0, 70, 5, resend, 2), []int32{5, 5}), up, D, resend, 2, 1 << 6, []int32{7, 8}, []string{"data", "sent_up"}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := loadTree(t, innerJob(3, 32))
			for _, s := range c.steps {
				before := allCounters(t, a, 7)
				verdict := Transmit
				if s.to == nowhere {
					verdict = Drop
				}
				got := send(t, a, s.frame, verdict)
				expectCounters(t, before, allCounters(t, a, 7), s.counted...)
				if s.to != nowhere {
					checkTreePacket(t, s.name, s.to, got)
					g := got.header
					want := wire.Header{Type: s.typ, Flags: s.flags, Bitmap: s.bitmap, Slot: s.slot}
					if diff := cmp.Diff(want, wire.Header{Type: g.Type, Flags: g.Flags, Bitmap: g.Bitmap, Slot: g.Slot}); diff != "" || !slices.Equal(got.elements, s.elements) {
						t.Errorf("%s: elements %v, want %v; %s", s.name, got.elements, s.elements, diff)
					}
				}
				if t.Failed() {
					t.FailNow()
				}
			}
		})
	}
}

// checkTreePacket checks the addresses and the job's name.
func checkTreePacket(t *testing.T, name string, to int, got answer) {
	t.Helper()
	h := got.header
	switch to {
	case up:
		// Chunk 70 is in the second run of 64, and the parent has two ports.
		if got.src != netip.AddrPortFrom(nodeAddr, nodePort) || got.dst != netip.AddrPortFrom(parentAddr, parentPort+1) || got.dstMAC.String() != parentMAC.String() ||
			got.srcMAC.String() != nodeMAC.String() || h.Job != 5 || h.Generation != 77 || h.Cookie != 0xabcdef01 || h.Priority != 0 {
			t.Errorf("%s: up went %+v", name, got)
		}
	case down:
		if got.src != netip.AddrPortFrom(homeAddr, wire.BasePort) || got.dst != netip.AddrPortFrom(groupAddr, workerPort) || got.srcMAC.String() != homeMAC.String() ||
			h.Job != 7 || h.Generation != 3 || h.Cookie != 0xfeedbeef {
			t.Errorf("%s: down went %+v", name, got)
		}
	case back:
		if got.dst.Port() != workerPort || got.src != netip.AddrPortFrom(homeAddr, wire.BasePort) || h.Job != 7 {
			t.Errorf("%s: back went %+v", name, got)
		}
	}
}

// TestTreeBadInput: what comes in a parent's name, and is not as a parent's, is dropped for its reason.
func TestTreeBadInput(t *testing.T) {
	a := loadTree(t, innerJob(3, 32))
	const R, S, W = wire.Result, wire.Solicit, wire.Pending
	change := func(f []byte, at int, b ...byte) []byte {
		f = slices.Clone(f)
		copy(f[at:], b)
		return f
	}
	good, word := above(R, 70, 7, 0, 0, 1, 2), above(S, 70, 0, 0, 0)
	for _, c := range []struct {
		name, reason string
		frame        []byte
	}{
		{"another address of this node", "unknown_job", change(good, 30, 10, 77, 0, 254)},
		{"another port", "bad_type", change(word, 37, byte((wire.BasePort+2)&0xff))},
		{"another sender", "bad_type", change(word, 29, 10)},
		{"another sender's RESULT", "unknown_job", change(good, 29, 10)},
		{"another job", "bad_type", change(word, 47, 6)},
		{"another generation", "bad_generation", change(good, 48, 3)},
		{"another cookie", "bad_cookie", change(good, 50, 0xfe, 0xed, 0xbe, 0xef)},
		{"SOLICIT of another cookie", "bad_cookie", change(word, 50, 0)},
		{"a RESULT of some", "bad_bitmap", above(R, 70, 3, wire.Partial, 0, 1, 2)},
		{"a RESULT of all and PARTIAL", "bad_bitmap", above(R, 70, 7, wire.Partial, 0, 1, 2)},
		{"a RESULT of more", "bad_bitmap", above(R, 70, 15, 0, 0, 1, 2)},
		{"more elements than the job has", "bad_elems", above(R, 70, 7, 0, 0, make([]int32, 33)...)},
		{"SOLICIT of more", "bad_bitmap", above(S, 70, 8, 0, 0)},
		{"SOLICIT with a flag", "bad_flags", above(S, 70, 1, wire.Partial, 0)},
		{"PENDING with a flag", "bad_flags", above(W, 70, 1, wire.Resend, 0)},
		{"SOLICIT with elements", "bad_elems", above(S, 70, 1, 0, 0, 1)},
		{"the parent's DATA", "unknown_job", above(wire.Data, 70, 1, 0, 0, 1, 2)},
		{"a child's partial RESULT", "bad_bitmap", frame(0, packet(R, 0, 70, 3, wire.Partial, 1), []int32{1})},
		{"a child's SOLICIT", "bad_type", frame(0, packet(S, 0, 70, 1, 0, 0), nil)},
	} {
		before := allCounters(t, a, 7)
		if verdict, _, err := a.Process(c.frame); err != nil || verdict != Drop {
			t.Errorf("%s: verdict %d, %v", c.name, verdict, err)
		}
		expectCounters(t, before, allCounters(t, a, 7), c.reason)
		if t.Failed() {
			t.Fatalf("after %q", c.name)
		}
	}
	if states, err := a.Slots(7); err != nil || len(states) != 0 {
		t.Errorf("slots %+v, %v", states, err)
	}
}

// TestTreeInterfaces: with interfaces named, packets leave by them, and in a job of copies what comes down is passed on to the replicator.
func TestTreeInterfaces(t *testing.T) {
	j := innerJob(1, 32)
	j.Parent.Up, j.Parent.Down = 1<<20, 1<<20
	a := loadTree(t, j)
	h, x := data(0, 70, 1, 2)
	if verdict, _, err := a.Process(frame(0, h, x)); err != nil || verdict != Redirect {
		t.Errorf("up: verdict %d, %v", verdict, err)
	}
	if verdict, _, err := a.Process(above(wire.Result, 70, 7, 0, 0, 1, 2)); err != nil || verdict != Redirect {
		t.Errorf("down: verdict %d, %v", verdict, err)
	}
	if err := a.RemoveJob(7); err != nil {
		t.Fatal(err)
	}
	j.Group, j.Members = netip.Addr{}, j.Members[:1]
	j.Members[0].MAC, j.Members[0].Ifindex = workerMAC(0), 1
	if err := a.AddJob(j); err != nil {
		t.Fatal(err)
	}
	verdict, out, err := a.Process(above(wire.Result, 70, 7, 0, 0, 1, 2))
	if err != nil || verdict != Pass {
		t.Fatalf("copies: verdict %d, %v", verdict, err)
	}
	if got := parseAnswer(t, out); got.src.Addr() != homeAddr || got.dst.Addr() != homeAddr || got.header.Bitmap != 1 {
		t.Errorf("copies of %+v", got)
	}
}

// TestParentRefused: what cannot be a parent, and that nothing of such a job stays behind.
func TestParentRefused(t *testing.T) {
	a := loadTree(t)
	for want, spoil := range map[string]func(*Job){
		"want an IPv4 address and a port":          func(j *Job) { j.Parent.Home = netip.AddrPort{} },
		"3 ports of the parent":                    func(j *Job) { j.Parent.HomePorts = 3 },
		"child 3 of the 3":                         func(j *Job) { j.Parent.Rank = 3 },
		"is the node itself":                       func(j *Job) { j.Parent.Self = netip.AddrPortFrom(parentAddr, nodePort) },
		"own address":                              func(j *Job) { j.Parent.Self = netip.AddrPort{} },
		"is one of the job's own":                  func(j *Job) { j.Parent.Self = netip.AddrPortFrom(nodeAddr, wire.BasePort) },
		"this aggregator listens on":               func(j *Job) { j.Parent.Self = netip.AddrPortFrom(nodeAddr, 9999) },
		"is a member as well":                      func(j *Job) { j.Parent.Home = netip.AddrPortFrom(workerAddr(0), parentPort) },
		"MAC addresses":                            func(j *Job) { j.Parent.SelfMAC = nil },
		"want an IPv4 multicast address":           func(j *Job) { j.Parent.Group = nodeAddr },
		"a job with a quorum cannot have a parent": func(j *Job) { j.Policy = Policy{Quorum: 2, After: time.Second} },
		"65 homes of the level":                    func(j *Job) { j.Parent.Shards = 65 },
		"interfaces -1":                            func(j *Job) { j.Parent.Up = -1 },
	} {
		j := innerJob(3, 32)
		spoil(&j)
		if err := a.AddJob(j); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	one, two := innerJob(3, 32), innerJob(3, 32)
	two.ID = 8
	if err := a.AddJob(one); err != nil {
		t.Fatal(err)
	}
	if err := a.AddJob(two); err == nil || !strings.Contains(err.Error(), "whose job 5 comes to port") {
		t.Errorf("two jobs whose parent's packets are the same: %v", err)
	}
	if got := a.Jobs(); len(got) != 1 || got[0].Parent == nil {
		t.Errorf("jobs %+v", got)
	}
	// The refused one has not taken the other's parent away.
	send(t, a, above(wire.Result, 70, 7, 0, 0, 1, 2), Transmit)
	if err := a.RemoveJob(7); err != nil {
		t.Fatal(err)
	}
	if err := a.AddJob(two); err != nil {
		t.Errorf("after the first is gone: %v", err)
	}
}
