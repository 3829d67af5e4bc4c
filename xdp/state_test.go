package xdp

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/wire"
)

// readClock is the clock as a duration since some time.
func readClock(t *testing.T, a *Aggregator) time.Duration {
	t.Helper()
	now, err := a.clock()
	if err != nil {
		t.Fatal(err)
	}
	return now.since(0)
}

// tick waits until the clock has moved on from now, and returns what it was before.
func tick(t *testing.T, a *Aggregator) time.Duration {
	t.Helper()
	before := readClock(t, a)
	await(t, "the clock moves", func() bool { return readClock(t, a) > before })
	return before
}

// TestClock holds the clock's pace to the process's own.
func TestClock(t *testing.T) {
	a := load(t)
	tick(t, a)
	began, start := readClock(t, a), time.Now()
	await(t, "the clock went on for 200 ms", func() bool { return readClock(t, a)-began >= 200*time.Millisecond })
	if passed := time.Since(start); passed < 180*time.Millisecond || passed > 2*time.Second {
		t.Errorf("200 ms of the clock took %v", passed)
	}
}

// claimedAt is when the slot of a seq was claimed.
func claimedAt(t *testing.T, a *Aggregator, seq uint32) time.Duration {
	t.Helper()
	tick(t, a) // so that the clock does not move between the two readings
	for _, s := range slotStates(t, a) {
		if s.Seq == seq {
			return readClock(t, a) - s.Age
		}
	}
	t.Fatalf("no slot holds seq %d", seq)
	return 0
}

func slotStates(t *testing.T, a *Aggregator) []SlotState {
	t.Helper()
	states, err := a.Slots(7)
	if err != nil {
		t.Fatal(err)
	}
	return states
}

// TestSlots: which chunks wait, since when, for whom; through claim, merge, replace, a newer chunk and the end.
func TestSlots(t *testing.T) {
	a := load(t, torJob(3))
	if got := slotStates(t, a); len(got) != 0 {
		t.Errorf("a new job has %+v", got)
	}
	first := tick(t, a)
	h, x := data(0, 5, 1, 2, 3)
	send(t, a, frame(0, h, x), Drop)
	second := tick(t, a)
	h, x = data(1, 5, 1, 2, 3)
	send(t, a, frame(1, h, x), Drop)
	h, x = data(2, 6, 7)
	h.Op = wire.Max
	send(t, a, frame(2, h, x), Drop)
	ignored := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Age" }, cmp.Ignore())
	want := []SlotState{
		{Index: 5, Seq: 5, Bitmap: 3, Elements: 3, Op: wire.Sum},
		{Index: 6, Seq: 6, Bitmap: 4, Elements: 1, Op: wire.Max},
	}
	if diff := cmp.Diff(want, slotStates(t, a), ignored); diff != "" {
		t.Error(diff)
	}
	// The age is that of the first contribution. It is bounded from both sides, as exactly as the clock is.
	if at := claimedAt(t, a, 5); at < first || at > second+20*time.Millisecond {
		t.Errorf("seq 5 was claimed at %v, between %v and %v", at, first, second)
	}
	if at := claimedAt(t, a, 6); at <= second {
		t.Errorf("seq 6 was claimed at %v, after %v", at, second)
	}
	// A superset replaces the content, and the chunk is as old as before.
	third := tick(t, a)
	h, x = data(0, 6, 7)
	h.Op, h.Bitmap = wire.Max, 5
	send(t, a, frame(tor, h, x), Drop)
	if at := claimedAt(t, a, 6); at > third+20*time.Millisecond || slotStates(t, a)[1].Bitmap != 5 {
		t.Errorf("seq 6 was claimed at %v, before %v", at, third)
	}
	// Complete ones stay until a newer chunk comes, which has an age of its own.
	h, x = data(1, 6, 7)
	h.Op = wire.Max
	send(t, a, frame(1, h, x), Transmit)
	if got := slotStates(t, a)[1]; !got.Complete || got.Bitmap != 7 {
		t.Errorf("%+v", got)
	}
	ring := wire.RingSize(7)
	fourth := tick(t, a)
	h, x = data(1, 6+ring, 7)
	send(t, a, frame(1, h, x), Drop)
	if got := slotStates(t, a)[1]; got.Complete || got.Seq != 6+ring || got.Index != 6 || claimedAt(t, a, 6+ring) <= fourth-time.Nanosecond {
		t.Errorf("%+v", got)
	}
	// Another generation's slots are none.
	next := torJob(3)
	next.Generation++
	if err := a.RemoveJob(7); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Slots(7); !errors.Is(err, ErrNoJob) {
		t.Errorf("got %v", err)
	}
	if err := a.AddJob(next); err != nil {
		t.Fatal(err)
	}
	if got := slotStates(t, a); len(got) != 0 {
		t.Errorf("the next generation has %+v", got)
	}
}

// TestMembers: packets of each, whatever was done with them, but not with another's bits.
func TestMembers(t *testing.T) {
	a := load(t, torJob(3))
	before := tick(t, a)
	for rank, n := range []int{3, 0, 1} {
		for range n {
			h, x := data(rank, 5, 1)
			if _, _, err := a.Process(frame(rank, h, x)); err != nil {
				t.Fatal(err)
			}
		}
	}
	h, x := data(0, 5, 1) // with another's bit: it may be anybody's
	send(t, a, frame(1, h, x), Drop)
	h.Bitmap = 6
	if _, _, err := a.Process(frame(tor, h, x)); err != nil {
		t.Fatal(err)
	}
	h = header(wire.Probe, 2, 5, 0)
	if _, _, err := a.Process(frame(2, h, nil)); err != nil {
		t.Fatal(err)
	}
	got, err := a.Members(7)
	if err != nil || len(got) != 4 {
		t.Fatalf("%+v, error %v", got, err)
	}
	now := readClock(t, a)
	for i, want := range []uint64{3, 0, 2, 1} {
		m := got[i]
		if m.Packets != want || m.Addr != torJob(3).Members[i].Addr || m.Bits != torJob(3).Members[i].Bits {
			t.Errorf("%+v: want %d packets", m, want)
		}
		if last := now - m.Silent; want > 0 && last <= before {
			t.Errorf("%v: the last packet came %v ago, before the first was sent", m.Addr, m.Silent)
		}
	}
	if err := a.RemoveJob(7); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Members(7); !errors.Is(err, ErrNoJob) {
		t.Errorf("got %v", err)
	}
	if err := a.AddJob(torJob(3)); err != nil {
		t.Fatal(err)
	}
	if got, err = a.Members(7); err != nil || got[0].Packets != 0 {
		t.Errorf("the next job has %+v, error %v", got, err)
	}
}

// TestSlotBytes holds the stated cost of a slot to the compiled program's.
func TestSlotBytes(t *testing.T) {
	spec, err := loadAggregator()
	if err != nil {
		t.Fatal(err)
	}
	for class, elements := range classElements {
		want := uint64(spec.Maps["slots"].ValueSize) + uint64(elements*wire.ElementSize)
		if got := SlotBytes(class); got != want {
			t.Errorf("class %d: %d bytes, want %d", class, got, want)
		}
	}
	if class, room := ClassOf(wire.MaxElements + 1); class != len(Slots{}) || room != 0 {
		t.Errorf("chunks above the format's limit are of class %d, %d elements", class, room)
	}
}
