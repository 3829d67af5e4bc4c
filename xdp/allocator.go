package xdp

import (
	"fmt"
	"slices"
)

// span is a run of slots of one class.
type span struct{ first, count uint32 }

// end is the slot behind the last; it does not wrap.
func (s span) end() uint64 { return uint64(s.first) + uint64(s.count) }

// An Allocator hands out the slots of one size class in runs, because a job's ring must lie in one piece. It is not
// safe for several goroutines at once. The aggregator has one for each class; so has whoever decides ahead of it where
// a job goes (Job.Place). Cost: 8 bytes for each run of free slots.
type Allocator struct {
	free []span // ascending, no two adjacent
}

// NewAllocator is one over the slots [0, n), all of them free.
func NewAllocator(n uint32) *Allocator {
	a := &Allocator{}
	if n > 0 {
		a.free = []span{{0, n}}
	}
	return a
}

// Take allocates a run of n slots, the first one that fits. The error is ErrNoSlots.
func (a *Allocator) Take(n uint32) (first uint32, err error) {
	for i, s := range a.free {
		if s.count >= n {
			a.cut(i, s.first, n)
			return s.first, nil
		}
	}
	return 0, fmt.Errorf("%w: asked for %d, the largest free run has %d", ErrNoSlots, n, a.Largest())
}

// TakeAt allocates the slots [first, first + n). The error, when not all of them are free, is ErrNoSlots.
func (a *Allocator) TakeAt(first, n uint32) error {
	want := span{first, n}
	for i, s := range a.free {
		if s.first <= first && want.end() <= s.end() {
			a.cut(i, first, n)
			return nil
		}
	}
	return fmt.Errorf("%w: slots %d to %d are not all free", ErrNoSlots, first, want.end()-1)
}

// cut takes [first, first + n) out of the free run i, which has it.
func (a *Allocator) cut(i int, first, n uint32) {
	s := a.free[i]
	var left []span
	if before := first - s.first; before > 0 {
		left = append(left, span{s.first, before})
	}
	if after := uint32(s.end() - uint64(first) - uint64(n)); after > 0 {
		left = append(left, span{first + n, after})
	}
	a.free = slices.Replace(a.free, i, i+1, left...)
}

// Give returns what Take or TakeAt gave, whole.
func (a *Allocator) Give(first, n uint32) {
	s := span{first, n}
	i, _ := slices.BinarySearchFunc(a.free, s, func(a, b span) int { return int(int64(a.first) - int64(b.first)) })
	a.free = slices.Insert(a.free, i, s)
	if i+1 < len(a.free) && s.end() == uint64(a.free[i+1].first) {
		a.free[i].count += a.free[i+1].count
		a.free = slices.Delete(a.free, i+1, i+2)
	}
	if i > 0 && a.free[i-1].end() == uint64(s.first) {
		a.free[i-1].count += a.free[i].count
		a.free = slices.Delete(a.free, i, i+1)
	}
}

// Free is how many slots are free.
func (a *Allocator) Free() uint32 {
	var n uint32
	for _, s := range a.free {
		n += s.count
	}
	return n
}

// Largest is the length of the longest run of free slots.
func (a *Allocator) Largest() uint32 {
	var n uint32
	for _, s := range a.free {
		n = max(n, s.count)
	}
	return n
}
