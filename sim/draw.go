package sim

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"spillway/p4/softtor/dataplane"
	"spillway/wire"
)

// Draw makes the scenario of a seed.
func Draw(seed uint64) *Scenario {
	r := rand.New(rand.NewPCG(seed, 0x5b111a7))
	s, j := &Scenario{Seed: seed}, &Job{}
	s.Jobs = []*Job{j}
	j.drawShape(r)
	s.Burst = 1 + r.IntN(64)
	s.Faults = Faults{
		Base:   int64(1+r.IntN(50)) * 1000,
		Jitter: r.Int64N(20_000),
		Late:   r.Int64N(2_000_000),
	}
	j.drawExtremes(r)
	chance := func(most float64) float64 {
		if r.IntN(3) == 0 {
			return 0
		}
		return most * r.Float64() * r.Float64()
	}
	s.Faults.Loss, s.Faults.Duplicate, s.Faults.Reorder, s.Faults.Mark = chance(0.25), chance(0.2), chance(0.3), chance(0.2)
	j.drawWork(r)
	if r.IntN(3) == 0 {
		for range 1 + r.IntN(4) {
			s.Wipes = append(s.Wipes, r.Int64N(5_000_000))
		}
	}
	// From other dice, so that what is above stays what it was before there were ToRs.
	if r := rand.New(rand.NewPCG(seed, 0x70b)); r.IntN(4) > 0 {
		s.drawTor(r)
	}
	r = rand.New(rand.NewPCG(seed, 0x16b17))
	for _, j := range s.Jobs {
		if r.IntN(3) == 0 {
			j.WireBits = 16
		}
	}
	return s
}

// sizes are those of regions, in slots; allSlots is one for each chunk of the period.
var sizes = [...]uint16{0, 1, 2, 8, 8, 8, 64, allSlots, allSlots}

const allSlots = 0xffff

// drawTor puts a ToR between the links, and maybe a second job beside the first.
func (s *Scenario) drawTor(r *rand.Rand) {
	s.Tor = &TorPlan{Elements: TorElements[min(r.IntN(5), 1)]}
	if r.IntN(2) == 0 {
		s.Tor.Longer = r.Int64N(1_000_000)
	}
	// The jobs have the same region, or one each.
	common := r.IntN(3) > 0
	mode := []dataplane.RegionMode{dataplane.SharedSlots, dataplane.SharedSlots, dataplane.FirstComeSlots}[r.IntN(3)]
	size := r.IntN(len(sizes))
	switch r.IntN(4) {
	case 0:
		j := &Job{}
		j.drawShape(r)
		j.drawExtremes(r)
		j.drawWork(r)
		s.Jobs = append(s.Jobs, j)
	case 1:
		common, size = true, 1+r.IntN(len(sizes)-1)
		s.drawCrowd(r)
	}
	for n, j := range s.Jobs {
		if r.IntN(20) == 0 {
			continue // the ToR forwards this job's packets, no more
		}
		if !common {
			size, mode = r.IntN(len(sizes)), dataplane.PrivateSlots
		}
		share := &Share{Mode: mode, Priority: uint8(1 + r.IntN(127)), Key: r.Uint32()}
		share.Region.Period = 1 << (bits.Len(uint(j.Window-1)) + r.IntN(2))
		share.Region.Slots = sizes[size]
		if sizes[size] == allSlots {
			share.Region.Slots = uint16(share.Region.Period)
		}
		if s := share.Region.Slots; s > 0 {
			share.Region.Offset = uint16(r.IntN(int(s)))
			if common {
				share.Region.Base = 64
			} else {
				share.Region.Base = uint16(128*n) + s*uint16(r.IntN(int(128/s)))
			}
		}
		j.Share = share
	}
	if len(s.Jobs) == 2 && r.IntN(3) == 0 {
		s.confuse()
	}
	if r.IntN(3) == 0 {
		for range 1 + r.IntN(4) {
			b := Reboot{At: r.Int64N(5_000_000)}
			if r.IntN(2) == 0 {
				b.Back = 1 + r.Int64N(20_000_000)
			}
			s.Tor.Reboots = append(s.Tor.Reboots, b)
		}
	}
}

// drawCrowd has two jobs that are much in each other's way: chunks of one length, which can preempt each other, and many of them.
func (s *Scenario) drawCrowd(r *rand.Rand) {
	s.Jobs, s.Tor.Elements = nil, TorElements[1]
	elements := 32 * (1 + r.IntN(2))
	for range 2 {
		j := &Job{}
		j.drawShape(r)
		j.Workers, j.Elements, j.Window = 2+r.IntN(3), elements, 8+r.IntN(17)
		j.drawWork(r)
		s.Jobs = append(s.Jobs, j)
	}
}

// confuse makes chunks of the two jobs have the same ids in the same slots, which only their tags tell apart.
func (s *Scenario) confuse() {
	one, two := s.Jobs[0], s.Jobs[1]
	if one.Share == nil || two.Share == nil || one.Share.Mode == dataplane.PrivateSlots {
		return
	}
	two.FirstSeq, two.Share.Key = one.FirstSeq, one.Share.Key
	two.Share.Region.Offset, one.Share.Region.Offset = 0, 0
}

// drawShape draws the job's numbers, of the usual size.
func (j *Job) drawShape(r *rand.Rand) {
	j.Workers = 1 + r.IntN(8)
	j.Elements = 32 * (1 + r.IntN(8))
	j.Window = 1 + r.IntN(24)
	j.HomePorts = 1 << r.IntN(3)
	j.FirstSeq = r.Uint32()
}

// drawExtremes makes some of them unusual.
func (j *Job) drawExtremes(r *rand.Rand) {
	if r.IntN(10) == 0 {
		j.Workers = 9 + r.IntN(56)
	}
	if r.IntN(10) == 0 {
		j.Elements = 832
	}
	if r.IntN(3) == 0 {
		j.FirstSeq = -uint32(r.IntN(40)) // the wrap is near
	}
}

// drawWork draws what is reduced, and when.
func (j *Job) drawWork(r *rand.Rand) {
	for range 1 + r.IntN(4) {
		j.Collectives = append(j.Collectives, j.drawCollective(r))
	}
	// Ranks issue the same collectives each in its own time; some are late.
	for range j.Workers {
		var at int64
		var starts []int64
		for range j.Collectives {
			if r.IntN(3) > 0 {
				at += r.Int64N(1_000_000)
			}
			if r.IntN(20) == 0 {
				at += r.Int64N(100_000_000)
			}
			starts = append(starts, at)
		}
		j.Start = append(j.Start, starts)
	}
}

func (j *Job) drawCollective(r *rand.Rand) Collective {
	// Few chunks mostly, and now and then enough for several exponent groups.
	most := 8 * j.Elements
	if j.Elements <= 64 && j.Workers <= 4 && r.IntN(3) == 0 {
		most = 150 * j.Elements
	}
	n := 1 + r.IntN(most)
	var c Collective
	if r.IntN(2) == 0 {
		for range j.Workers {
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
		if r.IntN(2) == 0 {
			if r.IntN(4) == 0 {
				c.Op = wire.Op(1 + r.IntN(2))
			}
			c.Floats, c.F32 = drawFloats(r, c.Op, c.F32), nil
			return c
		}
		if r.IntN(12) == 0 {
			c.NonFinite = true
			c.F32[r.IntN(j.Workers)][r.IntN(n)] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[r.IntN(3)]
		}
		return c
	}
	c.Op = wire.Op(r.IntN(3))
	room := int32(math.MaxInt32) // how large values may be for the sum to have room
	if c.Op == wire.Sum {
		room /= int32(j.Workers)
	}
	for range j.Workers {
		x := make([]int32, n)
		for i := range x {
			x[i] = r.Int32N(room)
			if r.IntN(2) == 0 {
				x[i] = -x[i]
			}
		}
		c.I32 = append(c.I32, x)
	}
	if c.Op == wire.Sum && j.Workers > 1 && r.IntN(8) == 0 {
		// One element that no order of adding keeps in range.
		c.Saturates = true
		at, sign := r.IntN(n), int32(1-2*r.IntN(2))
		for rank := range j.Workers {
			c.I32[rank][at] = sign * (1<<30 + r.Int32N(1<<29))
			if j.Workers == 2 {
				c.I32[rank][at] = sign * (1<<30 + 1 + r.Int32N(1<<29))
			}
		}
	}
	return c
}
