package sim

import (
	"math/bits"
	"math/rand/v2"

	"spillway/p4/softtor/dataplane"
)

// DrawTree makes the scenario of a seed in which the job's home is a tree of up to several levels, whose nodes forget and die.
func DrawTree(seed uint64) *Tree {
	r := rand.New(rand.NewPCG(seed, 0x7ee5))
	s, j := &Tree{Seed: seed, Burst: 1 + r.IntN(64)}, &Job{}
	s.Job = j
	s.Faults = Faults{Base: int64(1+r.IntN(50)) * 1000, Jitter: r.Int64N(20_000), Late: r.Int64N(2_000_000)}
	chance := func(most float64) float64 {
		if r.IntN(3) == 0 {
			return 0
		}
		return most * r.Float64() * r.Float64()
	}
	s.Faults.Loss, s.Faults.Duplicate, s.Faults.Reorder, s.Faults.Mark = chance(0.2), chance(0.2), chance(0.3), chance(0.2)
	j.drawShape(r)
	j.Workers = 1 + r.IntN(10)
	if r.IntN(10) == 0 {
		j.Workers = 11 + r.IntN(46)
	}
	if r.IntN(3) == 0 {
		j.FirstSeq = -uint32(r.IntN(40)) // the wrap is near
	}
	j.drawWork(r)
	s.Nodes = 2 + r.IntN(7)
	able := r.Perm(s.Nodes)
	s.Shape = drawShape(r, able, s.Nodes, j.Workers)
	until := int64(1 + r.IntN(20_000_000))
	if r.IntN(2) == 0 {
		for range 1 + r.IntN(6) {
			s.Wipes = append(s.Wipes, NodeWipe{At: r.Int64N(until), Node: r.IntN(s.Nodes)})
		}
	}
	if r.IntN(3) == 0 {
		s.Spread = r.Int64N(3_000_000)
		for range 1 + r.IntN(5) {
			d := NodeDeath{At: r.Int64N(until), Node: r.IntN(s.Nodes)}
			d.Notice, d.Back = r.Int64N(1+r.Int64N(20_000_000)), r.Int64N(1+r.Int64N(50_000_000))
			s.Deaths = append(s.Deaths, d)
		}
	}
	s.drawTor(r)
	return s
}

// drawTor puts a ToR under node 0 if that has workers, and only workers, and is not the root.
func (s *Tree) drawTor(r *rand.Rand) {
	nodes, ranks := s.Shape.children(0)
	if len(nodes) > 0 || len(ranks) < 2 || s.Shape.Root == 0 || r.IntN(4) == 0 {
		return
	}
	s.Tor = &TorPlan{Elements: TorElements[min(r.IntN(5), 1)]}
	if r.IntN(2) == 0 {
		s.Tor.Longer = r.Int64N(1_000_000)
	}
	j := s.Job
	j.Share = &Share{Mode: []dataplane.RegionMode{dataplane.SharedSlots, dataplane.FirstComeSlots}[r.IntN(2)], Priority: uint8(1 + r.IntN(127)), Key: r.Uint32()}
	j.Share.Region.Period = 1 << (bits.Len(uint(j.Window-1)) + r.IntN(2))
	j.Share.Region.Slots = sizes[r.IntN(len(sizes))]
	if j.Share.Region.Slots == allSlots || uint32(j.Share.Region.Slots) > uint32(j.Share.Region.Period) {
		j.Share.Region.Slots = uint16(j.Share.Region.Period)
	}
	if n := j.Share.Region.Slots; n > 0 {
		j.Share.Region.Offset = uint16(r.IntN(int(n)))
		j.Share.Region.Base = 64
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

// drawShape draws a tree over some of the nodes. Every node in it has a rank below it.
func drawShape(r *rand.Rand, able []int, nodes, workers int) Shape {
	s := Shape{Root: able[0], Parents: make([]int, nodes), Of: make([]int, workers)}
	for n := range s.Parents {
		s.Parents[n] = n
	}
	used := able[:1+r.IntN(len(able))]
	for i, n := range used[1:] {
		s.Parents[n] = used[r.IntN(i+1)]
	}
	room := make(map[int]int)
	for _, n := range used {
		nodes, _ := s.children(n)
		room[n] = mostChildren - len(nodes)
	}
	for rank := range s.Of {
		// At the lower ends mostly.
		n := used[len(used)-1-r.IntN(1+r.IntN(len(used)))]
		for room[n] == 0 {
			n = used[r.IntN(len(used))]
		}
		room[n]--
		s.Of[rank] = n
	}
	// Without those that would wait for nobody.
	for again := true; again; {
		again = false
		for _, n := range used[1:] {
			if nodes, ranks := s.children(n); s.Parents[n] != n && len(nodes)+len(ranks) == 0 {
				s.Parents[n], again = n, true
			}
		}
	}
	return s
}
