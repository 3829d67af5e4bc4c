package sim

import (
	"flag"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
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
}
