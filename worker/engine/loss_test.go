package engine

import (
	"errors"
	"testing"

	"spillway/wire"
)

func TestHeldChunksAreProbedNotResent(t *testing.T) {
	for _, answer := range []wire.Type{wire.Pending, wire.Solicit} {
		x := opened(t)
		x.receive(ms/4, answer, 2, 0b110, nil, nil) // own bit, rank 0 missing
		x.expect(ms/4, "")
		at := x.wake
		if at <= ms || at > 20*ms {
			t.Fatalf("the timer is at %d", at)
		}
		x.expect(at-1, "")
		x.expect(at, "P2")
		first, again := x.wake-at, x.wake
		x.expect(again, "P2")
		if second := x.wake - again; second != 2*first {
			t.Errorf("the timer backs off from %d to %d", first, second)
		}
	}
}

func TestStateWithoutOwnBitOrFullIsResentAtOnce(t *testing.T) {
	for _, answer := range []wire.Type{wire.Pending, wire.Solicit} {
		for _, have := range []uint64{0, 0b101, 0b111} {
			x := opened(t)
			x.receive(ms/2, answer, 3, have, nil, nil)
			x.receive(ms/2, answer, 3, have, nil, nil) // asked twice, answered once
			x.expect(ms/2, "Dr3")
			x.receive(ms/2+ms/10, answer, 3, have, nil, nil)
			x.expect(ms/2+ms/10, "") // sent less than the least round trip ago
			x.receive(ms*9/10, answer, 3, have, nil, nil)
			x.expect(ms*9/10, "Dr3")
		}
	}
	// A home that lost what it held is sent it again.
	x := opened(t)
	x.receive(ms/2, wire.Pending, 2, 0b010, nil, nil)
	x.receive(ms, wire.Pending, 2, 0, nil, nil)
	x.expect(ms, "Dr2")
}

func TestTimeoutResendsTheOldestAndBacksOff(t *testing.T) {
	x := newScript(t, nil)
	x.submit(0, ints(64))
	x.expect(0, "D0 D1 D2")
	var waits []int64
	for i, now := 0, int64(0); i < 6; i++ {
		waits = append(waits, x.wake-now)
		now = x.wake
		x.expect(now, "Dr0")
	}
	for i, want := range []int64{10 * ms, 20 * ms, 40 * ms, 50 * ms, 50 * ms, 50 * ms} {
		if waits[i] != want {
			t.Errorf("timeout %d after %d us, want %d", i, waits[i]/1000, want/1000)
		}
	}
	if s := x.engine.Stats(); s.Timeouts != 6 || s.Resends != 6 {
		t.Errorf("stats %+v", s)
	}
}

func TestLaterResultMakesSuspect(t *testing.T) {
	x := opened(t) // 2 to 7 sent at 0; 8 and 9 at 0.2 ms, which is more than a quarter of the round trip later
	late := x.sent[0]
	x.echo(ms/2, late)
	x.expect(ms/2, "P2 P3 P4 P5 P6 P7")
	x.echo(ms/2, x.sentAgain(late, 9))
	x.expect(ms/2+1, "") // 9 was sent before those were asked about
}

// TestRepairsMakeOnlyTheOldestSuspect: the RESULT of a chunk that was sent again comes as soon as the repair is in, while the
// other chunks may wait for a rank that lags.
func TestRepairsMakeOnlyTheOldestSuspect(t *testing.T) {
	x := opened(t)
	seven := x.sentAgain(x.sent[0], 7)
	x.receive(ms/2, wire.Pending, 7, 0, nil, nil)
	x.expect(ms/2, "Dr7")
	x.echo(ms*8/10, seven)
	x.expect(ms*8/10, "P2")
}

func TestOverdueChunkIsProbedWithBackOff(t *testing.T) {
	x := opened(t) // round trip 0.2 ms, floor 1 ms
	x.expect(ms-1, "")
	x.expect(ms, "P2")
	x.receive(ms+ms/5, wire.Solicit, 2, 0b110, nil, nil) // the home holds it: asked and answered just now
	x.expect(3*ms, "")
	x.expect(3*ms+ms/5, "P2")
	if s := x.engine.Stats(); s.Timeouts != 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestSolicitForOthersMayCrossTheData: what another rank asked about may be on its way from here.
func TestSolicitForOthersMayCrossTheData(t *testing.T) {
	x := opened(t)
	for i := range x.sent {
		x.echo(ms*7/10, x.sent[i]) // 0.5 ms: the average is above the least
	}
	x.poll(ms * 7 / 10) // probes 2 to 7
	x.receive(ms*9/10, wire.Pending, 2, 0, nil, nil)
	x.expect(ms*9/10, "Dr2")
	if x.engine.trip.smoothed <= x.engine.trip.least {
		t.Fatalf("the average is %d, the least %d", x.engine.trip.smoothed, x.engine.trip.least)
	}
	at := ms*9/10 + x.engine.trip.least // long enough for an answer to an own question only
	x.receive(at, wire.Solicit, 2, 0b001, nil, nil)
	if sent := x.poll(at); len(sent) != 0 {
		t.Errorf("sent %+v", sent)
	}
	x.receive(at, wire.Pending, 2, 0, nil, nil)
	x.expect(at, "Dr2")
}

// TestLostWindowIsRepairedInFewRoundTrips: everything is lost once, with nothing behind it.
func TestLostWindowIsRepairedInFewRoundTrips(t *testing.T) {
	x := newScript(t, func(c *Config) { c.Workers, c.Rank, c.Window = 3, 1, 256 })
	x.submit(0, ints(200*32))
	sent := x.poll(0)
	x.echo(ms/5, sent[0])
	x.poll(ms / 5)
	now, rounds := ms/5, 0
	for x.engine.Completed() == nil {
		if rounds++; rounds > 40 {
			t.Fatalf("%d chunks are still missing", x.engine.Stats().Outstanding)
		}
		if len(x.sent) == 0 {
			now = x.wake
		} else {
			now += ms / 5
		}
		for _, p := range x.sent {
			if offset := int(p.Seq - testConfig().FirstSeq); p.Type == wire.Probe {
				x.receive(now, wire.Pending, offset, 0, nil, nil)
			} else {
				x.echo(now, p)
			}
		}
		x.poll(now)
	}
	if s := x.engine.Stats(); s.Resends != 200 {
		t.Errorf("%d packets sent again for 200 that were lost", s.Resends)
	}
}

// sentAgain is a packet like p of another seq.
func (x *script) sentAgain(p sentPacket, offset int) sentPacket {
	p.Seq = testConfig().FirstSeq + uint32(offset)
	return p
}

func TestSolicitOfAResult(t *testing.T) {
	for _, c := range []struct {
		name string
		have []uint64
		want string
	}{
		{"lowest missing answers", []uint64{0b001}, "R0"},
		{"another is lower", []uint64{0b100}, ""},
		{"own bit is not missing", []uint64{0b011}, ""},
		{"the second time everybody answers", []uint64{0b100, 0b100}, "R0"},
		{"once", []uint64{0b001, 0b001}, "R0"},
	} {
		x := opened(t)
		for _, have := range c.have {
			x.receive(ms/2, wire.Solicit, 0, have, nil, nil)
		}
		for _, p := range x.expect(ms/2, c.want) {
			if p.Bitmap != 7 || p.Elems != 32 || p.Op != wire.Max {
				t.Errorf("%s: answered %+v", c.name, p.Header)
			}
		}
	}
	x := opened(t)
	x.engine.Abort(errors.New("test"))
	x.receive(ms/2, wire.Solicit, 1, 0b001, nil, nil)
	x.expect(ms/2, "R1") // the others may still need it
}
