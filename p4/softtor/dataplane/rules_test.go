package dataplane

import (
	"math"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/wire"
)

// TestMergeRules: what becomes of DATA that may rest and meets its own chunk.
func TestMergeRules(t *testing.T) {
	for limit := range shared {
		r := setUp(t, limit, jobA)
		r.send("claim", jobA.data(0, 5, 32), nil, jobA.at("claimed"))
		want := map[uint32]Slot{69: {ID: 5 ^ jobA.key, Urgency: 2 << 24, Tag: 7<<16 | 3<<8, Bitmap: 1}}
		if diff := cmp.Diff(want, r.state().Slots); diff != "" {
			t.Errorf("slots after a claim (-want +got)\n%s", diff)
		}
		r.send("again", jobA.data(0, 5, 32), nil, jobA.at("duplicate"))
		r.send("another's", jobA.data(1, 5, 32), nil, jobA.at("merged"))
		r.send("another's, again", jobA.data(1, 5, 32), nil, jobA.at("duplicate"))
		otherOp := jobA.data(2, 5, 32).with(func(p *packet) { p.header.Op = wire.Max })
		r.send("another op", otherOp, otherOp.passed(), jobA.at("mismatch"))
		last := jobA.data(2, 5, 32)
		r.send("the last", last, jobA.result(last, 0, sum(5, 32, 0, 1, 2)), jobA.at("completed"))
		r.send("late duplicate", jobA.data(2, 5, 32), nil, jobA.at("claimed"))
	}
}

// TestElementsMustAgree: only software sums chunks of several lengths.
func TestElementsMustAgree(t *testing.T) {
	r := setUp(t, 832, jobA, jobB)
	r.send("claim", jobA.data(0, 5, 64), nil, jobA.at("claimed"))
	shorter := jobA.data(1, 5, 32)
	r.send("shorter", shorter, shorter.passed(), jobA.at("mismatch"))
	r.send("shorter, resent", shorter.resend(), shorter.resend().passed(), jobA.at("mismatch"))
	urgent := jobB.data(0, 5, 32).with(func(p *packet) { p.header.Priority = 127 })
	r.send("more urgent, shorter", urgent, urgent.passed(), jobB.at("spilled"))
	want := map[uint32]Slot{69: {ID: 5 ^ jobA.key, Urgency: 2<<24 - 1<<16, Tag: 7<<16 | 3<<8, Bitmap: 1}}
	if diff := cmp.Diff(want, r.state().Slots); diff != "" {
		t.Errorf("slots (-want +got)\n%s", diff)
	}
	// An incumbent that nobody can preempt is worn out in the end.
	for range 2*256 - 2 {
		r.send("wears out", urgent, urgent.passed(), jobB.at("spilled"))
	}
	r.send("worn out", urgent, urgent.passed(), jobB.at("spilled"), jobA.at("preempted"))
	r.send("free", urgent, nil, jobB.at("claimed"))
}

// TestDoesNotRest: DATA that goes to its home as it came, at an empty slot.
func TestDoesNotRest(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*packet)
		event  string
	}{
		"no priority":            {func(p *packet) { p.header.Priority = 0 }, "passed"},
		"priority out of range":  {func(p *packet) { p.header.Priority = 128 }, "passed"},
		"RESEND":                 {func(p *packet) { p.header.Flags = wire.Resend }, "passed"},
		"SATURATED":              {func(p *packet) { p.header.Flags = wire.Saturated }, "passed"},
		"PARTIAL":                {func(p *packet) { p.header.Flags = wire.Partial }, "passed"},
		"no slot":                {func(p *packet) { p.header.Slot = 0xffff }, "passed"},
		"slot before the region": {func(p *packet) { p.header.Slot = 63 }, "bad_slot"},
		"slot after the region":  {func(p *packet) { p.header.Slot = 128 }, "bad_slot"},
		"no such slot":           {func(p *packet) { p.header.Slot = 0xfffe }, "bad_slot"},
		"too long":               {func(p *packet) { *p = jobA.data(0, 5, 64) }, "passed"},
		"not a multiple of 32":   {func(p *packet) { *p = jobA.data(0, 5, 31) }, "passed"},
	} {
		r := setUp(t, 32, jobA)
		p := jobA.data(0, 5, 32).with(c.change)
		r.send(name, p, p.passed(), jobA.at(c.event))
		if s := r.state().Slots; len(s) != 0 {
			t.Errorf("%s: slots %v", name, s)
		}
	}
	r := setUp(t, 32, jobA)
	r.must(r.SetMember(MemberKey{1, workerAddr(0), jobA.id}, &Member{Role: Worker, Bits: 3, Rest: 4}))
	p := jobA.data(0, 5, 32)
	r.send("fewer bits than the member's", p, p.passed(), jobA.at("passed"))
}

// TestOps compares each operation with a plain loop over values that include
// the ends of the range, in the slot (merge) and in the packet (completion).
func TestOps(t *testing.T) {
	edges := []int32{math.MinInt32, math.MinInt32 + 1, -1 << 30, -2, -1, 0, 1, 2, 1 << 30, math.MaxInt32 - 1, math.MaxInt32}
	for limit := range shared {
		setUp(t, limit, jobA)
		for _, op := range []wire.Op{wire.Sum, wire.Max, wire.Min} {
			for i, x := range edges {
				for _, y := range edges {
					// A lane of its own, so that each saturation is seen alone, next to others that could spoil it.
					elements := [3][]int32{make([]int32, 32), make([]int32, 32), make([]int32, 32)}
					want := make([]int32, 32)
					lane := i * 2 % 32
					for l := range want {
						elements[0][l], elements[1][l], elements[2][l] = int32(l)-16, -int32(l), 5
						if l == lane || l == lane+1 && i%2 == 1 {
							elements[0][l], elements[1][l], elements[2][l] = x, y, 0
						}
						switch op {
						case wire.Sum:
							want[l] = elements[0][l] + elements[1][l] + elements[2][l]
						case wire.Max:
							want[l] = max(elements[0][l], elements[1][l], elements[2][l])
						case wire.Min:
							want[l] = min(elements[0][l], elements[1][l], elements[2][l])
						}
					}
					exact := int64(x) + int64(y)
					saturated := op == wire.Sum && (exact > math.MaxInt32 || exact < math.MinInt32)
					for _, order := range [][3]int{{0, 1, 2}, {2, 0, 1}} {
						checkOp(t, limit, op, elements, order, want, saturated)
					}
				}
			}
		}
	}
}

// checkOp sends three workers' elements in an order, after which the chunk is complete.
func checkOp(t *testing.T, limit int, op wire.Op, elements [3][]int32, order [3]int, want []int32, saturated bool) {
	t.Helper()
	r := tor{TB: t, Dataplane: shared[limit]}
	for n, w := range order {
		p := jobA.data(w, 5, 32)
		p.header.Op, p.elements = op, elements[w]
		out, err := r.Process(p.port, p.frame())
		r.must(err)
		if n < 2 {
			if len(out) != 0 {
				t.Fatalf("worker %d: %d packets leave", w, len(out))
			}
			continue
		}
		var flags wire.Flags
		if saturated {
			flags = wire.Saturated
		}
		if len(out) != 3 {
			t.Fatalf("%d packets leave, want 3", len(out))
		}
		var h wire.Header
		payload, err := h.Decode(out[0].Frame[42:])
		r.must(err)
		if h.Flags != flags || h.Type != wire.Result {
			t.Fatalf("%v %v + %v: %v flags %#x, want %#x", op, elements[0], elements[1], h.Type, h.Flags, flags)
		}
		if c := checksum(out[0].Frame[34:], pseudo(out[0].Frame[14:34], len(out[0].Frame)-34)); c != 0 {
			t.Fatalf("UDP checksum is off by %#x", c)
		}
		if saturated {
			return
		}
		for l := range want {
			if got := int32(uint32(payload[4*l])<<24 | uint32(payload[4*l+1])<<16 | uint32(payload[4*l+2])<<8 | uint32(payload[4*l+3])); got != want[l] {
				t.Fatalf("%v, lane %d: %d, want %d", op, l, got, want[l])
			}
		}
	}
}

// TestSaturationSticks: a sum that left the range stays flagged, whatever is added
// later and however it leaves, and is counted once.
func TestSaturationSticks(t *testing.T) {
	extreme := func(worker int, x int32) packet {
		return jobA.data(worker, 5, 32).with(func(p *packet) { p.elements[31] = x })
	}
	flags := func(r tor, what string, p packet, event ...string) wire.Flags {
		t.Helper()
		before := r.counters()
		out, err := r.Process(p.port, p.frame())
		r.must(err)
		if len(out) == 0 {
			t.Fatalf("%s: nothing leaves", what)
		}
		for _, c := range event {
			before[c]++
		}
		if diff := cmp.Diff(before, r.counters()); diff != "" {
			t.Errorf("%s: counters (-want +got)\n%s", what, diff)
		}
		var h wire.Header
		_, err = h.Decode(out[0].Frame[42:])
		r.must(err)
		return h.Flags
	}
	overflown := func() tor {
		r := setUp(t, 32, jobA, jobB)
		r.send("first", extreme(0, math.MaxInt32), nil, jobA.at("claimed"))
		r.send("second", extreme(1, 1), nil, jobA.at("merged"))
		return r
	}
	r := overflown()
	if f := flags(r, "completed", extreme(2, -5), jobA.at("completed"), jobA.at("saturated")); f != wire.Saturated {
		t.Errorf("RESULT with flags %#x", f)
	}
	r = overflown()
	if f := flags(r, "resent", extreme(2, -5).resend(), jobA.at("resend_evicted"), jobA.at("saturated")); f != wire.Saturated|wire.Resend {
		t.Errorf("taken along with flags %#x", f)
	}
	r = overflown()
	urgent := jobB.data(0, 5, 32).with(func(p *packet) { p.header.Priority = 9 })
	if f := flags(r, "preempted", urgent, jobB.at("preempts"), jobA.at("preempted"), jobA.at("saturated")); f != wire.Saturated {
		t.Errorf("preempted with flags %#x", f)
	}
}

// TestECN: a mark of the IP header or of the header's flag reaches the RESULT, from any contribution.
func TestECN(t *testing.T) {
	for marked := range 3 {
		for _, mark := range []func(*packet){
			func(p *packet) { p.tos = 3 },
			func(p *packet) { p.header.Flags = wire.ECN },
		} {
			r := setUp(t, 32, jobA)
			for w := range 3 {
				p := jobA.data(w, 5, 32)
				if w == marked {
					p = p.with(mark)
				}
				switch w {
				case 0:
					r.send("first", p, nil, jobA.at("claimed"))
				case 1:
					r.send("second", p, nil, jobA.at("merged"))
				case 2:
					r.send("last", p, jobA.result(p, wire.ECN, sum(5, 32, 0, 1, 2)), jobA.at("completed"))
				}
			}
		}
	}
	r := setUp(t, 32, jobA)
	r.send("marked", jobA.data(0, 5, 32).with(func(p *packet) { p.tos = 3 }), nil, jobA.at("claimed"))
	p := jobA.data(1, 5, 32).resend()
	r.send("taken along", p, jobA.partial(p, 5, wire.Resend|wire.ECN, 3, sum(5, 32, 0, 1)), jobA.at("resend_evicted"))
}

// TestToParent: what is complete goes on as one contribution where the ToR is not the root.
func TestToParent(t *testing.T) {
	r := setUp(t, 32, jobA)
	r.must(r.SetPublish(jobA.id, &Publish{ToParent: &ToParent{
		Port: parentPort, MAC: parentMAC, Src: torAddr, Dst: upper, FirstPort: 9710, PortMask: 1, Bits: 1 << 40,
	}}))
	const seq = 64 + 5
	r.send("first", jobA.data(0, seq, 32), nil, jobA.at("claimed"))
	r.send("second", jobA.data(1, seq, 32).with(func(p *packet) { p.tos = 3 }), nil, jobA.at("merged"))
	last := jobA.data(2, seq, 32)
	r.send("last", last, []packet{last.with(func(p *packet) {
		p.port, p.dstMAC, p.noChecksum = parentPort, parentMAC, true
		p.src, p.dst = netip.AddrPortFrom(torAddr, p.src.Port()), netip.AddrPortFrom(upper, 9711)
		p.header.Flags, p.header.Bitmap, p.header.Priority, p.elements = wire.ECN, 1<<40, 0, sum(seq, 32, 0, 1, 2)
	})}, jobA.at("completed"))
	r.must(r.SetPublish(jobA.id, nil))
	for w := range 3 {
		r.send("nowhere to go", jobA.data(w, seq, 32), nil, jobA.at([]string{"claimed", "merged", "completed"}[w]))
	}
}
