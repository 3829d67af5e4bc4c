package sim

import (
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"spillway/p4/softtor/dataplane"
	"spillway/xdp"
)

var moveSeeds = flag.Int("move-seeds", 300, "how many seeds TestMoveSeeds runs")

// TestMoveSeeds is TestSeeds for jobs, of both kinds, whose homes die and are given up, over and over: nobody hangs, every sum is right, and no two workers
// take different RESULTs of a chunk.
func TestMoveSeeds(t *testing.T) {
	var mu sync.Mutex
	var total Outcome
	var failed, sharded int
	var g errgroup.Group
	g.SetLimit(cap(kits))
	for i := range uint64(*moveSeeds) {
		seed := *first + i
		g.Go(func() error {
			kit := <-kits
			defer func() { kits <- kit }()
			s := DrawMoves(seed)
			o, err := s.Run(kit)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed++
				t.Errorf("seed %d (go test ./sim -run TestMoveSeeds -args -move-seeds 1 -first %d): %v", seed, seed, err)
			}
			if len(s.Plan.Places[0]) > 1 {
				sharded++
			}
			total.Add(o)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d seeds from %d, %d failed, %d with several shards; %+v", *moveSeeds, *first, failed, sharded, total)
	if *moveSeeds < 100 {
		return
	}
	for _, event := range []string{"released", "late", "lagging", "restored", "bad_generation", "result_resent", "solicited"} {
		if total.HomeEvents[event] == 0 {
			t.Errorf("the homes' event %q never happened", event)
		}
	}
	if total.Moves == 0 || total.Wipes == 0 || total.Partial == 0 || total.SolicitAnswers == 0 || total.TorChunks == 0 || sharded == 0 {
		t.Errorf("some kind of trouble never happened: %+v", total)
	}
}

// TestMovePause: how long it takes from the moment that a worker hears of a new generation to its first RESULT there, while a home dies every 5 ms. The homes, the
// ToR and the other workers hear of it within half a millisecond.
func TestMovePause(t *testing.T) {
	kit := takeKit(t)
	quorum := xdp.Policy{Quorum: 3, After: 2 * time.Millisecond, MaxLag: 300}
	for _, c := range []struct {
		name   string
		loss   float64
		policy xdp.Policy
		share  *Share
		shards int
	}{
		{name: "wait", shards: 1},
		{name: "wait, 1% lost", shards: 1, loss: 0.01},
		{name: "wait, 3 shards", shards: 3},
		{name: "wait, with a ToR", shards: 1, share: share(32, dataplane.SharedSlots, 5)},
		{name: "quorum", shards: 1, policy: quorum},
		{name: "quorum, 1% lost", shards: 1, loss: 0.01, policy: quorum},
		{name: "quorum, 3 shards", shards: 3, policy: quorum},
	} {
		s := calm(9000, c.share)
		if c.share == nil {
			s.Tor = nil
		}
		s.Faults.Loss = c.loss
		s.Jobs[0].Policy = c.policy
		s.Plan = &MovePlan{Homes: c.shards + 1, Spread: 500_000, Places: [][]int{([]int{0, 1, 2})[:c.shards]}}
		for i := range int64(60) {
			s.Plan.Moves = append(s.Plan.Moves, Move{At: (i + 1) * 5_000_000, Home: int(i) % (c.shards + 1), Kind: Dies, Notice: 2_000_000, Back: 500_000})
		}
		var pauses []int64
		s.watch = func(after int64) { pauses = append(pauses, after) }
		o, err := s.Run(kit)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		slices.Sort(pauses)
		if len(pauses) == 0 {
			t.Fatalf("%s: no move met work; %+v", c.name, o)
		}
		p50, p99 := time.Duration(pauses[len(pauses)/2]), time.Duration(pauses[len(pauses)*99/100])
		t.Logf("%s: %d moves in %v, %d pauses: p50 %v, p99 %v, longest %v", c.name, o.Moves, o.Time, len(pauses), p50, p99, time.Duration(pauses[len(pauses)-1]))
		if p99 > 5*time.Millisecond {
			t.Errorf("%s: a worker in a hundred waits for %v", c.name, p99)
		}
	}
}
