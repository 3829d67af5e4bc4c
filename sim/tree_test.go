package sim

import (
	"flag"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

var treeSeeds = flag.Int("tree-seeds", 120, "how many seeds TestTreeSeeds runs")

// TestTreeSeeds is TestSeeds for jobs whose home is a tree of nodes, every one of which may forget or die.
func TestTreeSeeds(t *testing.T) {
	var mu sync.Mutex
	var total Outcome
	var failed, withTor, deep int
	var g errgroup.Group
	g.SetLimit(cap(kits))
	for i := range uint64(*treeSeeds) {
		seed := *first + i
		g.Go(func() error {
			kit := <-kits
			defer func() { kits <- kit }()
			s := DrawTree(seed)
			o, err := s.Run(kit)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed++
				t.Errorf("seed %d (go test ./sim -run TestTreeSeeds -args -tree-seeds 1 -first %d): %v", seed, seed, err)
			}
			if s.Tor != nil {
				withTor++
			}
			if s.Shape.levels() > 2 {
				deep++
			}
			total.Add(o)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d seeds from %d, %d failed, %d with a ToR, %d of more than two levels of nodes; %+v", *treeSeeds, *first, failed, withTor, deep, total)
	if *treeSeeds < 100 {
		return
	}
	for _, event := range []string{"sent_up", "asked_up", "returned_up", "passed_down", "needless", "restored", "bad_generation", "result_resent", "solicited"} {
		if total.HomeEvents[event] == 0 {
			t.Errorf("the nodes' event %q never happened", event)
		}
	}
	if total.Moves == 0 || total.Wipes == 0 || total.SolicitAnswers == 0 || total.Reboots == 0 || total.Events["merged"] == 0 || withTor == 0 || deep == 0 {
		t.Errorf("some kind of trouble never happened: %+v", total)
	}
}

// levels is how many nodes are on the longest way from a rank to the root.
func (s *Shape) levels() int {
	most := 0
	for _, n := range s.Of {
		depth := 1
		for ; n != s.Root; n = s.Parents[n] {
			depth++
		}
		most = max(most, depth)
	}
	return most
}

// racks is a calm tree: so many racks of so many workers each under a root.
func racks(r *rand.Rand, racks, workers, elements int) *Tree {
	j := &Job{Workers: racks * workers, Elements: 64, Window: 8, HomePorts: 1}
	var c Collective
	for range j.Workers {
		x := make([]float32, elements)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		c.F32 = append(c.F32, x)
		j.Start = append(j.Start, []int64{0})
	}
	j.Collectives = []Collective{c}
	s := &Tree{Seed: 1, Job: j, Burst: 64, Nodes: racks + 1, Faults: Faults{Base: 10_000, Jitter: 5_000}}
	s.Shape.Root = racks
	for range racks {
		s.Shape.Parents = append(s.Shape.Parents, racks)
	}
	s.Shape.Parents = append(s.Shape.Parents, racks)
	for rank := range j.Workers {
		s.Shape.Of = append(s.Shape.Of, rank/workers)
	}
	return s
}

// TestRacks: racks of workers under a root, up to 64 of 64, of whom no bitmap could name all. Every worker ends with the same sum, bit for bit. The packets are those that docs/scaling.md
// says: each node takes one contribution of each child, sends a sum up once, and publishes once.
func TestRacks(t *testing.T) {
	kit := takeKit(t)
	for _, c := range []struct{ racks, workers, chunks int }{{2, 2, 40}, {4, 4, 40}, {8, 8, 40}, {16, 16, 40}, {64, 64, 3}} {
		s := racks(rand.New(rand.NewPCG(1, 1)), c.racks, c.workers, 64*c.chunks)
		o, err := s.Run(kit)
		if err != nil {
			t.Fatal(err)
		}
		n, r := uint64(c.racks*c.workers), uint64(c.racks)
		chunks := o.Chunks / n // those of the tensor, the descriptor and exponents
		want := map[string]uint64{
			"data": (n + r) * chunks, "claimed": (r + 1) * chunks, "merged": (n - 1) * chunks,
			"sent_up": r * chunks, "result": r * chunks, "restored": r * chunks, "published": (r + 1) * chunks,
		}
		if diff := cmp.Diff(want, o.HomeEvents); diff != "" || chunks < uint64(c.chunks) || o.Resends != 0 {
			t.Errorf("%d racks of %d workers, %d chunks, %d resends: %s", c.racks, c.workers, chunks, o.Resends, diff)
		}
		// The root has no group here and sends a copy to each rack.
		if want := (n + 3*r) * chunks; uint64(o.Frames) != want {
			t.Errorf("%d racks of %d workers sent %d frames, want %d", c.racks, c.workers, o.Frames, want)
		}
		t.Logf("%d racks of %d workers: %d chunks in %v, %d frames, %v", c.racks, c.workers, chunks, o.Time, o.Frames, o.HomeEvents)
	}
}

// TestRacksWithLosses is 16 racks of 16 workers when packets are lost and nodes of both levels forget.
func TestRacksWithLosses(t *testing.T) {
	s := racks(rand.New(rand.NewPCG(1, 2)), 16, 16, 64*10)
	s.Faults.Loss, s.Faults.Duplicate, s.Faults.Reorder, s.Faults.Late = 0.002, 0.001, 0.01, 100_000
	s.Wipes = []NodeWipe{{100_000, 3}, {200_000, 16}, {300_000, 0}, {450_000, 16}, {600_000, 7}}
	o, err := s.Run(takeKit(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d chunks in %v, %d frames, %d lost, %d wipes, %d resends, %d probes; %v", o.Chunks/256, o.Time, o.Frames, o.Lost, o.Wipes, o.Resends, o.Probes, o.HomeEvents)
	if o.Lost == 0 || o.Wipes < 3 || o.Resends == 0 {
		t.Errorf("some kind of trouble never happened: %+v", o)
	}
}
