package sim

import (
	"errors"
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"spillway/p4/softtor/dataplane"
	"spillway/wire"
	"spillway/worker/engine"
	"spillway/xdp"
)

var quorumSeeds = flag.Int("quorum-seeds", 600, "how many seeds TestQuorumSeeds runs")

// TestQuorumSeeds is TestSeeds for jobs that do not wait for stragglers.
func TestQuorumSeeds(t *testing.T) {
	var mu sync.Mutex
	var total Outcome
	var failed int
	var g errgroup.Group
	g.SetLimit(cap(kits))
	for i := range uint64(*quorumSeeds) {
		seed := *first + i
		g.Go(func() error {
			kit := <-kits
			defer func() { kits <- kit }()
			o, err := DrawQuorum(seed).Run(kit)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed++
				t.Errorf("seed %d (go test ./sim -run TestQuorumSeeds -args -quorum-seeds 1 -first %d): %v", seed, seed, err)
			}
			total.Add(o)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d seeds from %d, %d failed; %+v", *quorumSeeds, *first, failed, total)
	if *quorumSeeds < 100 {
		return
	}
	for _, event := range []string{"released", "late", "lagging", "restored", "bad_generation", "result_resent", "solicited"} {
		if total.HomeEvents[event] == 0 {
			t.Errorf("the home's event %q never happened", event)
		}
	}
	if total.Partial == 0 || total.Early == 0 || total.Wipes == 0 || total.Events["completed"] == 0 {
		t.Errorf("some kind of trouble never happened: %+v", total)
	}
}

// TestQuorumRepeats: a seed gives the same run every time.
func TestQuorumRepeats(t *testing.T) {
	kit := takeKit(t)
	for seed := range uint64(8) {
		one, err := DrawQuorum(seed).Run(kit)
		if err != nil {
			t.Fatal(err)
		}
		two, err := DrawQuorum(seed).Run(kit)
		if err != nil {
			t.Fatal(err)
		}
		if !one.Equal(two) {
			t.Errorf("seed %d: %+v, then %+v", seed, one, two)
		}
	}
}

// TestQuorumStraggler: a rank stands still for 100 ms. Those who have a quorum are not kept for more than a deadline or two; it catches up by what it finds
// in its sockets, and by RESULTs that it asks for.
func TestQuorumStraggler(t *testing.T) {
	kit := takeKit(t)
	for name, share := range map[string]*Share{"home alone": nil, "with a ToR": share(32, dataplane.SharedSlots, 5)} {
		run := func(policy xdp.Policy) time.Duration {
			s := calm(200, share)
			s.Jobs[0].Policy = policy
			s.Pauses = []Pause{{Rank: 3, At: 0, For: 100_000_000}}
			if share == nil {
				s.Tor = nil
			}
			r, err := s.build(kit)
			if err != nil {
				t.Fatal(errors.Join(err, r.close()))
			}
			defer func() {
				if err := r.close(); err != nil {
					t.Error(err)
				}
			}()
			for rank, w := range r.workers[0] {
				if err := w.Submit(0, s.Jobs[0].Collectives[0].issue(s.Jobs[0], rank)); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.fabric.Run(time.Minute, func() bool {
				return !slices.ContainsFunc(r.workers[0][:3], func(w *Worker) bool { return len(w.Finished) < 1 })
			}); err != nil {
				t.Fatal(err)
			}
			fast := time.Duration(r.fabric.now)
			if err := r.fabric.Run(time.Minute, r.done); err != nil {
				t.Fatal(err)
			}
			if _, err := r.outcome(nil); err != nil {
				t.Fatal(err)
			}
			if policy.Quorum != 0 {
				if err := r.released(0, s.Jobs[0].Collectives[0])(r.workers[0], 0, s.Jobs[0]); err != nil {
					t.Error(err)
				}
			}
			t.Logf("%s, %+v: the others after %v, the late one after %v", name, policy, fast, time.Duration(r.fabric.now))
			if late := time.Duration(r.fabric.now); late > 150*time.Millisecond {
				t.Errorf("%s, %+v: the late one took %v", name, policy, late)
			}
			return fast
		}
		if took := run(xdp.Policy{}); took < 100*time.Millisecond {
			t.Errorf("%s: without the straggler after %v", name, took)
		}
		// 200 chunks are seven windows.
		if took := run(xdp.Policy{Quorum: 3, After: 2 * time.Millisecond, MaxLag: 300}); took > 50*time.Millisecond {
			t.Errorf("%s: the others took %v", name, took)
		}
		// No further than the ring allows: 2 windows, rounded up to 128 slots with the lag.
		if took := run(xdp.Policy{Quorum: 3, After: 2 * time.Millisecond, MaxLag: 10}); took < 100*time.Millisecond {
			t.Errorf("%s: the others did not wait for the one that lags: %v", name, took)
		}
	}
}

// quorumTrio is a trio whose sums are released without one of the three after a millisecond.
func quorumTrio(t *testing.T, lag int) *trio {
	t.Helper()
	return newTrioOf(t, Faults{Base: 20_000, Jitter: 10_000}, Job{
		Workers: 3, Elements: 64, Window: 8, HomePorts: 1, Policy: xdp.Policy{Quorum: 2, After: time.Millisecond, MaxLag: lag},
	})
}

// TestDeadRank: a rank never comes. The others go on without it as far as the lag allows, and then an error names it.
func TestDeadRank(t *testing.T) {
	x := quorumTrio(t, 100)
	x.workers[2].Pause(never)
	for range 2 {
		for rank := range 2 {
			x.submit(t, rank, &engine.Collective{I32: make([]int32, 50*64), Op: wire.Sum})
		}
	}
	x.run(t, 2, 0, 1)
	for rank := range 2 {
		for i, c := range x.workers[rank].Finished {
			if o := c.Outcome(); c.Err() != nil || o.Contributors != 3 || !o.Partial || o.Missed != 0 {
				t.Errorf("rank %d, collective %d: %v, %+v", rank, i, c.Err(), o)
			}
		}
		x.submit(t, rank, &engine.Collective{I32: make([]int32, 100*64), Op: wire.Sum})
	}
	x.run(t, 3, 0, 1)
	for rank := range 2 {
		var missing *engine.MissingRanksError
		if err := x.workers[rank].Finished[2].Err(); !errors.As(err, &missing) || !slices.Equal(missing.Ranks, []int{2}) {
			t.Errorf("rank %d: %v, want that rank 2 is missing", rank, err)
		}
	}
}

// TestLateDisagreement: a rank that comes late with another collective than the others agreed on without it fails alone.
func TestLateDisagreement(t *testing.T) {
	for name, odd := range map[string]*engine.Collective{
		"length": {I32: make([]int32, 641), Op: wire.Sum},
		"kind":   {F32: make([]float32, 640)},
	} {
		t.Run(name, func(t *testing.T) {
			x := quorumTrio(t, 100)
			for rank := range 2 {
				x.submit(t, rank, &engine.Collective{I32: make([]int32, 640), Op: wire.Sum})
			}
			x.run(t, 1, 0, 1)
			x.submit(t, 2, odd)
			x.run(t, 1, 2)
			var disagreement *engine.DisagreementError
			if err := x.workers[2].Finished[0].Err(); !errors.As(err, &disagreement) || !errors.Is(err, engine.ErrBroken) {
				t.Errorf("rank 2: %v", err)
			}
			for rank := range 2 {
				if err := x.workers[rank].Finished[0].Err(); err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
			}
		})
	}
}

// TestLateExponent: a rank whose elements do not fit the exponent that was agreed on without it takes no part in the chunks of that exponent, however punctual it is
// there; every rank knows that, and it gets its elements back.
func TestLateExponent(t *testing.T) {
	x := quorumTrio(t, 100)
	const n = 40 * 64 // a second group of exponents, in the second chunk
	residual := make([]float32, n)
	large := make([]float32, n)
	for i := range large {
		large[i] = 1e30
	}
	for rank := range 2 {
		small := make([]float32, n)
		for i := range small {
			small[i] = 0.25
		}
		x.submit(t, rank, &engine.Collective{F32: small})
	}
	// The two exponent chunks are in the first window; the late rank is there soon after them.
	x.workers[2].Pause(1_900_000)
	x.submit(t, 2, &engine.Collective{F32: slices.Clone(large), ResidualF32: residual})
	x.run(t, 1, 0, 1, 2)
	for rank, w := range x.workers {
		c := w.Finished[0]
		if c.Err() != nil {
			t.Fatalf("rank %d: %v", rank, c.Err())
		}
		if o := c.Outcome(); o.Contributors != 3 || len(o.Spans) != 1 || o.Missed != n*(rank/2) {
			t.Errorf("rank %d: %+v", rank, o)
		}
		for i, v := range c.F32 {
			if v != 0.5 {
				t.Fatalf("rank %d, element %d: %v", rank, i, v)
			}
		}
	}
	if !slices.Equal(residual, large) {
		t.Error("the late rank is not handed back what it has")
	}
}
