package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"spillway/xdp"
)

var (
	seeds = flag.Int("seeds", 2000, "how many seeds TestSeeds runs")
	first = flag.Uint64("first", 1, "the first of them")
)

var aggregator *xdp.Aggregator

// lanes are how many runs go on at once, each under a job id of its own.
var lanes = runtime.GOMAXPROCS(0)

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if aggregator, err = xdp.Load(xdp.Config{MaxJobs: uint32(lanes), Ports: 4}); err != nil {
		fmt.Fprintf(os.Stderr, "%+v\n", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := aggregator.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// TestSeeds: whatever a seed does to the network, every worker ends with the
// same, right sums. A failing seed is named; -seeds 1 -first SEED repeats it.
func TestSeeds(t *testing.T) {
	ids := make(chan uint16, lanes)
	for id := range lanes {
		ids <- uint16(id)
	}
	var mu sync.Mutex
	var total Outcome
	var wiped, failed int
	var g errgroup.Group
	g.SetLimit(lanes)
	for i := range uint64(*seeds) {
		seed := *first + i
		g.Go(func() error {
			id := <-ids
			defer func() { ids <- id }()
			o, err := Draw(seed).Run(aggregator, id)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed++
				t.Errorf("seed %d (make sim SEEDS=1 FIRST=%d): %v", seed, seed, err)
			}
			total.Frames += o.Frames
			total.Lost += o.Lost
			total.Duplicated += o.Duplicated
			total.Reordered += o.Reordered
			total.Marked += o.Marked
			total.Resends += o.Resends
			total.Probes += o.Probes
			total.SolicitAnswers += o.SolicitAnswers
			total.Wipes += o.Wipes
			total.Time = max(total.Time, o.Time)
			if o.Wipes > 0 {
				wiped++
			}
			if n := i + 1; n%500 == 0 {
				t.Logf("%d seeds", n)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d seeds from %d, %d failed; %d frames, %d lost, %d duplicated, %d reordered, %d marked; %d resends, %d probes, %d results given back; %d wipes in %d runs; longest run %v",
		*seeds, *first, failed, total.Frames, total.Lost, total.Duplicated, total.Reordered, total.Marked,
		total.Resends, total.Probes, total.SolicitAnswers, total.Wipes, wiped, total.Time)
	// A simulation in which nothing goes wrong would prove nothing.
	if *seeds >= 100 && (total.Lost == 0 || total.Duplicated == 0 || total.Reordered == 0 || total.Marked == 0 || total.SolicitAnswers == 0 || wiped == 0) {
		t.Error("some kind of trouble never happened")
	}
}

// TestRepeats: a seed gives the same run every time.
func TestRepeats(t *testing.T) {
	for _, seed := range []uint64{3, 17, 42} {
		one, err := Draw(seed).Run(aggregator, 0)
		if err != nil {
			t.Fatal(err)
		}
		two, err := Draw(seed).Run(aggregator, 0)
		if err != nil {
			t.Fatal(err)
		}
		if one != two {
			t.Errorf("seed %d: %+v, then %+v", seed, one, two)
		}
	}
}
