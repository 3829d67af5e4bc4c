package xdp

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/wire"
)

// TestLateness: who came how much later than the first, and what was released without whom.
func TestLateness(t *testing.T) {
	a := simulated(t, quorumJob()) // D is a millisecond, a tick a microsecond
	at := func(now time.Duration, rank int, h wire.Header, elements []int32, verdict Verdict) {
		t.Helper()
		if err := a.SetClock(7, now); err != nil {
			t.Fatal(err)
		}
		send(t, a, frame(rank, h, elements), verdict)
	}
	worker := func(now time.Duration, rank int, seq uint32, flags wire.Flags, verdict Verdict) {
		t.Helper()
		at(now, rank, packet(wire.Data, rank, seq, 1<<rank, flags, 2), []int32{1, 10}, verdict)
	}
	const us = time.Microsecond
	worker(0, 0, 5, 0, Drop)
	worker(0, 1, 5, 0, Drop)
	worker(3*us, 2, 5, 0, Transmit) // the last: bucket [2, 4)
	worker(10*us, 1, 6, 0, Drop)
	worker(11*us, 2, 6, 0, Drop)               // bucket [1, 2)
	worker(12*us, 2, 6, wire.Resend, Transmit) // a duplicate is no contribution
	worker(1100*us, 1, 6, wire.Resend, Transmit)
	worker(1100*us, 0, 6, 0, Transmit) // late: 1,090 is in [1024, 2048)
	// Of a ToR, each rank that is in a part of the sum; a sum of all says nothing.
	at(2000*us, tor, packet(wire.Data, tor, 7, 7, 0, 2), []int32{1, 10}, Transmit)
	at(2000*us, tor, packet(wire.Data, tor, 8, 3, 0, 2), []int32{1, 10}, Drop)
	at(2100*us, tor, packet(wire.Data, tor, 8, 4, 0, 2), []int32{1, 10}, Transmit) // [64, 128)
	counts := func(at map[int]uint64) (c [LatenessBuckets]uint64) {
		for bucket, n := range at {
			c[bucket] = n
		}
		return c
	}
	want := []Lateness{
		{Counts: counts(map[int]uint64{0: 2, 11: 1}), Sum: 1090 * us, Without: 1},
		{Counts: counts(map[int]uint64{0: 3})},
		{Counts: counts(map[int]uint64{1: 1, 2: 1, 7: 1}), Sum: 104 * us},
	}
	got, err := a.Lateness(7)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(JobLateness{us, want}, got); diff != "" {
		t.Error(diff)
	}
	if bounds := got.Bounds(); bounds[0] != us || bounds[11] != 2048*us {
		t.Error(bounds)
	}

	// The next job of the id begins anew.
	if err := a.RemoveJob(7); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Lateness(7); err == nil {
		t.Error("no job, and it is said how late its workers are")
	}
	if err := a.AddJob(quorumJob()); err != nil {
		t.Fatal(err)
	}
	if got, err = a.Lateness(7); err != nil || !cmp.Equal(got.Ranks, make([]Lateness, 3)) {
		t.Error(got, err)
	}
}

// TestLatenessBound: what is later than all bounds is in the last bucket.
func TestLatenessBound(t *testing.T) {
	j := quorumJob()
	j.Policy.After = time.Hour
	a := simulated(t, j)
	for i, now := range []time.Duration{0, 30 * time.Minute} {
		if err := a.SetClock(7, now); err != nil {
			t.Fatal(err)
		}
		send(t, a, frame(i, packet(wire.Data, i, 5, 1<<i, 0, 2), []int32{1, 10}), Drop)
	}
	got, err := a.Lateness(7)
	if err != nil || got.Ranks[1].Counts[LatenessBuckets-1] != 1 || got.Ranks[1].Sum != 30*time.Minute {
		t.Error(got, err)
	}
}
