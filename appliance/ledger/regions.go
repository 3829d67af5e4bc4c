package ledger

import (
	"fmt"
	"math/bits"
	"slices"

	"spillway/wire"
)

// Region is a job's part of the ToR's memory: Slots chunks from Base on. Of Period consecutive chunks the first Slots are for the ToR; chunk seq of
// those rests in slot Base + (seq mod Period + Offset) mod Slots.
type Region struct {
	Base   uint32 `json:"base"`
	Slots  uint32 `json:"slots"`
	Period uint32 `json:"period"`
	Offset uint32 `json:"offset"`
	Shared bool   `json:"shared"`
}

// maxRegion is the most slots of a region: a slot index has 16 bits, and 0xFFFF says that there is none.
const maxRegion = 1 << 15

// Period is the power of two that a job's chunks in flight fit into.
func Period(window uint32) uint32 { return ceilPower(window) }

// regions divides a ToR's slots among jobs: those that are shared from slot 0 on, and behind them private ones.
//
// A region is a power of two of slots and starts at a multiple of it, because a switch checks a slot against it with one ternary match.
type regions struct {
	shared uint32 // slots, a power of two or 0
	slots  uint32 // of the ToR; 0: not known
	// private are ascending by their base. sharers counts the jobs at each offset of the shared region.
	private []Region
	sharers map[uint32]int
}

// end is the slot behind the last that may be given.
func (g *regions) end() uint32 { return min(g.slots, wire.NoSlot) }

// fit is where a private region of so many slots would be: the lowest place, so that large ones stay free above.
func (g *regions) fit(slots uint32) (base uint32, ok bool) {
	base = alignUp(g.shared, slots)
	for _, r := range g.private {
		if base+slots <= r.Base {
			break
		}
		base = max(base, alignUp(r.Base+r.Slots, slots))
	}
	return base, base+slots <= g.end()
}

// largest is the size of the largest private region that would fit.
func (g *regions) largest() uint32 {
	for slots := uint32(maxRegion); slots > 0; slots /= 2 {
		if _, ok := g.fit(slots); ok {
			return slots
		}
	}
	return 0
}

// hasShared reports whether the ToR has the shared region whole.
func (g *regions) hasShared() bool { return g.shared > 0 && g.shared <= g.end() }

// offset is where in the shared region a further job should begin. Jobs that run in step meet least when their chunks lie as far apart as can be, so the
// offsets are 0, 1/2, 1/4, 3/4, 1/8, … of the region (the sequence of van der Corput), each as often as the others.
func (g *regions) offset() uint32 {
	var best uint32
	fewest := int(^uint(0) >> 1)
	for i := range min(g.shared, MaxID+1) {
		offset := uint32(uint64(g.shared) * uint64(bits.Reverse8(uint8(i))) >> 8)
		if n := g.sharers[offset]; n < fewest {
			best, fewest = offset, n
		}
	}
	return best
}

// used is how many slots are given away: those of private regions, and the shared ones while somebody shares them.
func (g *regions) used() (n uint32) {
	for _, r := range g.private {
		n += r.Slots
	}
	if len(g.sharers) > 0 {
		n += g.shared
	}
	return n
}

// check says why a region cannot be taken as it is. It does not ask whether the ToR has so many slots: it may be away, or have been changed for a smaller one.
func (g *regions) check(r Region) error {
	switch {
	case r.Slots == 0 || r.Slots&(r.Slots-1) != 0 || r.Slots > maxRegion || r.Base%r.Slots != 0 || uint64(r.Base)+uint64(r.Slots) > wire.NoSlot:
		return fmt.Errorf("slots %d to %d of the ToR cannot be a region", r.Base, uint64(r.Base)+uint64(r.Slots)-1)
	case r.Period == 0 || r.Period&(r.Period-1) != 0:
		return fmt.Errorf("the period %d of the region is not a power of two", r.Period)
	case r.Shared && (r.Base != 0 || r.Slots != g.shared || r.Offset >= r.Slots):
		return fmt.Errorf("it shares %d slots of the ToR from %d on, and shared_slots is %d", r.Slots, r.Base, g.shared)
	case r.Shared:
		return nil
	case r.Base < g.shared:
		return fmt.Errorf("its private slots %d to %d of the ToR are among the %d that are shared", r.Base, r.Base+r.Slots-1, g.shared)
	}
	for _, other := range g.private {
		if r.Base < other.Base+other.Slots && other.Base < r.Base+r.Slots {
			return fmt.Errorf("its slots %d to %d of the ToR are another's", r.Base, r.Base+r.Slots-1)
		}
	}
	return nil
}

func (g *regions) take(r Region) {
	if r.Shared {
		g.sharers[r.Offset]++
		return
	}
	i, _ := slices.BinarySearchFunc(g.private, r.Base, func(r Region, base uint32) int { return int(r.Base) - int(base) })
	g.private = slices.Insert(g.private, i, r)
}

func (g *regions) give(r Region) {
	if !r.Shared {
		g.private = slices.DeleteFunc(g.private, func(other Region) bool { return other.Base == r.Base })
		return
	}
	if g.sharers[r.Offset]--; g.sharers[r.Offset] == 0 {
		delete(g.sharers, r.Offset)
	}
}

// alignUp is the least multiple of the power of two from n on.
func alignUp(n, power uint32) uint32 { return (n + power - 1) &^ (power - 1) }

// floorPower is the largest power of two up to n, and 0 for 0.
func floorPower(n uint32) uint32 {
	if n == 0 {
		return 0
	}
	return 1 << (bits.Len32(n) - 1)
}

// ceilPower is the least power of two from n on, at least 1.
func ceilPower(n uint32) uint32 {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len32(n-1)
}
