package xdp

import (
	"fmt"
	"slices"
)

// The size classes of slots. maps.h has the payload maps and the switch over
// them; TestClasses holds the two together.
const classes = 4

var classElements = [classes]int{32, 64, 256, 832}

// Slots is a number of slots for each size class: 32, 64, 256 and 832 elements.
// A slot costs 32 bytes and 4 for each element of its class.
type Slots [classes]uint32

// DefaultSlots take about 10 MB: room for eight jobs of window 255 in each class up to E = 256, and for two above.
var DefaultSlots = Slots{4096, 4096, 4096, 1024}

func (s Slots) total() uint32 {
	var n uint32
	for _, slots := range s {
		n += slots
	}
	return n
}

// classFor is the smallest class that holds chunks of e elements.
func classFor(e int) int {
	class, found := slices.BinarySearch(classElements[:], e)
	_ = found // where it would be is the next larger class, which is what is wanted
	return class
}

// span is a run of slots of one class.
type span struct{ first, count uint32 }

// region hands out the slots of one class.
type region struct {
	base uint32 // of the class in the map of slots
	free []span // ascending, no two adjacent
}

func newRegions(slots Slots) (regions [classes]region) {
	var base uint32
	for class, n := range slots {
		regions[class] = region{base: base}
		if n > 0 {
			regions[class].free = []span{{0, n}}
		}
		base += n
	}
	return regions
}

// take allocates n slots, first fit.
func (r *region) take(n uint32) (first uint32, err error) {
	var largest uint32
	for i, s := range r.free {
		if s.count < n {
			largest = max(largest, s.count)
			continue
		}
		if s.count == n {
			r.free = slices.Delete(r.free, i, i+1)
		} else {
			r.free[i] = span{s.first + n, s.count - n}
		}
		return s.first, nil
	}
	return 0, fmt.Errorf("%w: asked for %d, the largest free run has %d", ErrNoSlots, n, largest)
}

// give returns what take gave.
func (r *region) give(s span) {
	i, _ := slices.BinarySearchFunc(r.free, s, func(a, b span) int { return int(int64(a.first) - int64(b.first)) })
	r.free = slices.Insert(r.free, i, s)
	if i+1 < len(r.free) && s.first+s.count == r.free[i+1].first {
		r.free[i].count += r.free[i+1].count
		r.free = slices.Delete(r.free, i+1, i+2)
	}
	if i > 0 && r.free[i-1].first+r.free[i-1].count == s.first {
		r.free[i-1].count += r.free[i].count
		r.free = slices.Delete(r.free, i, i+1)
	}
}
