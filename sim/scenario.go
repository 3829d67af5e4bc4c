package sim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"spillway/loadtest/reference"
	"spillway/wire"
	"spillway/worker/engine"
	"spillway/xdp"
)

// Scenario is everything that a seed decides before the run: the job, the
// faults, what is reduced, and what happens meanwhile.
type Scenario struct {
	Seed        uint64
	Workers     int
	Elements    int
	Window      int
	HomePorts   uint16
	FirstSeq    uint32
	Faults      Faults
	Burst       int
	Collectives []Collective
	// Start is when each worker issues each collective: Start[rank][i].
	Start [][]int64
	// Wipes are the times at which the home forgets everything.
	Wipes []int64
}

// Collective is one collective of a Scenario, with every rank's input.
type Collective struct {
	Op  wire.Op
	F32 [][]float32 // by rank; or
	I32 [][]int32
	// What every rank must get instead of a sum, if anything.
	NonFinite, Saturates bool
}

// Draw makes the scenario of a seed.
func Draw(seed uint64) *Scenario {
	r := rand.New(rand.NewPCG(seed, 0x5b111a7))
	s := &Scenario{
		Seed:      seed,
		Workers:   1 + r.IntN(8),
		Elements:  32 * (1 + r.IntN(8)),
		Window:    1 + r.IntN(24),
		HomePorts: 1 << r.IntN(3),
		FirstSeq:  r.Uint32(),
		Burst:     1 + r.IntN(64),
		Faults: Faults{
			Base:   int64(1+r.IntN(50)) * 1000,
			Jitter: r.Int64N(20_000),
			Late:   r.Int64N(2_000_000),
		},
	}
	if r.IntN(10) == 0 {
		s.Workers = 9 + r.IntN(56)
	}
	if r.IntN(10) == 0 {
		s.Elements = 832
	}
	if r.IntN(3) == 0 {
		s.FirstSeq = -uint32(r.IntN(40)) // the wrap is near
	}
	chance := func(most float64) float64 {
		if r.IntN(3) == 0 {
			return 0
		}
		return most * r.Float64() * r.Float64()
	}
	s.Faults.Loss, s.Faults.Duplicate, s.Faults.Reorder, s.Faults.Mark = chance(0.25), chance(0.2), chance(0.3), chance(0.2)
	for range 1 + r.IntN(4) {
		s.Collectives = append(s.Collectives, s.drawCollective(r))
	}
	// Ranks issue the same collectives each in its own time; some are late.
	for range s.Workers {
		var at int64
		var starts []int64
		for range s.Collectives {
			if r.IntN(3) > 0 {
				at += r.Int64N(1_000_000)
			}
			if r.IntN(20) == 0 {
				at += r.Int64N(100_000_000)
			}
			starts = append(starts, at)
		}
		s.Start = append(s.Start, starts)
	}
	if r.IntN(3) == 0 {
		for range 1 + r.IntN(4) {
			s.Wipes = append(s.Wipes, r.Int64N(5_000_000))
		}
	}
	return s
}

func (s *Scenario) drawCollective(r *rand.Rand) Collective {
	// Few chunks mostly, and now and then enough for several exponent groups.
	most := 8 * s.Elements
	if s.Elements <= 64 && s.Workers <= 4 && r.IntN(3) == 0 {
		most = 150 * s.Elements
	}
	n := 1 + r.IntN(most)
	var c Collective
	if r.IntN(2) == 0 {
		for range s.Workers {
			x := make([]float32, n)
			for i := range x {
				switch r.IntN(8) {
				case 0:
				case 1:
					x[i] = math.Float32frombits(r.Uint32() & 0x807fffff) // subnormal
				case 2:
					x[i] = float32(r.NormFloat64() * math.Exp2(float64(r.IntN(200)-100)))
				default:
					x[i] = float32(r.NormFloat64())
				}
			}
			c.F32 = append(c.F32, x)
		}
		if r.IntN(12) == 0 {
			c.NonFinite = true
			c.F32[r.IntN(s.Workers)][r.IntN(n)] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[r.IntN(3)]
		}
		return c
	}
	c.Op = wire.Op(r.IntN(3))
	room := int32(math.MaxInt32) // how large values may be for the sum to have room
	if c.Op == wire.Sum {
		room /= int32(s.Workers)
	}
	for range s.Workers {
		x := make([]int32, n)
		for i := range x {
			x[i] = r.Int32N(room)
			if r.IntN(2) == 0 {
				x[i] = -x[i]
			}
		}
		c.I32 = append(c.I32, x)
	}
	if c.Op == wire.Sum && s.Workers > 1 && r.IntN(8) == 0 {
		// One element that no order of adding keeps in range.
		c.Saturates = true
		at, sign := r.IntN(n), int32(1-2*r.IntN(2))
		for rank := range s.Workers {
			c.I32[rank][at] = sign * (1<<30 + r.Int32N(1<<29))
			if s.Workers == 2 {
				c.I32[rank][at] = sign * (1<<30 + 1 + r.Int32N(1<<29))
			}
		}
	}
	return c
}

// limits of a run: simulated time, far beyond what any scenario needs.
const timeLimit = 10 * time.Minute

// Outcome is what a run had to go through.
type Outcome struct {
	Frames, Lost, Duplicated, Reordered, Marked, Wipes int
	Resends, Probes, SolicitAnswers                    uint64
	Time                                               time.Duration
}

// Run plays the scenario with the aggregator's program under a job id of its
// own, and returns an error if any worker ends with anything but the right result.
func (s *Scenario) Run(a *xdp.Aggregator, job uint16) (o Outcome, err error) {
	r := rand.New(rand.NewPCG(s.Seed, 0xfab))
	fabric := NewFabric(r, s.Faults)
	group := netip.AddrFrom4([4]byte{239, 77, byte(job >> 8), byte(job)})
	home, err := s.home(a, job, group)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, home.Close()) }()
	fabric.Add(home)
	workers := make([]*Worker, s.Workers)
	for rank := range workers {
		workers[rank], err = NewWorker(workerAddr(rank), workerPort, home.job.Home, s.Burst, engine.Config{
			Job: job, Generation: home.job.Generation, Cookie: home.job.Cookie,
			Rank: rank, Workers: s.Workers, Elements: s.Elements, Window: s.Window, HomePorts: s.HomePorts,
			MinRTO: 1e6, MaxRTO: 50e6, Silence: int64(timeLimit), FirstSeq: s.FirstSeq,
		})
		if err != nil {
			return o, err
		}
		fabric.Add(workers[rank], group)
	}
	for rank, w := range workers {
		for i, c := range s.Collectives {
			fabric.At(s.Start[rank][i], func(now int64) error {
				if err := w.Submit(now, c.of(rank)); err != nil {
					return err
				}
				fabric.Kick(w.Addr(), now)
				return nil
			})
		}
	}
	for _, at := range s.Wipes {
		fabric.At(at, func(int64) error { return home.Wipe() })
	}
	err = fabric.Run(timeLimit, func() bool {
		return !slices.ContainsFunc(workers, func(w *Worker) bool { return len(w.Finished) < len(s.Collectives) })
	})
	o = Outcome{
		Frames: fabric.Frames, Lost: fabric.Lost, Duplicated: fabric.Duplicated, Reordered: fabric.Reordered,
		Marked: fabric.Marked, Wipes: home.Wipes, Time: time.Duration(fabric.now),
	}
	for _, w := range workers {
		o.Resends += w.engine.Stats().Resends
		o.Probes += w.engine.Stats().Probes
		o.SolicitAnswers += w.engine.Stats().SolicitAnswers
	}
	if err != nil {
		return o, fmt.Errorf("%w; %s", err, s.progress(workers, home))
	}
	for i, c := range s.Collectives {
		if err := c.check(workers, i, s.Elements); err != nil {
			return o, err
		}
	}
	return o, nil
}

const workerPort = 9701

func workerAddr(rank int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, byte(rank + 1)}) }

func (s *Scenario) home(a *xdp.Aggregator, id uint16, group netip.Addr) (*Home, error) {
	job := xdp.Job{
		ID: id, Generation: uint8(s.Seed), Cookie: uint32(s.Seed * 0x9e3779b9), Elements: s.Elements, Window: s.Window, Workers: s.Workers,
		Home: netip.MustParseAddrPort("10.77.0.254:9700"), HomePorts: s.HomePorts, Group: group, WorkerPort: workerPort,
	}
	for rank := range s.Workers {
		job.Members = append(job.Members, xdp.Member{Addr: workerAddr(rank), Bits: 1 << rank})
	}
	return NewHome(a, job)
}

// of is the collective as one rank issues it, on a copy of its input.
func (c *Collective) of(rank int) *engine.Collective {
	if c.F32 != nil {
		return &engine.Collective{F32: slices.Clone(c.F32[rank]), Op: c.Op}
	}
	return &engine.Collective{I32: slices.Clone(c.I32[rank]), Op: c.Op}
}

// check compares every worker's i-th collective with the sum of the inputs, bit for bit.
func (c *Collective) check(workers []*Worker, i, elements int) error {
	var wantF32 []float32
	var wantI32 []int32
	var err error
	switch {
	case c.NonFinite || c.Saturates:
	case c.F32 != nil:
		wantF32, err = reference.SumFloat32(c.F32, elements)
	default:
		var saturated bool
		wantI32, saturated, err = reference.ReduceInt32(c.I32, c.Op)
		if saturated {
			return fmt.Errorf("collective %d: the inputs have no sum in int32", i)
		}
	}
	if err != nil {
		return fmt.Errorf("collective %d: the reference: %w", i, err)
	}
	for rank, w := range workers {
		got := w.Finished[i]
		var nonFinite *engine.NonFiniteError
		var saturated *engine.SaturatedError
		switch {
		case c.NonFinite:
			if !errors.As(got.Err(), &nonFinite) {
				return fmt.Errorf("collective %d, rank %d: got %v, want a NonFiniteError", i, rank, got.Err())
			}
		case c.Saturates:
			if !errors.As(got.Err(), &saturated) {
				return fmt.Errorf("collective %d, rank %d: got %v, want a SaturatedError", i, rank, got.Err())
			}
		case got.Err() != nil:
			return fmt.Errorf("collective %d, rank %d: %w", i, rank, got.Err())
		}
		for j, want := range wantF32 {
			if math.Float32bits(got.F32[j]) != math.Float32bits(want) {
				return fmt.Errorf("collective %d, rank %d, element %d: got %x (%v), want %x (%v)", i, rank, j,
					math.Float32bits(got.F32[j]), got.F32[j], math.Float32bits(want), want)
			}
		}
		for j, want := range wantI32 {
			if got.I32[j] != want {
				return fmt.Errorf("collective %d, rank %d, element %d: got %d, want %d", i, rank, j, got.I32[j], want)
			}
		}
	}
	return nil
}

// progress says how far each worker came, for a run that did not end.
func (s *Scenario) progress(workers []*Worker, home *Home) string {
	text := fmt.Sprintf("of %d collectives:", len(s.Collectives))
	for rank, w := range workers {
		text += fmt.Sprintf(" rank %d finished %d %+v;", rank, len(w.Finished), *w.engine.Stats())
	}
	counters, err := home.Counters()
	return text + fmt.Sprintf(" home %v %v", counters, err)
}
