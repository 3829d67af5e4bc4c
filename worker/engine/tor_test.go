package engine

import (
	"math"
	"testing"

	"spillway/wire"
)

// withTor has 2 ToR slots for every 8 chunks. The tests' seqs begin with lane 3, so that the chunks for the ToR are at offsets 5 and 6, 13 and 14, ...
func withTor(c *Config) { c.Priority, c.Tor = 9, &TorRegion{Base: 16, Slots: 2, Period: 8, Offset: 1} }

// withAllTor has all chunks summed in the ToR.
func withAllTor(c *Config) { c.Priority, c.Tor = 9, &TorRegion{Base: 16, Slots: 8, Period: 8} }

// fromTor and fromHome echo what was sent as the RESULT that the ToR publishes and the one that the home does.
func (x *script) fromTor(now int64, p sentPacket) { x.echo(now, p) }

func (x *script) fromHome(now int64, p sentPacket) {
	p.Priority = 0
	x.echo(now, p)
}

func TestChunksForTheToR(t *testing.T) {
	x := newScript(t, withTor)
	x.submit(0, ints(20*32))
	for i, p := range x.expect(0, "D0 D1 D2 D3 D4 D5 D6 D7") {
		priority, slot := uint8(0), uint16(wire.NoSlot)
		switch i { // the lane of offset 5 is 0, of 6 is 1; the region is turned by 1
		case 5:
			priority, slot = 9, 17
		case 6:
			priority, slot = 9, 16
		}
		if p.Priority != priority || p.Slot != slot {
			t.Errorf("chunk %d has priority %d and slot %d, want %d and %d", i, p.Priority, p.Slot, priority, slot)
		}
	}
	x.receive(ms, wire.Pending, 5, 0, nil, nil)
	if p := x.expect(ms, "Dr5"); p[0].Priority != 9 || p[0].Slot != 17 {
		t.Errorf("RESEND %+v", p[0].Header)
	}
	for name, change := range map[string]func(*Config){
		"no region":    func(c *Config) { c.Priority = 9 },
		"empty region": func(c *Config) { c.Priority, c.Tor = 9, &TorRegion{} },
		"one worker":   func(c *Config) { withAllTor(c); c.Workers, c.Rank = 1, 0 },
	} {
		cfg := testConfig()
		change(&cfg)
		e, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Submit(0, ints(200)); err != nil {
			t.Fatal(err)
		}
		out := &script{t: t, room: -1}
		e.Poll(0, out)
		for _, p := range out.sent {
			var h wire.Header
			if _, err := h.Decode(p.bytes); err != nil || h.Slot != wire.NoSlot || h.Priority != 0 {
				t.Errorf("%s: %+v, %v", name, h, err)
			}
		}
	}
}

// TestSlotsOfAWindowDiffer: whatever the region, no two chunks of a window share a slot, and all lie in the region.
func TestSlotsOfAWindowDiffer(t *testing.T) {
	for _, r := range []TorRegion{{Slots: 1, Period: 1}, {Base: 4, Slots: 4, Period: 64, Offset: 3}, {Base: 256, Slots: 128, Period: 64, Offset: 77}, {Base: 64, Slots: 64, Period: 64}} {
		c := testConfig()
		c.Priority, c.Tor, c.Window = 1, &r, int(r.Period)
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		for first := uint32(math.MaxUint32 - 200); first != 200; first++ {
			used := make(map[uint16]bool)
			for seq := first; seq != first+r.Period; seq++ {
				slot := c.slot(seq)
				if slot == wire.NoSlot {
					continue
				}
				if slot < r.Base || slot >= r.Base+r.Slots || used[slot] {
					t.Fatalf("%+v: slot %d of seq %d in the window from %d", r, slot, seq, first)
				}
				used[slot] = true
			}
			if want := min(int(r.Slots), int(r.Period)); len(used) != want {
				t.Fatalf("%+v: %d chunks of the window from %d are for the ToR, want %d", r, len(used), first, want)
			}
		}
	}
}

// TestTorSaysNothingAboutTheHome: RESULTs of the ToR overtake the home's without making them suspect; the home's make the ToR's suspect.
func TestTorSaysNothingAboutTheHome(t *testing.T) {
	x := newScript(t, withTor)
	x.submit(0, ints(40*32))
	sent := x.expect(0, "D0 D1 D2 D3 D4 D5 D6 D7")
	x.fromTor(ms/10, sent[5])
	x.fromTor(ms/10, sent[6])
	x.fromHome(ms*8/10, sent[0])
	eighth := x.expect(ms*8/10, "D8")
	for _, i := range []int{1, 2, 3, 4, 7} {
		x.fromHome(ms*8/10, sent[i])
	}
	later := x.expect(ms*8/10, "D9 D10 D11 D12 D13 D14 D15")
	x.fromTor(ms*9/10, later[5]) // the ToR's 14 speaks against its 13, but not before the home would have answered
	x.expect(ms*9/10, "")
	for _, p := range append(eighth, later[:4]...) {
		x.fromHome(ms*16/10, p)
	}
	last := x.expect(ms*16/10, "D16 D17 D18 D19 D20") // 13 is no later than the home's
	if s := x.engine.Stats(); s.Probes != 0 || s.TorResults != 3 || s.Results != 14 {
		t.Errorf("stats %+v", s)
	}
	if e := x.engine; e.torTrip.smoothed != ms/10 || e.trip.smoothed != ms*8/10 {
		t.Errorf("round trips %d and %d", e.torTrip.smoothed, e.trip.smoothed)
	}
	x.fromHome(ms*185/100, last[0]) // 16 was sent 0.8 ms after 13 and 15
	x.expect(ms*185/100, "P13 P15")
}

// TestSpilledChunksAreProbedOnce: until the home's round trip is known; from then on the ToR's RESULTs wait for it.
func TestSpilledChunksAreProbedOnce(t *testing.T) {
	x := newScript(t, func(c *Config) { withAllTor(c); c.MinRTO = ms / 20 })
	x.submit(0, ints(4000*32))
	now := int64(0)
	sent := x.poll(now)
	for round := 0; round < 100; round++ {
		// In each round the first chunk is spilled, and takes five times as long as the others.
		spilled := sent[0]
		now += ms / 10
		for _, p := range sent[1:] {
			if p.Type == wire.Data {
				x.fromTor(now, p)
			}
		}
		x.poll(now + 1)
		now += ms / 10
		x.poll(now)
		x.poll(now + ms/5)
		now += ms * 3 / 10
		x.fromHome(now, spilled)
		sent = x.poll(now)
	}
	if s := x.engine.Stats(); s.Probes > 20 || s.Resends > 0 {
		t.Errorf("%d probes and %d resends for 100 spilled chunks", s.Probes, s.Resends)
	}
}

// TestFirstDataAfterSolicit: what the home has asked for already does not rest in the ToR.
func TestFirstDataAfterSolicit(t *testing.T) {
	x := newScript(t, withTor)
	x.receive(1, wire.Solicit, 0, 0b101, nil, nil) // for the home: goes there anyway
	x.receive(1, wire.Solicit, 5, 0b101, nil, nil)
	x.receive(1, wire.Solicit, 14, 0b101, nil, nil)
	x.receive(1, wire.Solicit, 99, 0b101, nil, nil) // far beyond any window
	x.submit(2, ints(20*32))
	sent := x.expect(2, "D0 D1 D2 D3 D4 Dr5 D6 D7")
	for _, p := range sent {
		x.echo(ms, p)
	}
	x.expect(ms, "D8 D9 D10 D11 D12 D13 Dr14 D15")
	if s := x.engine.Stats(); s.Resends != 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestDataThatWaitsForItsExponent: the SOLICIT comes between the opening of a chunk and its DATA.
func TestDataThatWaitsForItsExponent(t *testing.T) {
	x := newScript(t, withTor)
	x.submit(0, &Collective{F32: make([]float32, 7*32)})
	sent := x.expect(0, "D0")
	x.receive(1, wire.Solicit, 6, 0b101, nil, nil)
	x.echo(ms/10, sent[0])
	x.expect(ms/10, "D1 D2 D3 D4 D5 Dr6 D7")
}

// TestOneResendForASlot: the lowest missing rank answers a SOLICIT at once; the next waits a round trip for what that brings.
func TestOneResendForASlot(t *testing.T) {
	open := func() *script {
		x := newScript(t, withAllTor) // rank 1 of 3
		x.submit(0, ints(20*32))
		sent := x.expect(0, "D0 D1 D2 D3 D4 D5 D6 D7")
		x.echo(ms/5, sent[0])
		x.expect(ms/5, "D8")
		return x
	}
	x := open()
	x.receive(ms/2, wire.Solicit, 3, 0b001, nil, nil)
	x.expect(ms/2, "Dr3") // it is the lowest

	x = open()
	x.receive(ms/2, wire.Solicit, 3, 0b100, nil, nil)
	x.expect(ms/2, "") // rank 0 is
	if x.wake != ms/2+ms/5 {
		t.Errorf("wake at %d", x.wake)
	}
	x.receive(ms*6/10, wire.Solicit, 3, 0b100, nil, nil) // does not begin anew
	x.expect(ms*7/10-1, "")
	x.expect(ms*7/10, "Dr3")
	x.expect(ms*8/10, "")

	x = open()
	x.receive(ms/2, wire.Solicit, 3, 0b100, nil, nil)
	x.receive(ms*6/10, wire.Solicit, 3, 0b101, nil, nil) // rank 0's RESEND did not bring this one
	x.expect(ms*6/10, "Dr3")
	x.expect(ms*8/10, "")

	x = open()
	x.receive(ms/2, wire.Solicit, 3, 0b100, nil, nil)
	x.receive(ms*6/10, wire.Solicit, 3, 0b110, nil, nil) // somebody's brought it
	x.expect(ms*8/10, "")

	x = open()
	x.receive(ms/2, wire.Solicit, 3, 0b100, nil, nil)
	x.echo(ms*6/10, x.sentAgain(x.sent[0], 3)) // and was enough
	x.receive(ms*6/10, wire.Pending, 4, 0, nil, nil)
	x.poll(ms * 6 / 10) // what PENDING says is for this rank alone
	var resent bool
	for _, p := range x.sent {
		resent = resent || p.Flags == wire.Resend && p.Seq == testConfig().FirstSeq+4
	}
	if !resent {
		t.Error("PENDING(0) was not answered")
	}
}

// TestStragglerIsWaitedForAtTheHome: a chunk whose contributions rest in the ToR is brought to the home once, and then asked about.
func TestStragglerIsWaitedForAtTheHome(t *testing.T) {
	x := newScript(t, withAllTor)
	x.submit(0, ints(20*32))
	sent := x.expect(0, "D0 D1 D2 D3 D4 D5 D6 D7")
	x.echo(ms/5, sent[0])
	x.expect(ms/5, "D8")
	x.expect(ms, "P1")
	x.receive(ms*12/10, wire.Pending, 1, 0, nil, nil)
	x.expect(ms*12/10, "Dr1")
	x.receive(ms*14/10, wire.Solicit, 1, 0b011, nil, nil)
	now, probes := ms*14/10, 0
	for now < 100*ms {
		now = x.wake
		for _, p := range x.poll(now) {
			if p.Type != wire.Probe || p.Seq != sent[1].Seq {
				t.Fatalf("at %d us: sent %+v", now/1000, p.Header)
			}
			probes++
			x.receive(now+ms/5, wire.Solicit, 1, 0b011, nil, nil)
			x.poll(now + ms/5)
		}
	}
	if probes < 4 || probes > 10 {
		t.Errorf("%d probes in 100 ms", probes)
	}
}

// TestUnusedPathIsForgotten: an estimate of the home's round trip that nothing renews does not hold the timers up for ever.
func TestUnusedPathIsForgotten(t *testing.T) {
	x := newScript(t, withAllTor)
	x.submit(0, ints(200*32))
	sent := x.poll(0)
	x.fromHome(20*ms, sent[0])
	now := 20 * ms
	for _, p := range sent[1:] {
		x.fromTor(now, p)
	}
	if x.engine.path() != &x.engine.trip {
		t.Error("the timers do not go by the longer round trip")
	}
	for now < 80*ms {
		sent = x.poll(now)
		now += ms / 5
		for _, p := range sent {
			x.fromTor(now, p)
		}
		if x.engine.Completed() != nil {
			x.submit(now, ints(200*32))
		}
	}
	if x.engine.path() != &x.engine.torTrip {
		t.Error("the timers go by a round trip that was measured 60 ms ago")
	}
}

func TestNothingAllocatesOnTheWayThroughTheToR(t *testing.T) {
	cfg := Config{Workers: 2, Elements: 64, Window: 128, Shards: 1, MinRTO: 1e6, MaxRTO: 250e6, Silence: 30e9, Priority: 1, Tor: &TorRegion{Slots: 64, Period: 128}}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m, now, c := newMirror(128, 64), int64(1), &Collective{I32: make([]int32, 100_000)}
	m.full = 3
	if n := testing.AllocsPerRun(10, func() { m.reduce(t, e, &now, c) }); n != 0 {
		t.Errorf("%v allocations for a collective of known size", n)
	}
}
