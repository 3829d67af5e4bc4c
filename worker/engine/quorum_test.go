package engine

import (
	"errors"
	"slices"
	"testing"

	"spillway/wire"
)

// quorum makes the test's job, of 3 ranks, one that goes on with 2 after 4 ms. R is 64.
func quorum(c *Config) { c.Policy = Policy{Quorum: 2, After: 4 * ms, MaxLag: 20} }

func partial(h *wire.Header) { h.Flags = wire.Partial }

func partialMax(h *wire.Header) { h.Flags, h.Op = wire.Partial, wire.Max }

func resend(h *wire.Header) { h.Flags = wire.Resend }

// descriptorOf is the descriptor of an int32 SUM.
func descriptorOf(length int32) []int32 {
	d := make([]int32, 32)
	d[0], d[1], d[2], d[3] = length, -length, 32, -32
	return d
}

func constant(v int32) []int32 { return slices.Repeat([]int32{v}, 32) }

// TestPatrol: the oldest chunk is asked about every quarter of D, however long that goes on, also before the round trip is known.
func TestPatrol(t *testing.T) {
	x := newScript(t, quorum)
	x.submit(0, ints(32))
	x.expect(0, "D0 D1")
	for i := int64(1); i <= 20; i++ {
		x.expect(i*ms-1, "")
		if x.wake > i*ms {
			t.Fatalf("at %d ms it sleeps until %d us", i, x.wake/1000)
		}
		x.expect(i*ms, "P0")
		x.receive(i*ms, wire.Solicit, 0, 3, nil, nil)
	}
}

// TestFetch: DATA follows at once on the word that it would bring the RESULT, but only where this rank asked, and once.
func TestFetch(t *testing.T) {
	x := newScript(t, quorum)
	x.submit(0, ints(32))
	x.expect(0, "D0 D1")
	x.receive(ms/2, wire.Pending, 0, 5, nil, resend)
	x.expect(ms/2, "") // an old answer: it has not asked
	x.expect(ms, "P0")
	x.receive(ms, wire.Pending, 0, 5, nil, resend)
	x.receive(ms, wire.Pending, 0, 5, nil, resend)
	x.expect(ms, "Dr0")
	x.receive(ms+1, wire.Pending, 0, 5, nil, resend)
	x.expect(ms+1, "")
	x.expect(2*ms+1, "P0")
}

// TestWaitForSlot: a chunk that must wait for its slot is asked about, not sent, until the slot is free.
func TestWaitForSlot(t *testing.T) {
	x := newScript(t, quorum)
	x.submit(0, ints(32))
	x.expect(0, "D0 D1")
	for i := int64(0); i < 30; i++ {
		x.receive(i*ms, wire.Pending, 0, 3, nil, partial)
		x.expect((i+1)*ms, "P0")
	}
	x.receive(30*ms, wire.Pending, 0, 0, nil, nil)
	x.expect(30*ms, "Dr0")
	x.receive(30*ms, wire.Pending, 0, 3, nil, partial)
	c := x.engine.oldest
	for now := 30 * ms; c.err == nil; now += ms {
		x.poll(now)
		if x.receive(now, wire.Pending, 0, 3, nil, partial); now > 20*s {
			t.Fatal("no error")
		}
	}
	var missing *MissingRanksError
	if !errors.As(c.err, &missing) || !slices.Equal(missing.Ranks, []int{2}) {
		t.Errorf("%v, want that rank 2 is missing", c.err)
	}
}

// TestEarlyResults: what was released before it was sent is not sent. It is kept as far as the ring goes, across collectives, and also while the exponent is not known.
func TestEarlyResults(t *testing.T) {
	x := newScript(t, quorum)
	x.receive(0, wire.Result, 3, 5, constant(3), partialMax)
	for _, offset := range []int{1, 2, 4, 63} {
		x.receive(0, wire.Result, offset, 5, constant(int32(offset)), partial)
	}
	x.receive(0, wire.Result, 64, 5, constant(1), partial) // beyond the ring
	x.receive(0, wire.Result, 5, 3, constant(1), partial)  // it would have to be in it
	x.receive(0, wire.Result, 6, 7, constant(1), nil)
	x.receive(0, wire.Result, 2, 5, constant(2), partial)
	if s := x.engine.Stats(); s.EarlyResults != 5 || s.UnaskedResults != 3 || s.DuplicateResults != 1 {
		t.Errorf("%+v", *s)
	}
	x.receive(0, wire.Result, 0, 5, descriptorOf(64), partialMax)
	one, two := ints(64), ints(64)
	one.I32[0], one.I32[63] = 100, 200
	one.ResidualI32 = constant(9)
	one.ResidualI32 = append(one.ResidualI32, one.ResidualI32...)
	x.submit(0, one)
	x.submit(0, two)
	x.expect(0, "")
	if c := x.engine.Completed(); c != one || c.Err() != nil || !slices.Equal(c.I32, append(constant(1), constant(2)...)) {
		t.Fatalf("%+v", c)
	}
	if r := one.ResidualI32; r[0] != 100 || r[1] != 0 || r[63] != 200 {
		t.Errorf("residual %v", r)
	}
	if o := one.Outcome(); o.Missed != 64 || o.Contributors != 5 || !o.Partial || !slices.Equal(o.Spans, []Span{{0, 64, 5}}) {
		t.Errorf("%+v", o)
	}
	// Chunk 3 is the second's descriptor, which says nonsense, and what is nonsense without this rank is this rank's own trouble.
	if x.engine.Broken() == nil {
		t.Error("it goes on with others that do something else")
	}
}

// TestEarlyResultsOfAJobThatWaits are none.
func TestEarlyResultsOfAJobThatWaits(t *testing.T) {
	x := newScript(t, nil)
	x.receive(0, wire.Result, 0, 5, descriptorOf(32), partial)
	x.receive(0, wire.Result, 1, 5, constant(1), partial)
	if s := x.engine.Stats(); s.EarlyResults != 0 || s.UnaskedResults != 2 {
		t.Errorf("%+v", *s)
	}
	x.submit(0, ints(32))
	x.expect(0, "D0 D1")
}

// resume goes on in generation 9.
func (x *script) resume(now int64) {
	x.t.Helper()
	next := x.engine.cfg
	next.Generation, next.Cookie = 9, 0xabcdef
	if err := x.engine.Resume(now, next); err != nil {
		x.t.Fatal(err)
	}
}

// TestResume: a new generation is asked about all that is outstanding, or told where this worker is; the old one is foreign; kept RESULTs are of the new one.
func TestResume(t *testing.T) {
	x := newScript(t, quorum)
	x.submit(0, ints(64))
	x.expect(0, "D0 D1 D2")
	x.receive(100, wire.Result, 0, 7, descriptorOf(64), func(h *wire.Header) { h.Op = wire.Max })
	x.resume(200)
	sent := func(now int64) (all []wire.Header) {
		x.sent = nil
		x.wake = x.engine.Poll(now, x)
		for _, p := range x.sent {
			if _, err := p.Decode(p.bytes); err != nil {
				t.Fatal(err)
			}
			if p.Generation != 9 || p.Cookie != 0xabcdef {
				t.Errorf("sent %+v", p.Header)
			}
			p.Seq -= testConfig().FirstSeq
			all = append(all, p.Header)
		}
		return all
	}
	renew := func(h *wire.Header) { h.Generation, h.Cookie = 9, 0xabcdef }
	if got := sent(200); len(got) != 2 || got[0].Type != wire.Probe || got[0].Seq != 1 || got[1].Type != wire.Probe || got[1].Seq != 2 {
		t.Fatalf("%+v", got)
	}
	x.receive(300, wire.Result, 1, 7, constant(1), nil)
	if s := x.engine.Stats(); s.ForeignPackets != 1 || s.Results != 1 {
		t.Errorf("%+v", *s)
	}
	x.receive(300, wire.Solicit, 0, 5, nil, renew)
	if got := sent(300); len(got) != 1 || got[0].Type != wire.Result || got[0].Bitmap != 7 {
		t.Fatalf("%+v", got)
	}
	x.receive(400, wire.Result, 1, 7, constant(1), renew)
	x.receive(400, wire.Result, 2, 7, constant(2), renew)
	if c := x.engine.Completed(); c == nil || c.Err() != nil {
		t.Fatalf("%+v", c)
	}
	// Nothing is outstanding, and it was heard of.
	if got := sent(500); len(got) != 0 || x.wake != Never {
		t.Errorf("%+v, wake %d", got, x.wake)
	}
	x.resume(600)
	for now := int64(600); now < 100*ms; now = x.wake {
		if got := sent(now); len(got) != 1 || got[0].Type != wire.Probe || got[0].Seq != 3 || x.wake <= now || x.wake-now > 50*ms {
			t.Fatalf("at %d: %+v, wake %d", now, got, x.wake)
		}
	}
	x.receive(100*ms, wire.Pending, 3, 0, nil, renew)
	if got := sent(200 * ms); len(got) != 0 || x.wake != Never {
		t.Errorf("%+v, wake %d", got, x.wake)
	}
}

// TestPolicies: which are refused, and how many RESULTs are kept.
func TestPolicies(t *testing.T) {
	for _, p := range []Policy{{Quorum: 4, After: 1}, {Quorum: -1, After: 1}, {Quorum: 2}, {Quorum: 2, After: 1, MaxLag: -1}, {Quorum: 2, After: 1, MaxLag: MaxWindow + 1}} {
		cfg := testConfig()
		cfg.Policy = p
		if err := cfg.Validate(); err == nil {
			t.Errorf("%+v was taken", p)
		}
	}
	for _, c := range []struct {
		policy Policy
		ring   uint32
	}{{Policy{}, 32}, {Policy{Quorum: 3, MaxLag: 1000}, 32}, {Policy{Quorum: 2, After: 1}, 32}, {Policy{Quorum: 2, After: 1, MaxLag: 14}, 32}, {Policy{Quorum: 2, After: 1, MaxLag: 15}, 64}} {
		cfg := testConfig()
		cfg.Policy = c.policy
		if err := cfg.Validate(); err != nil || cfg.ring() != c.ring {
			t.Errorf("%+v: %v, keeps %d RESULTs, want %d", c.policy, err, cfg.ring(), c.ring)
		}
	}
}
