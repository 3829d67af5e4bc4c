package sim

import (
	"flag"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
)

var moveSeeds = flag.Int("move-seeds", 400, "how many seeds TestMoveSeeds runs")

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
