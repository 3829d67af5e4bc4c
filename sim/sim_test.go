package sim

import (
	"errors"
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
	seeds = flag.Int("seeds", 2800, "how many seeds TestSeeds runs")
	first = flag.Uint64("first", 1, "the first of them")
)

// kits are the programs of as many runs as go on at once; take one and give it back.
var kits chan *Kit

func TestMain(m *testing.M) {
	flag.Parse()
	code := 1
	defer func() { os.Exit(code) }()
	lanes := runtime.GOMAXPROCS(0)
	var aggregators []*xdp.Aggregator
	for range mostHomes {
		aggregator, err := xdp.Load(xdp.Config{MaxJobs: uint32(lanes * mostJobs), FirstPort: 9696, Ports: 64, SimulatedClock: true})
		if err != nil {
			fmt.Fprintf(os.Stderr, "%+v\n", err)
			return
		}
		aggregators = append(aggregators, aggregator)
	}
	forest, err := xdp.Load(xdp.Config{MaxJobs: uint32(lanes * mostNodes), FirstPort: 9696, Ports: 128})
	if err != nil {
		fmt.Fprintf(os.Stderr, "%+v\n", err)
		return
	}
	aggregators = append(aggregators, forest)
	kits = make(chan *Kit, lanes)
	for lane := range lanes {
		kit, err := NewKit(uint16(lane*mostJobs), aggregators[0], aggregators[1:mostHomes]...)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%+v\n", err)
			return
		}
		kit.Tree, kit.TreeJob = forest, uint16(lane*mostNodes)
		kits <- kit
	}
	code = m.Run()
	var errs []error
	for range lanes {
		errs = append(errs, (<-kits).Close())
	}
	for _, aggregator := range aggregators {
		errs = append(errs, aggregator.Close())
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
}

// takeKit is a kit for the length of a test.
func takeKit(t *testing.T) *Kit {
	kit := <-kits
	t.Cleanup(func() { kits <- kit })
	return kit
}

// TestSeeds: whatever a seed does to the network, every worker ends with the
// same, right sums. A failing seed is named; -seeds 1 -first SEED repeats it.
func TestSeeds(t *testing.T) {
	var mu sync.Mutex
	var total Outcome
	var wiped, rebooted, withTor, twoJobs, failed int
	var g errgroup.Group
	g.SetLimit(cap(kits))
	for i := range uint64(*seeds) {
		seed := *first + i
		g.Go(func() error {
			kit := <-kits
			defer func() { kits <- kit }()
			s := Draw(seed)
			o, err := s.Run(kit)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed++
				t.Errorf("seed %d (make sim SEEDS=1 FIRST=%d): %v", seed, seed, err)
			}
			total.Add(o)
			if o.Wipes > 0 {
				wiped++
			}
			if o.Reboots > 0 {
				rebooted++
			}
			if s.Tor != nil {
				withTor++
			}
			if len(s.Jobs) > 1 {
				twoJobs++
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
	t.Logf("%d seeds from %d, %d with a ToR, %d of them with two jobs, %d failed; %d frames, %d lost, %d duplicated, %d reordered, %d marked; %d resends, %d probes, %d results given back; %d wipes in %d runs; %d reboots in %d runs; longest run %v",
		*seeds, *first, withTor, twoJobs, failed, total.Frames, total.Lost, total.Duplicated, total.Reordered, total.Marked,
		total.Resends, total.Probes, total.SolicitAnswers, total.Wipes, wiped, total.Reboots, rebooted, total.Time)
	t.Logf("%d of %d results from the ToR; its events: %v", total.TorChunks, total.Chunks, total.Events)
	// A simulation in which nothing goes wrong would prove nothing.
	if *seeds < 100 {
		return
	}
	if total.Lost == 0 || total.Duplicated == 0 || total.Reordered == 0 || total.Marked == 0 || total.SolicitAnswers == 0 || wiped == 0 || rebooted == 0 {
		t.Error("some kind of trouble never happened")
	}
	for _, event := range []string{
		"claimed", "merged", "completed", "preempts", "spilled", "resend_evicted", "passed", "duplicate", "freed", "forwarded", "unknown_job",
	} {
		if total.Events[event] == 0 {
			t.Errorf("the ToR's event %q never happened", event)
		}
	}
}

// TestRepeats: a seed gives the same run every time.
func TestRepeats(t *testing.T) {
	kit := takeKit(t)
	for _, seed := range []uint64{3, 17, 42, 43, 44, 45, 46} {
		one, err := Draw(seed).Run(kit)
		if err != nil {
			t.Fatal(err)
		}
		two, err := Draw(seed).Run(kit)
		if err != nil {
			t.Fatal(err)
		}
		if !one.Equal(two) {
			t.Errorf("seed %d: %+v, then %+v", seed, one, two)
		}
	}
}
