package xdp

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/wire"
)

// step is a packet, the verdict, what comes out (zero Type: nothing), and the
// counters that go up by one.
type step struct {
	name     string
	rank     int
	header   wire.Header
	elements []int32
	want     wire.Header // of the answer; only type, flags, bitmap are compared
	sum      []int32     // of the answer
	toAll    bool        // the answer goes to the group, not to the sender
	counters []string
}

func runSteps(t *testing.T, a *Aggregator, steps []step) {
	t.Helper()
	for _, s := range steps {
		before := allCounters(t, a, 7)
		verdict := Drop
		if s.want.Type != 0 {
			verdict = Transmit
		}
		got := send(t, a, frame(s.rank, s.header, s.elements), verdict)
		expectCounters(t, before, allCounters(t, a, 7), s.counters...)
		if verdict == Transmit {
			g := got.header
			if g.Type != s.want.Type || g.Flags != s.want.Flags || g.Bitmap != s.want.Bitmap {
				t.Errorf("%s: answer %v flags %#x bitmap %#x, want %v %#x %#x", s.name,
					g.Type, g.Flags, g.Bitmap, s.want.Type, s.want.Flags, s.want.Bitmap)
			}
			if g.Job != 7 || g.Generation != 3 || g.Cookie != 0xfeedbeef || g.Seq != s.header.Seq || g.Slot != 0x1234 || g.Priority != wantPriority(g.Type) || g.Op != s.header.Op {
				t.Errorf("%s: answer %+v does not repeat %+v", s.name, g, s.header)
			}
			if !slices.Equal(got.elements, s.sum) {
				t.Errorf("%s: elements %v, want %v", s.name, got.elements, s.sum)
			}
			wantDst := netip.AddrPortFrom(workerAddr(s.rank), workerPort)
			if s.toAll {
				wantDst = netip.AddrPortFrom(groupAddr, workerPort)
			} else if got.dstMAC.String() != workerMAC(s.rank).String() {
				t.Errorf("%s: answer to %v", s.name, got.dstMAC)
			}
			if got.dst != wantDst || got.src != netip.AddrPortFrom(homeAddr, wire.BasePort) {
				t.Errorf("%s: answer from %v to %v, want to %v", s.name, got.src, got.dst, wantDst)
			}
		}
		if t.Failed() {
			t.Fatalf("after %q", s.name)
		}
	}
}

// packet makes a header with other bits and flags than header does.
func packet(typ wire.Type, rank int, seq uint32, bitmap uint64, flags wire.Flags, elems int) wire.Header {
	h := header(typ, rank, seq, elems)
	h.Bitmap, h.Flags = bitmap, flags
	return h
}

// wantPriority is that of an answer: a RESULT of a home has none, the others repeat the question's.
func wantPriority(t wire.Type) uint8 {
	if t == wire.Result {
		return 0
	}
	return 9
}

// tor is the "rank" whose address is the ToR's, 10.77.0.253.
const tor = 252

// torJob is a job with a ToR, which may send any bits: partial sums.
func torJob(n int) Job {
	j := testJob(n, 32)
	j.Members = append(j.Members, Member{Addr: workerAddr(tor), Bits: wire.FullBitmap(n)})
	return j
}

// TestRules goes through docs/protocol.md, section 3, row by row.
func TestRules(t *testing.T) {
	const (
		D, R, P = wire.Data, wire.Result, wire.Probe
		resend  = wire.Resend
	)
	result := func(bitmap uint64) wire.Header { return wire.Header{Type: wire.Result, Bitmap: bitmap} }
	pending := func(bitmap uint64) wire.Header { return wire.Header{Type: wire.Pending, Bitmap: bitmap} }
	solicit := func(bitmap uint64) wire.Header { return wire.Header{Type: wire.Solicit, Bitmap: bitmap} }
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"claim, merge, publish, cached result", []step{
			{"claim", 0, packet(D, 0, 5, 1, 0, 2), []int32{1, 2}, wire.Header{}, nil, false, []string{"data", "claimed"}},
			{"merge", 1, packet(D, 1, 5, 2, 0, 2), []int32{10, 20}, wire.Header{}, nil, false, []string{"data", "merged"}},
			{"publish", 2, packet(D, 2, 5, 4, 0, 2), []int32{100, 200}, result(7), []int32{111, 222}, true, []string{"data", "merged", "published"}},
			{"duplicate", 1, packet(D, 1, 5, 2, resend, 2), []int32{10, 20}, result(7), []int32{111, 222}, false, []string{"data", "result_resent"}},
			{"probe", 1, packet(P, 1, 5, 2, 0, 0), nil, pending(7), nil, false, []string{"probe", "pending"}},
		}},
		{"duplicate before the end", []step{
			{"claim", 0, packet(D, 0, 5, 1, 0, 2), []int32{1, 2}, wire.Header{}, nil, false, []string{"data", "claimed"}},
			{"duplicate", 0, packet(D, 0, 5, 1, 0, 2), []int32{1, 2}, pending(1), nil, false, []string{"data", "pending"}},
			{"resent duplicate", 0, packet(D, 0, 5, 1, resend, 2), []int32{1, 2}, pending(1), nil, false, []string{"data", "pending"}},
			{"probe", 0, packet(P, 0, 5, 1, 0, 0), nil, solicit(1), nil, true, []string{"probe", "solicited"}},
			{"merge of a resend", 1, packet(D, 1, 5, 2, resend, 2), []int32{10, 20}, solicit(3), nil, true, []string{"data", "merged", "solicited"}},
			{"publish", 2, packet(D, 2, 5, 4, resend, 2), []int32{100, 200}, result(7), []int32{111, 222}, true, []string{"data", "merged", "published"}},
		}},
		{"resend claims and solicits", []step{
			{"claim", 2, packet(D, 2, 5, 4, resend, 2), []int32{1, 2}, solicit(4), nil, true, []string{"data", "claimed", "solicited"}},
		}},
		{"partial sums", []step{
			{"two at once", tor, packet(D, 0, 5, 3, 0, 2), []int32{3, 3}, wire.Header{}, nil, false, []string{"data", "claimed"}},
			{"subset", 1, packet(D, 1, 5, 2, 0, 2), []int32{2, 2}, pending(3), nil, false, []string{"data", "pending"}},
			{"overlap", tor, packet(D, 1, 5, 6, 0, 2), []int32{6, 6}, wire.Header{}, nil, false, []string{"data", "overlap"}},
			{"disjoint", 2, packet(D, 2, 5, 4, 0, 2), []int32{4, 4}, result(7), []int32{7, 7}, true, []string{"data", "merged", "published"}},
		}},
		{"superset replaces", []step{
			{"one", 0, packet(D, 0, 5, 1, 0, 2), []int32{1, 1}, wire.Header{}, nil, false, []string{"data", "claimed"}},
			{"superset", tor, packet(D, 1, 5, 3, 0, 2), []int32{3, 3}, wire.Header{}, nil, false, []string{"data", "replaced"}},
			{"whole", tor, packet(D, 2, 5, 7, 0, 2), []int32{7, 7}, result(7), []int32{7, 7}, true, []string{"data", "replaced", "published"}},
		}},
		{"whole sum at once", []step{
			{"claim and publish", tor, packet(D, 0, 5, 7, resend, 2), []int32{7, 8}, result(7), []int32{7, 8}, true, []string{"data", "claimed", "published"}},
		}},
		{"a ToR's duplicates", []step{
			{"preempted", tor, packet(D, 0, 5, 3, 0, 2), []int32{3, 3}, wire.Header{}, nil, false, []string{"data", "claimed"}},
			{"preempted again", tor, packet(D, 0, 5, 3, 0, 2), []int32{3, 3}, pending(3), nil, false, []string{"data", "pending"}},
			{"taken along by a RESEND", tor, packet(D, 0, 5, 3, resend, 2), []int32{3, 3}, solicit(3), nil, true, []string{"data", "pending", "solicited"}},
			{"overlap, taken along by a RESEND", tor, packet(D, 0, 5, 6, resend, 2), []int32{6, 6}, solicit(3), nil, true, []string{"data", "overlap", "solicited"}},
			{"superset, taken along by a RESEND", tor, packet(D, 0, 5, 7, resend, 2), []int32{7, 7}, result(7), []int32{7, 7}, true, []string{"data", "replaced", "published"}},
			{"preempted when all is done", tor, packet(D, 0, 5, 1, 0, 2), []int32{1, 1}, result(7), []int32{7, 7}, false, []string{"data", "result_resent"}},
			{"taken along when all is done", tor, packet(D, 0, 5, 3, resend, 2), []int32{3, 3}, result(7), []int32{7, 7}, true, []string{"data", "result_resent"}},
		}},
		{"a ToR's partial sum, and RESENDs", []step{
			{"a rank's own", 1, packet(D, 1, 5, 2, resend, 2), []int32{2, 2}, solicit(2), nil, true, []string{"data", "claimed", "solicited"}},
			{"merge of what a RESEND took along", tor, packet(D, 0, 5, 5, resend, 2), []int32{5, 5}, result(7), []int32{7, 7}, true, []string{"data", "merged", "published"}},
		}},
		{"newer wins, older is stale", []step{
			{"claim", 0, packet(D, 0, 5, 1, 0, 2), []int32{1, 2}, wire.Header{}, nil, false, []string{"data", "claimed"}},
			{"newer", 1, packet(D, 1, 5+16, 2, 0, 2), []int32{5, 6}, wire.Header{}, nil, false, []string{"data", "claimed", "abandoned"}},
			{"stale data", 2, packet(D, 2, 5, 4, 0, 2), []int32{1, 2}, wire.Header{}, nil, false, []string{"data", "stale"}},
			{"stale probe", 0, packet(P, 0, 5, 1, 0, 0), nil, wire.Header{}, nil, false, []string{"probe", "stale"}},
			{"stale result", 0, packet(R, 0, 5, 7, 0, 2), []int32{9, 9}, wire.Header{}, nil, false, []string{"result", "stale"}},
			{"probe of a newer one", 0, packet(P, 0, 5+32, 1, 0, 0), nil, pending(0), nil, false, []string{"probe", "pending"}},
			{"finish", tor, packet(D, 0, 21, 5, 0, 2), []int32{10, 10}, result(7), []int32{15, 16}, true, []string{"data", "merged", "published"}},
		}},
		{"seq wraps", []step{
			{"before", 0, packet(D, 0, 0xfffffff5, 1, 0, 2), []int32{1, 2}, wire.Header{}, nil, false, []string{"data", "claimed"}},
			{"after", 0, packet(D, 0, 0x5, 1, 0, 2), []int32{1, 2}, wire.Header{}, nil, false, []string{"data", "claimed", "abandoned"}},
			{"before again", 1, packet(D, 1, 0xfffffff5, 2, 0, 2), []int32{1, 2}, wire.Header{}, nil, false, []string{"data", "stale"}},
		}},
		{"mismatch", []step{
			{"claim", 0, packet(D, 0, 5, 1, 0, 2), []int32{1, 2}, wire.Header{}, nil, false, []string{"data", "claimed"}},
			{"other length", 1, packet(D, 1, 5, 2, 0, 3), []int32{1, 2, 3}, wire.Header{}, nil, false, []string{"data", "mismatch"}},
			{"other op", 1, func() wire.Header { h := packet(D, 1, 5, 2, 0, 2); h.Op = wire.Max; return h }(), []int32{1, 2}, wire.Header{}, nil, false, []string{"data", "mismatch"}},
			{"result of other length", 1, packet(R, 1, 5, 7, 0, 3), []int32{1, 2, 3}, wire.Header{}, nil, false, []string{"result", "mismatch"}},
		}},
		{"a worker restores a result", []step{
			{"nobody asked", 0, packet(R, 0, 5, 7, 0, 2), []int32{7, 8}, wire.Header{}, nil, false, []string{"result", "unsolicited"}},
			{"somebody asks", 1, packet(D, 1, 5, 2, resend, 2), []int32{1, 2}, solicit(2), nil, true, []string{"data", "claimed", "solicited"}},
			{"restore", 0, packet(R, 0, 5, 7, wire.Saturated|wire.ECN, 2), []int32{7, 8}, wire.Header{Type: R, Flags: wire.Saturated | wire.ECN, Bitmap: 7}, []int32{7, 8}, true, []string{"result", "restored", "published"}},
			{"once more", 2, packet(R, 2, 5, 7, 0, 2), []int32{7, 8}, wire.Header{}, nil, false, []string{"result", "duplicate_result"}},
			{"cached", 1, packet(D, 1, 5, 2, resend, 2), []int32{1, 2}, wire.Header{Type: R, Flags: wire.Saturated | wire.ECN, Bitmap: 7}, []int32{7, 8}, false, []string{"data", "result_resent"}},
		}},
		{"a partial result is restored as such", []step{
			{"somebody asks", 1, packet(D, 1, 5, 2, resend, 2), []int32{1, 2}, solicit(2), nil, true, []string{"data", "claimed", "solicited"}},
			{"restore", 0, packet(R, 0, 5, 3, wire.Partial, 2), []int32{7, 8}, wire.Header{Type: R, Flags: wire.Partial, Bitmap: 3}, []int32{7, 8}, true, []string{"result", "restored", "published"}},
			{"late", 2, packet(D, 2, 5, 4, 0, 2), []int32{1, 2}, wire.Header{Type: R, Flags: wire.Partial, Bitmap: 3}, []int32{7, 8}, false, []string{"data", "result_resent"}},
		}},
		{"flags are collected", []step{
			{"saturated partial sum", tor, packet(D, 0, 5, 3, wire.Saturated, 2), []int32{1, 2}, wire.Header{}, nil, false, []string{"data", "claimed"}},
			{"congestion on the way", 2, packet(D, 2, 5, 4, wire.ECN, 2), []int32{1, 2}, wire.Header{Type: R, Flags: wire.Saturated | wire.ECN, Bitmap: 7}, []int32{2, 4}, true, []string{"data", "merged", "published"}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { runSteps(t, load(t, torJob(3)), c.steps) })
	}
}

func TestCongestionMarkIsEchoed(t *testing.T) {
	a := load(t, testJob(2, 32))
	h, x := data(0, 1, 1)
	f := frame(0, h, x)
	f[15] |= 3 // CE; the IP checksum is not looked at
	before := counters(t, a)
	send(t, a, f, Drop)
	expectCounters(t, before, counters(t, a), "data", "claimed", "ecn")
	h, x = data(1, 1, 2)
	if got := send(t, a, frame(1, h, x), Transmit); got.header.Flags != wire.ECN || got.tos != 2 {
		t.Errorf("flags %#x, TOS %#x; want the ECN flag and ECT(0)", got.header.Flags, got.tos)
	}
}

// TestGeneration: what a slot holds of an old generation counts for nothing.
func TestGeneration(t *testing.T) {
	j := testJob(2, 32)
	a := load(t, j)
	h, x := data(0, 1, 100)
	send(t, a, frame(0, h, x), Drop)
	if err := a.RemoveJob(7); err != nil {
		t.Fatal(err)
	}
	j.Generation++
	if err := a.AddJob(j); err != nil {
		t.Fatal(err)
	}
	before := allCounters(t, a, 7)
	send(t, a, frame(0, h, x), Drop)
	expectCounters(t, before, allCounters(t, a, 7), "bad_generation")
	h.Generation++
	send(t, a, frame(0, h, []int32{1}), Drop)
	h.Bitmap = 2
	if got := send(t, a, frame(1, h, []int32{2}), Transmit); got.elements[0] != 3 {
		t.Errorf("sum %d, want 3", got.elements[0])
	}
}

// TestBadInput: each is dropped for its reason, and no slot changes.
func TestBadInput(t *testing.T) {
	a := load(t, testJob(3, 64))
	h, x := data(0, 5, 1, 2, 3)
	send(t, a, frame(0, h, x), Drop) // a sum in flight that must stay as it is

	change := func(f func(h *wire.Header)) []byte {
		h, x := data(1, 5, 10, 20, 30)
		f(&h)
		return frame(1, h, x)
	}
	bytesAt := func(at int, b ...byte) []byte {
		h, x := data(1, 5, 10, 20, 30)
		f := frame(1, h, x)
		copy(f[at:], b)
		return f
	}
	good := change(func(*wire.Header) {})
	nobits, y := data(1, 5, 10, 20, 30)
	nobits.Bitmap = 0
	for _, c := range []struct {
		name, reason string
		frame        []byte
	}{
		{"version", "bad_version", change(func(h *wire.Header) { h.Version = 2 })},
		{"cookie", "bad_cookie", change(func(h *wire.Header) { h.Cookie++ })},
		{"old generation", "bad_generation", change(func(h *wire.Header) { h.Generation-- })},
		{"next generation", "bad_generation", change(func(h *wire.Header) { h.Generation++ })},
		{"job that is not there", "unknown_job", change(func(h *wire.Header) { h.Job = 8 })},
		{"job beyond the table", "unknown_job", change(func(h *wire.Header) { h.Job = 0xffff })},
		{"rank of another's address", "bad_bitmap", change(func(h *wire.Header) { h.Bitmap = 1 })},
		{"own bit and another's", "bad_bitmap", change(func(h *wire.Header) { h.Bitmap = 3 })},
		{"bit outside the job", "bad_bitmap", change(func(h *wire.Header) { h.Bitmap = 8 })},
		{"no bit", "bad_bitmap", frame(1, nobits, y)},
		{"result short of the job", "bad_bitmap", change(func(h *wire.Header) { h.Type, h.Bitmap = wire.Result, 3 })},
		{"partial result of strangers", "bad_bitmap", change(func(h *wire.Header) { h.Type, h.Flags, h.Bitmap = wire.Result, wire.Partial, 9 })},
		{"type 0", "bad_type", change(func(h *wire.Header) { h.Type = 0 })},
		{"SOLICIT", "bad_type", change(func(h *wire.Header) { h.Type = wire.Solicit })},
		{"PENDING", "bad_type", change(func(h *wire.Header) { h.Type = wire.Pending })},
		{"type 255", "bad_type", change(func(h *wire.Header) { h.Type = 255 })},
		{"op", "bad_op", change(func(h *wire.Header) { h.Op = 3 })},
		{"flags", "bad_flags", change(func(h *wire.Header) { h.Flags = 0x80 })},
		{"no elements", "bad_elems", change(func(h *wire.Header) { h.Elems = 0 })},
		{"more elements than there are", "bad_length", change(func(h *wire.Header) { h.Elems = 4 })},
		{"fewer elements than there are", "bad_length", change(func(h *wire.Header) { h.Elems = 2 })},
		{"more elements than the format has", "bad_elems", change(func(h *wire.Header) { h.Elems = 833 })},
		{"more elements than E", "bad_elems", frame(1, header(wire.Data, 1, 5, 65), make([]int32, 65))},
		{"frame cut short", "bad_length", good[:len(good)-1]},
		{"frame cut in the header", "bad_length", good[:69]},
		{"frame cut after UDP", "bad_length", good[:42]},
		{"a tail behind the packet", "bad_length", append(slices.Clone(good), 0)},
		{"UDP length", "bad_length", bytesAt(38, 0, 47)},
		{"IP length", "bad_length", bytesAt(16, 0, 60)},
		{"first fragment", "bad_length", bytesAt(20, 0x20, 0)},
		{"another home's address", "unknown_job", bytesAt(30, 10, 77, 0, 253)},
		{"source that is no member", "not_member", bytesAt(26, 10, 77, 0, 77)},
		{"source that is the home", "not_member", bytesAt(26, 10, 77, 0, 254)},
	} {
		t.Run(c.name, func(t *testing.T) {
			counts, content := allCounters(t, a, 7), dump(t, a)
			send(t, a, c.frame, Drop)
			expectCounters(t, counts, allCounters(t, a, 7), c.reason)
			if diff := cmp.Diff(content, dump(t, a)); diff != "" {
				t.Errorf("a slot changed:\n%s", diff)
			}
		})
	}
	t.Run("foreign packets pass untouched", func(t *testing.T) {
		counts, content := allCounters(t, a, 7), dump(t, a)
		port := binary.BigEndian.AppendUint16(nil, wire.BasePort+1)
		for name, f := range map[string][]byte{
			"other port": bytesAt(36, port...), "ARP": bytesAt(12, 8, 6), "IPv6": bytesAt(12, 0x86, 0xdd), "TCP": bytesAt(23, 6),
			"later fragment": bytesAt(20, 0, 1), "IP options": bytesAt(14, 0x46), "runt": good[:33],
		} {
			verdict, out, err := a.Process(f)
			if err != nil || verdict != Pass || !slices.Equal(out, f) {
				t.Errorf("%s: verdict %d, error %v", name, verdict, err)
			}
		}
		expectCounters(t, counts, allCounters(t, a, 7))
		if diff := cmp.Diff(content, dump(t, a)); diff != "" {
			t.Errorf("a slot changed:\n%s", diff)
		}
	})
	// And the sum in flight still comes out right.
	h, x = data(1, 5, 10, 20, 30)
	send(t, a, frame(1, h, x), Drop)
	h, x = data(2, 5, 100, 200, 300)
	if got := send(t, a, frame(2, h, x), Transmit); !slices.Equal(got.elements, []int32{111, 222, 333}) {
		t.Errorf("got %v", got.elements)
	}
}

// slotContent is all there is to a slot that matters afterwards.
type slotContent struct {
	Seq      uint32
	Tenant   uint32
	Bitmap   uint64
	Elems    uint16
	Op       uint8
	Flags    uint8
	Complete uint8
	Payload  [64]int32
}

// dump reads the slots of testJob at E = 64.
func dump(t testing.TB, a *Aggregator) []slotContent {
	t.Helper()
	in := a.jobs[7]
	var all []slotContent
	for i := range in.slots.count {
		var s aggregatorSlot
		if err := a.objects.Slots.Lookup(a.config.Slots.base(in.class)+in.slots.first+i, &s); err != nil {
			t.Fatal(err)
		}
		c := slotContent{Seq: s.Seq, Tenant: s.Tenant, Bitmap: s.Bitmap, Elems: s.Elems, Op: s.Op, Flags: s.Flags, Complete: s.Complete}
		if err := a.objects.Payload64Map.Lookup(in.slots.first+i, &c.Payload); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}
