package rack

import (
	"errors"
	"fmt"
	"math/bits"
)

// A Region is a job's part of the ToR's memory: Slots chunks from Base on. Of Period consecutive
// chunks the first Slots are for the ToR; chunk seq of those rests in slot Base + (seq mod Period + Offset) mod Slots.
type Region struct {
	Base, Slots, Period, Offset uint32
}

// regions divides a ToR's slots among jobs, all parts of equal size.
//
// A region is a power of two of slots and starts at a multiple of it, because a switch
// checks a slot against it with one ternary match. What equal shares of that kind leave over is not used.
type regions struct {
	slots  uint32
	jobs   int  // that may share the memory
	shared bool // every job has all of the memory, instead of a share of its own
	taken  []uint16
}

// errRegionsTaken is what more jobs get than the memory was to be divided among.
var errRegionsTaken = errors.New("the ToR's memory is divided among fewer jobs")

// maxRegion is the most slots of a region: a slot index has 16 bits, and 0xFFFF says that there is none.
const maxRegion = 1 << 15

func newRegions(slots uint32, jobs int, shared bool) *regions {
	return &regions{slots: slots, jobs: jobs, shared: shared, taken: make([]uint16, jobs)}
}

// take gives a job (not 0) with this window its region. A region of no slots means that the ToR sums nothing of it.
func (g *regions) take(job uint16, window int) (Region, error) {
	for i, owner := range g.taken {
		if owner != 0 {
			continue
		}
		g.taken[i] = job
		return g.region(i, period(window)), nil
	}
	return Region{}, fmt.Errorf("%w: it is job %d of %d", errRegionsTaken, len(g.taken)+1, g.jobs)
}

// give takes a job's region back.
func (g *regions) give(job uint16) {
	for i, owner := range g.taken {
		if owner == job {
			g.taken[i] = 0
		}
	}
}

func (g *regions) region(i int, period uint32) Region {
	if g.shared {
		all := min(floorPower(g.slots), maxRegion)
		// Jobs that run in step meet least when their chunks lie as far apart as can be.
		return Region{Slots: all, Period: period, Offset: all / ceilPower(uint32(g.jobs)) * uint32(i)}
	}
	share := min(floorPower(g.slots/uint32(g.jobs)), period, maxRegion)
	return Region{Base: share * uint32(i), Slots: share, Period: period}
}

// period is the power of two that a job's chunks in flight fit into.
func period(window int) uint32 { return ceilPower(uint32(window)) }

// SlotsForAll is how many slots hold all chunks that so many jobs of this window have in flight.
func SlotsForAll(jobs, window int) int { return int(ceilPower(uint32(jobs)) * period(window)) }

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
