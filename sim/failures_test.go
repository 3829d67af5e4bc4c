package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"spillway/wire"
	"spillway/worker/engine"
)

// trio is three workers and the compiled aggregator on a fabric.
type trio struct {
	fabric  *Fabric
	workers []*Worker
}

func newTrio(t *testing.T, faults Faults) *trio {
	t.Helper()
	j := Job{Workers: 3, Elements: 64, Window: 8, HomePorts: 1}
	kit := takeKit(t)
	identity := j.identity(1, 0, kit.Job)
	home, err := NewHome(kit.Aggregator, identity)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := home.Close(); err != nil {
			t.Error(err)
		}
	})
	x := &trio{fabric: NewFabric(rand.New(rand.NewPCG(1, 1)), faults)}
	x.fabric.Add(home)
	for rank := range 3 {
		w, err := j.worker(&identity, 0, rank, 64, 2*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		x.fabric.Add(w, identity.Group)
		x.workers = append(x.workers, w)
	}
	return x
}

func (x *trio) submit(t *testing.T, rank int, c *engine.Collective) {
	t.Helper()
	w := x.workers[rank]
	x.fabric.At(0, func(now int64) error {
		defer x.fabric.Kick(w.Addr(), now)
		return w.Submit(now, c)
	})
}

// run goes on until the ranks have finished n collectives each.
func (x *trio) run(t *testing.T, n int, ranks ...int) {
	t.Helper()
	err := x.fabric.Run(time.Minute, func() bool {
		return !slices.ContainsFunc(ranks, func(rank int) bool { return len(x.workers[rank].Finished) < n })
	})
	if err != nil {
		t.Fatal(err)
	}
}

var base = Faults{Base: 20_000, Jitter: 10_000}

// TestDisagreement: ranks that issue different collectives all get an error
// that says so, within some round trips, and nothing after it is reported as good.
func TestDisagreement(t *testing.T) {
	f32 := func(n int) *engine.Collective { return &engine.Collective{F32: make([]float32, n)} }
	i32 := func(n int, op wire.Op) *engine.Collective { return &engine.Collective{I32: make([]int32, n), Op: op} }
	for name, odd := range map[string]*engine.Collective{
		"length":                f32(1001),
		"length, one chunk":     f32(1),
		"length, many more":     f32(100_000),
		"type":                  i32(1000, wire.Sum),
		"type, op and length":   i32(999, wire.Max),
		"type, exponents apart": i32(100_000, wire.Min),
	} {
		t.Run(name, func(t *testing.T) {
			x := newTrio(t, base)
			for rank := range 3 {
				c := f32(1000)
				if rank == 1 {
					c = odd
				}
				x.submit(t, rank, c)
				x.submit(t, rank, f32(500))
			}
			x.run(t, 2, 0, 1, 2)
			for rank, w := range x.workers {
				var disagreement *engine.DisagreementError
				if err := w.Finished[0].Err(); !errors.As(err, &disagreement) || !errors.Is(err, engine.ErrBroken) {
					t.Errorf("rank %d: got %v, want a DisagreementError that breaks the job", rank, err)
				}
				if err := w.Finished[1].Err(); !errors.Is(err, engine.ErrBroken) {
					t.Errorf("rank %d, what came after: got %v", rank, err)
				}
			}
			if x.fabric.now > int64(time.Second) {
				t.Errorf("it took %v", time.Duration(x.fabric.now))
			}
		})
	}
}

// TestOpDisagreement: the same length and type, and another operation.
func TestOpDisagreement(t *testing.T) {
	x := newTrio(t, base)
	for rank := range 3 {
		x.submit(t, rank, &engine.Collective{I32: make([]int32, 1000), Op: wire.Op(rank)})
	}
	x.run(t, 1, 0, 1, 2)
	for rank, w := range x.workers {
		var disagreement *engine.DisagreementError
		if err := w.Finished[0].Err(); !errors.As(err, &disagreement) || disagreement.MinKind == disagreement.MaxKind {
			t.Errorf("rank %d: got %v", rank, err)
		}
	}
}

// TestMissingRank: who never comes is named, by everybody who waits, after the silence.
func TestMissingRank(t *testing.T) {
	x := newTrio(t, base)
	for _, rank := range []int{0, 2} {
		x.submit(t, rank, &engine.Collective{F32: make([]float32, 1000)})
	}
	x.run(t, 1, 0, 2)
	for _, rank := range []int{0, 2} {
		var missing *engine.MissingRanksError
		if err := x.workers[rank].Finished[0].Err(); !errors.As(err, &missing) || !slices.Equal(missing.Ranks, []int{1}) || missing.For < 2*time.Second {
			t.Errorf("rank %d: got %v, want rank 1 missing for 2 s", rank, err)
		}
	}
}

// TestSilentHome: when nothing comes back at all, it is the home that is named.
func TestSilentHome(t *testing.T) {
	x := newTrio(t, Faults{Loss: 1})
	for rank := range 3 {
		x.submit(t, rank, &engine.Collective{F32: make([]float32, 1000)})
	}
	x.run(t, 1, 0, 1, 2)
	for rank, w := range x.workers {
		var silent *engine.HomeSilentError
		if err := w.Finished[0].Err(); !errors.As(err, &silent) {
			t.Errorf("rank %d: got %v, want a HomeSilentError", rank, err)
		}
	}
}
