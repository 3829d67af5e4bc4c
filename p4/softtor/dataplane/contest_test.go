package dataplane

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/wire"
)

// contender is DATA of jobB in the slot that jobA.data(_, 5, elems) takes, with a priority.
func contender(worker int, priority uint8, elems int) packet {
	return jobB.data(worker, 5+64, elems).with(func(p *packet) { p.header.Priority = priority })
}

// TestPreemption: a more urgent chunk takes the slot; what was in it leaves in
// the packet, to its own home.
func TestPreemption(t *testing.T) {
	for limit := range shared {
		for elems := 32; elems <= limit; elems *= 5 {
			r := setUp(t, limit, jobA, jobB)
			marked := jobA.data(0, 5, elems).with(func(p *packet) { p.tos, p.header.Op = 3, wire.Max })
			r.send("incumbent", marked, nil, jobA.at("claimed"))
			r.send("incumbent, second", jobA.data(2, 5, elems).with(func(p *packet) { p.header.Op = wire.Max }), nil, jobA.at("merged"))
			p := contender(3, 3, elems)
			largest := make([]int32, elems)
			for i := range largest {
				largest[i] = max(value(0, 5, i), value(2, 5, i))
			}
			evicted := jobA.partial(p, 5, wire.ECN, 5, largest)
			evicted[0].header.Op = wire.Max
			r.send("preempts", p, evicted, jobB.at("preempts"), jobA.at("preempted"))
			want := map[uint32]Slot{69: {ID: 69 ^ jobB.key, Urgency: 3 << 24, Tag: 0xff08fe00, Bitmap: 8}}
			if diff := cmp.Diff(want, r.state().Slots); diff != "" {
				t.Errorf("slots (-want +got)\n%s", diff)
			}
			for w := range 2 {
				r.send("next", contender(w, 3, elems), nil, jobB.at("merged"))
			}
			last := contender(2, 3, elems)
			r.send("last", last, jobB.result(last, 0, sum(69, elems, 0, 1, 2, 3)), jobB.at("completed"))
		}
	}
}

// TestAging: an equal takes the slot when the incumbent has lost 128 contests,
// and one that still moves does not age.
func TestAging(t *testing.T) {
	r := setUp(t, 32, jobA, jobB)
	p := contender(1, jobA.priority, 32)
	r.send("incumbent", jobA.data(0, 5, 32), nil, jobA.at("claimed"))
	for range 128 {
		r.send("spilled", p, p.passed(), jobB.at("spilled"))
	}
	if s, err := r.Slot(69); err != nil || s.Urgency != uint32(jobA.priority)<<24-128<<16 {
		t.Errorf("slot %+v, error %v", s, err)
	}
	r.send("another of 128", p, p.passed(), jobB.at("spilled"))
	r.send("refreshed by a duplicate", jobA.data(0, 5, 32), nil, jobA.at("duplicate"))
	if s, err := r.Slot(69); err != nil || s.Urgency != uint32(jobA.priority)<<24 {
		t.Errorf("slot %+v, error %v", s, err)
	}
	for range 129 {
		r.send("spilled", p, p.passed(), jobB.at("spilled"))
	}
	r.send("refreshed by a merge", jobA.data(1, 5, 32), nil, jobA.at("merged"))
	for range 129 {
		r.send("spilled", p, p.passed(), jobB.at("spilled"))
	}
	r.send("preempts", p, jobA.partial(p, 5, 0, 3, sum(5, 32, 0, 1)), jobB.at("preempts"), jobA.at("preempted"))
	lower := jobA.data(0, 5, 32).with(func(p *packet) { p.header.Priority = 1 })
	r.send("less urgent", lower, lower.passed(), jobA.at("spilled"))
	r.send("much more urgent", contender(2, 127, 32), nil, jobB.at("merged"))
	if s, err := r.Slot(69); err != nil || s.Urgency != 127<<24 {
		t.Errorf("slot %+v, error %v", s, err)
	}
}

// TestFirstCome: nobody preempts and nothing ages.
func TestFirstCome(t *testing.T) {
	first, second := jobA, jobB
	first.mode, second.mode = FirstComeSlots, FirstComeSlots
	r := setUp(t, 32, first, second)
	r.send("incumbent", jobA.data(0, 5, 32), nil, jobA.at("claimed"))
	before := r.state().Slots
	for range 300 {
		p := contender(1, 127, 32)
		r.send("late", p, p.passed(), jobB.at("spilled"))
	}
	if diff := cmp.Diff(before, r.state().Slots); diff != "" {
		t.Errorf("slots (-want +got)\n%s", diff)
	}
}

// TestSameIDOfTwoJobs: what cannot be told apart by its id spills, and what may
// not rest loses the slot's content.
func TestSameIDOfTwoJobs(t *testing.T) {
	twin := jobB
	twin.key = jobA.key
	r := setUp(t, 32, jobA, twin)
	r.send("incumbent", jobA.data(0, 5, 32), nil, jobA.at("claimed"))
	before := r.state().Slots
	p := twin.data(1, 5, 32).with(func(p *packet) { p.header.Priority = 127 })
	r.send("twin", p, p.passed(), twin.at("spilled"))
	if diff := cmp.Diff(before, r.state().Slots); diff != "" {
		t.Errorf("slots (-want +got)\n%s", diff)
	}
	r.send("twin, resent", p.resend(), p.resend().passed(), twin.at("passed"))
	if s := r.state().Slots; len(s) != 0 {
		t.Errorf("slots %v", s)
	}
}

// TestTakesAlong: DATA that may not rest takes what the slot has of its chunk.
func TestTakesAlong(t *testing.T) {
	for limit := range shared {
		for name, change := range map[string]func(*packet){
			"RESEND":      func(p *packet) { p.header.Flags = wire.Resend },
			"PARTIAL":     func(p *packet) { p.header.Flags = wire.Partial },
			"no priority": func(p *packet) { p.header.Priority = 0 },
		} {
			r := setUp(t, limit, jobA, jobB)
			r.send("incumbent", jobA.data(0, 5, 32), nil, jobA.at("claimed"))
			p := contender(1, 5, 32).with(change)
			r.send(name+", other chunk", p, p.passed(), jobB.at("passed"))
			p = jobA.data(1, 5, 32).with(change)
			r.send(name+", disjoint", p, jobA.partial(p, 5, p.header.Flags, 3, sum(5, 32, 0, 1)), jobA.at("resend_evicted"))
			r.send(name+", nothing there", p, p.passed(), jobA.at("passed"))
			r.send("first", jobA.data(0, 5, 32), nil, jobA.at("claimed"))
			r.send("second", jobA.data(1, 5, 32), nil, jobA.at("merged"))
			r.send(name+", subset", p, jobA.partial(p, 5, p.header.Flags, 3, sum(5, 32, 0, 1)), jobA.at("resend_evicted"))
			if s := r.state().Slots; len(s) != 0 {
				t.Errorf("slots %v", s)
			}
		}
	}
	r := setUp(t, 32, jobA)
	r.must(r.SetMember(MemberKey{2, workerAddr(1), jobA.id}, &Member{Role: Worker, Bits: 6, Rest: 1}))
	r.must(r.SetMember(MemberKey{3, workerAddr(2), jobA.id}, &Member{Role: Worker, Bits: 6, Rest: 1}))
	r.send("first", jobA.data(0, 5, 32), nil, jobA.at("claimed"))
	r.must(r.SetMember(MemberKey{1, workerAddr(0), jobA.id}, &Member{Role: Worker, Bits: 7}))
	p := jobA.data(0, 5, 32).resend().with(func(p *packet) { p.header.Bitmap = 3 })
	r.send("overlap", p, jobA.partial(p, 5, wire.Resend, 1, sum(5, 32, 0)), jobA.at("overlap"))
	if s := r.state().Slots; len(s) != 0 {
		t.Errorf("slots %v", s)
	}
}

// TestResultFrees: a RESULT frees its chunk's slot and goes on; the switch's own
// copy ends there.
func TestResultFrees(t *testing.T) {
	const echoPort = 68
	r := setUp(t, 32, jobA, jobB)
	r.must(r.SetMember(MemberKey{echoPort, torAddr, jobA.id}, &Member{Role: Echo}))
	fromHome := func(seq uint32) packet {
		return jobA.result(jobA.data(0, seq, 32), 0, sum(seq, 32, 0, 1, 2))[0].with(func(p *packet) {
			p.port, p.src = homePort, withPort(homeAddr, firstPort)
		})
	}
	toAll := func(p packet) (all []packet) {
		for i := range jobA.workers {
			all = append(all, p.with(func(p *packet) { p.port = Port(i + 1) }))
		}
		return all
	}
	r.send("nothing there", fromHome(5), toAll(fromHome(5)), jobA.at("forwarded"))
	r.send("claim", jobA.data(0, 5, 32), nil, jobA.at("claimed"))
	r.send("another chunk's", fromHome(69), toAll(fromHome(69)), jobA.at("forwarded"))
	r.send("its own", fromHome(5), toAll(fromHome(5)), jobA.at("freed"))
	r.send("again", fromHome(5), toAll(fromHome(5)), jobA.at("forwarded"))
	r.send("claim", jobA.data(0, 5, 32), nil, jobA.at("claimed"))
	toHome := jobA.data(1, 5, 32).with(func(p *packet) { p.header.Type, p.header.Bitmap = wire.Result, 7 })
	r.send("a worker's", toHome, toHome.passed(), jobA.at("freed"))
	r.send("claim", jobA.data(0, 5, 32), nil, jobA.at("claimed"))
	echo := fromHome(5).with(func(p *packet) { p.port, p.src = echoPort, withPort(torAddr, firstPort) })
	r.send("echo", echo, nil, jobA.at("freed"))
	r.send("echo of nothing", echo, nil, jobA.at("forwarded"))
	if s := r.state().Slots; len(s) != 0 {
		t.Errorf("slots %v", s)
	}
}
