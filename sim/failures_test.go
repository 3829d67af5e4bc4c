package sim

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"spillway/p4/softtor/dataplane"
	"spillway/wire"
	"spillway/worker/engine"
)

// trio is three workers and the compiled aggregator on a fabric.
type trio struct {
	fabric  *Fabric
	home    netip.Addr
	workers []*Worker
}

func newTrio(t *testing.T, faults Faults, share *Share) *trio {
	t.Helper()
	return newTrioFrom(t, faults, share, 0)
}

// newTrioFrom is a trio, with a ToR unless share is nil, whose seqs begin with one.
func newTrioFrom(t *testing.T, faults Faults, share *Share, first uint32) *trio {
	t.Helper()
	return newTrioOf(t, faults, Job{Workers: 3, Elements: 64, Window: 8, HomePorts: 1, FirstSeq: first, Share: share})
}

// newTrioOf is a trio of a job's numbers.
func newTrioOf(t *testing.T, faults Faults, j Job) *trio {
	t.Helper()
	kit := takeKit(t)
	identity := j.identity(1, 0, kit.Job)
	home := NewHome(kit.Aggregator, identity.Home.Addr())
	if err := home.Serve(identity); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := home.Close(); err != nil {
			t.Error(err)
		}
	})
	x := &trio{fabric: NewFabric(rand.New(rand.NewPCG(1, 1)), faults), home: home.Addr()}
	x.fabric.Add(home)
	var tor *Tor
	if j.Share != nil {
		var err error
		if tor, err = NewTor(kit.Planes[832], home.Addr()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := tor.Close(); err != nil {
				t.Error(err)
			}
		})
		tor.Serve(identity, j.Share)
		x.fabric.Switch = tor
	}
	for rank := range 3 {
		cfg := j.config(&identity, 1, false)
		cfg.Rank, cfg.Silence = rank, int64(2*time.Second)
		w, err := NewWorker(workerAddr(0, rank), workerPort, []netip.AddrPort{identity.Home}, j.HomePorts, 64, cfg)
		if err != nil {
			t.Fatal(err)
		}
		x.fabric.Add(w, identity.Group)
		x.workers = append(x.workers, w)
		if tor != nil {
			tor.Link(w.Addr())
		}
	}
	if tor != nil {
		if err := tor.Push(); err != nil {
			t.Fatal(err)
		}
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

// shares are what of the ToR a trio can have.
func shares() map[string]*Share {
	of := func(slots uint16) *Share {
		return &Share{Region: engine.TorRegion{Slots: slots, Period: 8}, Mode: dataplane.SharedSlots, Priority: 5}
	}
	return map[string]*Share{"no ToR": nil, "all in the ToR": of(8), "half in the ToR": of(4), "one slot": of(1)}
}

// TestDisagreement: ranks that issue different collectives all get an error
// that says so, within some round trips, and nothing after it is reported as good.
func TestDisagreement(t *testing.T) {
	f32 := func(n int) *engine.Collective { return &engine.Collective{F32: make([]float32, n)} }
	i32 := func(n int, op wire.Op) *engine.Collective { return &engine.Collective{I32: make([]int32, n), Op: op} }
	for share, s := range shares() {
		for name, odd := range map[string]func() *engine.Collective{
			"length":                func() *engine.Collective { return f32(1001) },
			"length, one chunk":     func() *engine.Collective { return f32(1) },
			"length, many more":     func() *engine.Collective { return f32(100_000) },
			"type":                  func() *engine.Collective { return i32(1000, wire.Sum) },
			"type, op and length":   func() *engine.Collective { return i32(999, wire.Max) },
			"type, exponents apart": func() *engine.Collective { return i32(100_000, wire.Min) },
		} {
			t.Run(share+"/"+name, func(t *testing.T) {
				x := newTrio(t, base, s)
				for rank := range 3 {
					c := f32(1000)
					if rank == 1 {
						c = odd()
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
}

// TestOpDisagreement: the same length and type, and another operation.
func TestOpDisagreement(t *testing.T) {
	for share, s := range shares() {
		t.Run(share, func(t *testing.T) {
			x := newTrio(t, base, s)
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
		})
	}
}

// TestDisagreementOvertaken: the other chunks of ranks that disagree can have the same shape and still be nonsense together. Here an exponent chunk meets
// int32 data; the ToR sums it, and its RESULT comes long before that of the descriptor, which the home sums.
func TestDisagreementOvertaken(t *testing.T) {
	share := &Share{Region: engine.TorRegion{Slots: 4, Period: 8}, Mode: dataplane.SharedSlots, Priority: 5}
	x := newTrioFrom(t, base, share, 7) // lane 7 is the home's, lane 0 is the ToR's
	x.fabric.Longer = map[netip.Addr]int64{x.home: 300_000}
	for rank := range 3 {
		c := &engine.Collective{F32: make([]float32, 30*64)} // descriptor, exponents of 6 chunks, data
		if rank == 1 {
			c = &engine.Collective{I32: []int32{12345, 12345}, Op: wire.Max}
		}
		x.submit(t, rank, c)
	}
	x.run(t, 1, 0, 1, 2)
	for rank, w := range x.workers {
		var disagreement *engine.DisagreementError
		if err := w.Finished[0].Err(); !errors.As(err, &disagreement) || errors.Is(err, engine.ErrInconsistent) {
			t.Errorf("rank %d: got %v", rank, err)
		}
		if w.engine.Stats().TorResults == 0 {
			t.Errorf("rank %d: nothing came from the ToR", rank)
		}
	}
}

// TestMissingRank: who never comes is named, by everybody who waits, after the silence.
func TestMissingRank(t *testing.T) {
	x := newTrio(t, base, nil)
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
	x := newTrio(t, Faults{Loss: 1}, nil)
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
