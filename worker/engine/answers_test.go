package engine

import (
	"testing"

	"spillway/wire"
)

// probed is a script all of whose chunks are for the ToR: 0 came from there after 0.1 ms, 1 from the home after 20 ms, as what waited for a repair does,
// and 2 has been probed, at the time returned. later is a chunk that was sent at 20 ms.
func probed(t *testing.T) (x *script, now int64, later sentPacket) {
	t.Helper()
	x = newScript(t, withAllTor)
	x.submit(0, ints(400*32))
	sent := x.expect(0, "D0 D1 D2 D3 D4 D5 D6 D7")
	x.fromTor(ms/10, sent[0])
	x.fromHome(20*ms, sent[1])
	later = x.expect(20*ms, "D8 D9")[0]
	if x.engine.path() != &x.engine.trip || x.engine.trip.smoothed != 20*ms {
		t.Fatalf("the timers go by %+v", *x.engine.path())
	}
	x.expect(30*ms, "P2")
	return x, 30 * ms, later
}

// TestAnsweredProbesAreTheHomesRoundTrip: the patience for the next repair does not grow with how long the last one took.
func TestAnsweredProbesAreTheHomesRoundTrip(t *testing.T) {
	for _, have := range []uint64{0, 0b111} {
		x, now, _ := probed(t)
		x.receive(now+ms/5, wire.Pending, 2, have, nil, nil)
		if got := x.engine.path().smoothed; got != ms/5 {
			t.Errorf("after PENDING(%b) the timers go by %d us, want 200", have, got/1000)
		}
		x.expect(now+ms/5, "Dr2")
		if want := now + ms/5 + ms; x.wake != want { // the least timeout, and not 50 ms
			t.Errorf("the next question is at %d us, want %d", x.wake/1000, want/1000)
		}
	}
}

// TestAmbiguousAnswersAreNoMeasure: a PENDING that another question can have caused, or another PROBE, says nothing about how long the home takes.
func TestAmbiguousAnswersAreNoMeasure(t *testing.T) {
	for name, play := range map[string]func(x *script, now int64){
		"to a duplicate of DATA": func(x *script, now int64) {
			x.receive(now+1, wire.Pending, 2, 0b011, nil, nil)
		},
		"to the first of two PROBEs": func(x *script, now int64) {
			e := x.engine
			if !e.sendProbe(now+ms/10, e.base, e.chunk(e.base), x) {
				x.t.Fatal("not sent")
			}
			x.receive(now+ms/5, wire.Pending, 2, 0, nil, nil)
		},
		"after a SOLICIT, which counts as a question": func(x *script, now int64) {
			x.receive(now+ms/5, wire.Solicit, 2, 0b011, nil, nil)
			x.receive(now+ms/5+1, wire.Pending, 2, 0b111, nil, nil)
		},
		"after a PENDING, which counts as a question": func(x *script, now int64) {
			x.receive(now+ms/5, wire.Pending, 2, 0b011, nil, nil)
			x.receive(now+ms/5+1, wire.Pending, 2, 0, nil, nil)
		},
		"not to a PROBE": func(x *script, now int64) { x.receive(now+1, wire.Pending, 8, 0, nil, nil) },
		"at once":        func(x *script, now int64) { x.receive(now, wire.Pending, 2, 0, nil, nil) },
		"to a RESEND since": func(x *script, now int64) {
			x.receive(now, wire.Pending, 2, 0, nil, nil)
			x.expect(now, "Dr2")
			x.receive(now+1, wire.Pending, 2, 0, nil, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			x, now, _ := probed(t)
			play(x, now)
			if trip := x.engine.answerTrip; trip.measured {
				t.Errorf("measured %d ns", trip.smoothed)
			}
		})
	}
	t.Run("without a ToR", func(t *testing.T) {
		x := opened(t)
		x.expect(x.wake, "P2")
		x.receive(x.wake-1, wire.Pending, 2, 0, nil, nil)
		if x.engine.answerTrip.measured || x.engine.path() != &x.engine.trip {
			t.Error("measured")
		}
	})
}

// TestAnswersAreForgotten: they do not stand in for the home's round trip longer than an estimate lasts.
func TestAnswersAreForgotten(t *testing.T) {
	for name, come := range map[string]func(*script, int64, sentPacket){"ToR": (*script).fromTor, "home": (*script).fromHome} {
		for _, after := range []int64{49, 51} { // the longest timeout is 50 ms
			x, now, later := probed(t)
			x.receive(now+ms/5, wire.Pending, 2, 0, nil, nil)
			come(x, now+ms/5+after*ms, later)
			if x.engine.answerTrip.measured != (after < 50) {
				t.Errorf("%s: after %d ms measured is %t", name, after, after >= 50)
			}
		}
	}
}
