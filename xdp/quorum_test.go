package xdp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spillway/wire"
)

// quorumJob releases sums of two of three workers after a millisecond. W is 7 and R 32.
func quorumJob() Job {
	j := torJob(3)
	j.Policy = Policy{Quorum: 2, After: time.Millisecond, MaxLag: 3}
	return j
}

// simulated is an aggregator whose jobs with a policy go by SetClock.
func simulated(t *testing.T, j Job) *Aggregator {
	t.Helper()
	a, err := Load(Config{MaxJobs: 16, Slots: Slots{64, 1, 1, 1}, SimulatedClock: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := a.AddJob(j); err != nil {
		t.Fatal(err)
	}
	return a
}

// moment is what happens at a time.
type moment struct {
	at    time.Duration
	steps []step
}

func runMoments(t *testing.T, a *Aggregator, moments []moment) {
	t.Helper()
	for _, m := range moments {
		if err := a.SetClock(7, m.at); err != nil {
			t.Fatal(err)
		}
		runSteps(t, a, m.steps)
	}
}

// TestQuorum goes through docs/protocol.md, section 7, row by row.
func TestQuorum(t *testing.T) {
	const (
		D, R, P = wire.Data, wire.Result, wire.Probe
		resend  = wire.Resend
		early   = 900 * time.Microsecond
		over    = 1100 * time.Microsecond
	)
	result := func(bitmap uint64) wire.Header { return wire.Header{Type: R, Bitmap: bitmap} }
	partial := func(bitmap uint64) wire.Header { return wire.Header{Type: R, Flags: wire.Partial, Bitmap: bitmap} }
	pending := func(bitmap uint64) wire.Header { return wire.Header{Type: wire.Pending, Bitmap: bitmap} }
	there := func(bitmap uint64) wire.Header { return wire.Header{Type: wire.Pending, Flags: resend, Bitmap: bitmap} }
	behind := func(bitmap uint64) wire.Header {
		return wire.Header{Type: wire.Pending, Flags: wire.Partial, Bitmap: bitmap}
	}
	solicit := func(bitmap uint64) wire.Header { return wire.Header{Type: wire.Solicit, Bitmap: bitmap} }
	one, two, four := []int32{1, 10}, []int32{2, 20}, []int32{4, 40}
	own := [][]int32{one, two, four}
	data := func(rank int, seq uint32, flags wire.Flags) wire.Header {
		return packet(D, rank, seq, 1<<rank, flags, 2)
	}
	probe := func(rank int, seq uint32) wire.Header { return packet(P, rank, seq, 1<<rank, 0, 0) }
	// The usual beginnings.
	claim := func(rank int, seq uint32) step {
		return step{fmt.Sprintf("rank %d claims %d", rank, seq), rank, data(rank, seq, 0), own[rank], wire.Header{}, nil, false, []string{"data", "claimed"}}
	}
	merge := func(rank int, seq uint32) step {
		return step{fmt.Sprintf("rank %d is added to %d", rank, seq), rank, data(rank, seq, 0), own[rank], wire.Header{}, nil, false, []string{"data", "merged"}}
	}
	finish := func(rank int, seq uint32) step {
		return step{fmt.Sprintf("rank %d completes %d", rank, seq), rank, data(rank, seq, 0), own[rank], result(7), []int32{7, 70}, true, []string{"data", "merged", "published"}}
	}
	released := func(name string, rank int, seq uint32, flags wire.Flags) step {
		return step{name, rank, data(rank, seq, flags), own[rank], partial(3), []int32{3, 30}, true, []string{"data", "released", "published"}}
	}
	for _, c := range []struct {
		name    string
		resumed bool
		moments []moment
	}{
		{"nobody is late", false, []moment{
			{0, []step{claim(0, 5), merge(1, 5)}},
			{early, []step{
				{"probe before the deadline", 0, probe(0, 5), nil, solicit(3), nil, true, []string{"probe", "solicited"}},
				{"duplicate before the deadline", 1, data(1, 5, resend), two, pending(3), nil, false, []string{"data", "pending"}},
				finish(2, 5),
			}},
			{over, []step{
				{"probe", 0, probe(0, 5), nil, pending(7), nil, false, []string{"probe", "pending"}},
				{"duplicate", 0, data(0, 5, resend), one, result(7), []int32{7, 70}, false, []string{"data", "result_resent"}},
			}},
		}},
		{"a PROBE learns that the deadline is over, a RESEND releases", false, []moment{
			{0, []step{claim(0, 5), merge(1, 5)}},
			{over, []step{
				{"probe of one that is in it", 0, probe(0, 5), nil, there(3), nil, false, []string{"probe", "pending"}},
				{"probe of one that is not", 2, probe(2, 5), nil, there(3), nil, false, []string{"probe", "pending"}},
				released("resend", 1, 5, resend),
				{"late", 2, data(2, 5, 0), four, partial(3), []int32{3, 30}, false, []string{"data", "result_resent", "late"}},
				{"one of them again", 0, data(0, 5, resend), one, partial(3), []int32{3, 30}, false, []string{"data", "result_resent"}},
				{"probe afterwards", 2, probe(2, 5), nil, there(3), nil, false, []string{"probe", "pending"}},
				{"a worker's RESULT", 0, packet(R, 0, 5, 7, 0, 2), []int32{7, 70}, wire.Header{}, nil, false, []string{"result", "duplicate_result"}},
				{"the ToR's sum of all", tor, packet(D, 0, 5, 7, 0, 2), []int32{7, 70}, partial(3), []int32{3, 30}, false, []string{"data", "result_resent", "late"}},
			}},
		}},
		{"a first contribution releases and is in it", false, []moment{
			{0, []step{claim(0, 5)}},
			{over, []step{
				{"fewer than the quorum", 0, probe(0, 5), nil, solicit(1), nil, true, []string{"probe", "solicited"}},
				{"nor by a resend", 0, data(0, 5, resend), one, pending(1), nil, false, []string{"data", "pending"}},
				{"the second", 1, data(1, 5, 0), two, partial(3), []int32{3, 30}, true, []string{"data", "merged", "released", "published"}},
			}},
		}},
		{"the last contribution makes it whole, however late", false, []moment{
			{0, []step{claim(0, 5), merge(1, 5)}},
			{over, []step{finish(2, 5)}},
		}},
		{"what cannot be added is an occasion all the same", false, []moment{
			{0, []step{claim(0, 5), merge(1, 5)}},
			{over, []step{
				{"other length", 2, packet(D, 2, 5, 4, 0, 3), []int32{1, 1, 1}, wire.Header{}, nil, false, []string{"data", "mismatch"}},
				{"overlap", tor, packet(D, 0, 5, 6, resend, 2), []int32{6, 60}, partial(3), []int32{3, 30}, true, []string{"data", "released", "published"}},
			}},
		}},
		{"a larger partial sum replaces and is released", false, []moment{
			{0, []step{claim(0, 5)}},
			{over, []step{{"superset", tor, packet(D, 0, 5, 3, 0, 2), []int32{3, 30}, partial(3), []int32{3, 30}, true, []string{"data", "replaced", "released", "published"}}}},
		}},
		{"a result that somebody may need keeps its slot", false, []moment{
			{0, []step{claim(0, 5), merge(1, 5)}},
			{over, []step{
				released("release", 0, 5, 0),
				{"the slot's next chunk", 0, data(0, 37, 0), one, behind(1), nil, false, []string{"data", "lagging"}},
				{"probe of it", 1, probe(1, 37), nil, behind(3), nil, false, []string{"probe", "lagging"}},
				{"not far enough: W chunks from 5", 2, probe(2, 11), nil, pending(0), nil, false, []string{"probe", "pending"}},
				{"still not", 0, data(0, 37, 0), one, behind(3), nil, false, []string{"data", "lagging"}},
				{"the RESULT is still there", 2, data(2, 5, 0), four, partial(3), []int32{3, 30}, false, []string{"data", "result_resent", "late"}},
				{"far enough", 2, probe(2, 12), nil, pending(0), nil, false, []string{"probe", "pending"}},
				{"probe of what may come now", 1, probe(1, 37), nil, pending(0), nil, false, []string{"probe", "pending"}},
				claim(0, 37),
			}},
		}},
		{"whom a chunk was released without is not waited for while it is behind", false, []moment{
			{0, []step{claim(0, 5), merge(1, 5), claim(0, 6), merge(1, 6), claim(0, 20), claim(0, 21)}},
			{over, []step{released("the deadline", 1, 5, resend)}},
			{over + 1*time.Microsecond, []step{
				{"what was claimed in time", 1, probe(1, 6), nil, there(3), nil, false, []string{"probe", "pending"}},
				released("as well", 0, 6, resend),
				{"at once", 1, data(1, 20, 0), two, partial(3), []int32{3, 30}, true, []string{"data", "merged", "released", "published"}},
				{"less than the quorum", 0, data(0, 22, 0), one, wire.Header{}, nil, false, []string{"data", "claimed"}},
				{"a RESEND of it", 0, data(0, 22, resend), one, pending(1), nil, false, []string{"data", "pending"}},
				{"a sum without the straggler", tor, packet(D, 0, 23, 3, 0, 2), []int32{3, 30}, partial(3), []int32{3, 30}, true, []string{"data", "claimed", "released", "published"}},
				{"it wakes up, more than a window behind", 2, data(2, 5, 0), four, partial(3), []int32{3, 30}, false, []string{"data", "result_resent", "late"}},
				{"still not", 1, data(1, 21, 0), two, partial(3), []int32{3, 30}, true, []string{"data", "merged", "released", "published"}},
				{"it has caught up: within a window", 2, probe(2, 17), nil, pending(0), nil, false, []string{"probe", "pending"}},
				claim(0, 24), merge(1, 24),
				{"it is waited for again", 0, data(0, 24, resend), one, pending(3), nil, false, []string{"data", "pending"}},
				finish(2, 24),
			}},
		}},
		{"a ToR's partial sum tells of all that are in it", false, []moment{
			{0, []step{
				claim(0, 5), merge(1, 5), finish(2, 5),
				{"of all", tor, packet(D, 0, 6, 7, 0, 2), []int32{7, 70}, result(7), []int32{7, 70}, true, []string{"data", "claimed", "published"}},
				{"too soon", 1, data(1, 37, 0), two, behind(2), nil, false, []string{"data", "lagging"}},
				{"of one", tor, packet(D, 0, 12, 4, 0, 2), four, wire.Header{}, nil, false, []string{"data", "claimed"}},
				{"the other is not there", 1, data(1, 37, 0), two, behind(6), nil, false, []string{"data", "lagging"}},
				{"of two", tor, packet(D, 0, 12, 5, 0, 2), []int32{5, 50}, wire.Header{}, nil, false, []string{"data", "replaced"}},
				claim(1, 37),
			}},
		}},
		{"after a loss of memory", true, []moment{
			{0, []step{
				{"not before everybody is there", 0, data(0, 5, resend), one, behind(1), nil, false, []string{"data", "lagging"}},
				{"the second", 1, probe(1, 5), nil, behind(3), nil, false, []string{"probe", "lagging"}},
				{"everybody", 2, data(2, 5, resend), four, solicit(4), nil, true, []string{"data", "claimed", "solicited"}},
				merge(1, 5),
			}},
			{over, []step{
				{"it may have been released before", 1, data(1, 5, resend), two, pending(6), nil, false, []string{"data", "pending"}},
				{"it had been", 0, packet(R, 0, 5, 3, wire.Partial, 2), []int32{3, 30}, partial(3), []int32{3, 30}, true, []string{"result", "restored", "published"}},
				claim(0, 6), merge(1, 6), finish(2, 6),
				claim(0, 12), merge(1, 12), claim(0, 13), merge(1, 13),
			}},
			{2 * over, []step{
				{"a window from the first that had not been, not yet", 0, data(0, 12, resend), one, pending(3), nil, false, []string{"data", "pending"}},
				released("but from there on", 0, 13, resend),
			}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := quorumJob()
			j.Resumed = c.resumed
			runMoments(t, simulated(t, j), c.moments)
		})
	}
}

// TestQuorumByTheClock: without a simulated clock it is the kernel's.
func TestQuorumByTheClock(t *testing.T) {
	j := quorumJob()
	j.Policy.After = 30 * time.Millisecond
	a := load(t, j)
	start := time.Now()
	for rank := range 2 {
		h, x := data(rank, 5, 1)
		send(t, a, frame(rank, h, x), Drop)
	}
	h, x := data(0, 5, 1)
	h.Flags = wire.Resend
	for {
		got := send(t, a, frame(0, h, x), Transmit)
		took := time.Since(start)
		switch {
		case got.header.Type == wire.Result && got.header.Bitmap == 3 && got.header.Flags == wire.Partial:
			if took < j.Policy.After {
				t.Errorf("released after %v", took)
			}
			return
		case got.header.Type != wire.Pending || took > 10*time.Second:
			t.Fatalf("after %v: %+v", took, got.header)
		}
	}
}

// TestPolicies: which are refused, what they cost, and that one which waits for all is none.
func TestPolicies(t *testing.T) {
	for name, p := range map[string]Policy{
		"quorum 4 of 3":       {Quorum: 4, After: time.Second},
		"quorum -1":           {Quorum: -1, After: time.Second},
		"above zero":          {Quorum: 2},
		"at most":             {Quorum: 2, After: 2 * time.Hour},
		"a lag of up to -1":   {Quorum: 2, After: time.Second, MaxLag: -1},
		"lag of up to 104857": {Quorum: 2, After: time.Second, MaxLag: 1<<20 + 1},
	} {
		j := torJob(3)
		if j.Policy = p; j.Validate() == nil || !strings.Contains(j.Validate().Error(), name) {
			t.Errorf("%+v: %v, want %q", p, j.Validate(), name)
		}
	}
	for _, c := range []struct {
		policy Policy
		ring   uint32
		kept   Policy
	}{
		{Policy{}, 16, Policy{}},
		{Policy{Quorum: 3, After: time.Second, MaxLag: 500}, 16, Policy{}},
		{Policy{Quorum: 2, After: time.Millisecond}, 16, Policy{Quorum: 2, After: time.Millisecond}},
		{Policy{Quorum: 1, After: time.Microsecond, MaxLag: 1}, 32, Policy{Quorum: 1, After: time.Microsecond, MaxLag: 1}},
	} {
		j := testJob(3, 32)
		j.Policy, j.Resumed = c.policy, true
		if got := j.Ring(); got != c.ring {
			t.Errorf("%+v takes %d slots, want %d", c.policy, got, c.ring)
		}
		a := load(t, j)
		if got := a.Jobs()[0]; got.Policy != c.kept || got.Resumed != (c.kept != Policy{}) {
			t.Errorf("%+v is kept as %+v, resumed %v", c.policy, got.Policy, got.Resumed)
		}
		if err := a.RemoveJob(j.ID); err != nil {
			t.Fatal(err)
		}
	}
}
