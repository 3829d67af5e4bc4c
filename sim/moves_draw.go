package sim

import (
	"math/rand/v2"
	"time"

	"spillway/wire"
	"spillway/xdp"
)

// DrawMoves makes the scenario of a seed in which homes die with their memory, or are given up, and others take their shards in new generations.
func DrawMoves(seed uint64) *Scenario {
	s := Draw(seed)
	if seed%2 == 0 {
		s = DrawQuorum(seed)
	}
	s.Wipes = nil
	r := rand.New(rand.NewPCG(seed, 0x30c35))
	s.Plan = &MovePlan{Homes: 1 + r.IntN(mostHomes), Spread: r.Int64N(3_000_000)}
	if r.IntN(2) == 0 {
		s.Plan.Direct = r.Float64()
	}
	if s.Tor == nil && r.IntN(2) == 0 {
		s.Jobs[0].drawRuns(r)
		for i := range s.Pauses {
			s.Pauses[i].Rank %= s.Jobs[0].Workers
		}
	}
	for _, j := range s.Jobs {
		shards := 1
		if j.Share == nil {
			shards += r.IntN(4)
		}
		places := make([]int, shards)
		for shard := range places {
			places[shard] = r.IntN(s.Plan.Homes)
		}
		s.Plan.Places = append(s.Plan.Places, places)
		if shards > 1 && r.IntN(2) == 0 {
			j.FirstSeq = j.FirstSeq&^63 - uint32(r.IntN(40)) // the next run is near
		}
	}
	// Most of a run is over soon, but for what stragglers and timers make of it.
	until := int64(1 + r.IntN(20_000_000))
	if r.IntN(3) == 0 {
		until *= 5
	}
	for range 1 + r.IntN(8) {
		m := Move{At: r.Int64N(until), Home: r.IntN(s.Plan.Homes), Kind: MoveKind(r.IntN(int(moveKinds)))}
		m.Notice, m.Back = r.Int64N(1+r.Int64N(20_000_000)), r.Int64N(1+r.Int64N(50_000_000))
		s.Plan.Moves = append(s.Plan.Moves, m)
	}
	return s
}

// mostHomes is how many a scenario has.
const mostHomes = 5

// drawRuns draws a job that is long enough for the runs of 64 chunks that go round its homes.
func (j *Job) drawRuns(r *rand.Rand) {
	j.Workers, j.Elements, j.Window = 2+r.IntN(4), 32*(1+r.IntN(2)), 1+r.IntN(130)
	if j.Policy.Quorum != 0 {
		j.Policy = xdp.Policy{Quorum: 1 + r.IntN(j.Workers-1), After: time.Duration(50+r.IntN(4000)) * time.Microsecond, MaxLag: r.IntN(100)}
	}
	j.Collectives, j.Start = nil, nil
	for range 1 + r.IntN(3) {
		n := j.Elements * (1 + r.IntN(400))
		c := Collective{Op: wire.Op(r.IntN(3))}
		floats := r.IntN(2) == 0
		if floats {
			c.Op = wire.Sum
		}
		for range j.Workers {
			if floats {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(r.NormFloat64())
				}
				c.F32 = append(c.F32, x)
				continue
			}
			x := make([]int32, n)
			for i := range x {
				x[i] = int32(r.Uint32()) >> 8
			}
			c.I32 = append(c.I32, x)
		}
		c.Rescale = c.F32 != nil && j.Policy.Quorum != 0 && r.IntN(2) == 0
		j.Collectives = append(j.Collectives, c)
	}
	for range j.Workers {
		var at int64
		var starts []int64
		for range j.Collectives {
			at += r.Int64N(1_000_000)
			starts = append(starts, at)
		}
		j.Start = append(j.Start, starts)
	}
}
