package ledger

import (
	"fmt"

	"spillway/xdp"
)

// memory is what one node has to give: slots, by size class.
type memory struct {
	slots   xdp.Slots
	maxJobs uint32
	runs    [len(xdp.Slots{})]*xdp.Allocator
	// held are the rings that jobs have there, by id.
	held map[uint16]ring
}

// ring is a run of slots of a class.
type ring struct {
	class        int
	first, count uint32
}

func newMemory(slots xdp.Slots, maxJobs uint32) *memory {
	m := &memory{slots: slots, maxJobs: maxJobs, held: map[uint16]ring{}}
	for class, n := range slots {
		m.runs[class] = xdp.NewAllocator(n)
	}
	return m
}

// fits reports whether a further job's ring does.
func (m *memory) fits(id uint16, class int, count uint32) bool {
	return uint32(id) < m.maxJobs && m.runs[class].Largest() >= count
}

// take gives a job the first run that fits.
func (m *memory) take(id uint16, class int, count uint32) (first uint32, err error) {
	if first, err = m.runs[class].Take(count); err != nil {
		return 0, fmt.Errorf("a run of %d slots is free, and cannot be had: %w", count, err)
	}
	m.held[id] = ring{class, first, count}
	return first, nil
}

// takeAt gives a job its run at the place where it was.
func (m *memory) takeAt(id uint16, class int, first, count uint32) error {
	if uint32(id) >= m.maxJobs {
		return fmt.Errorf("its id %d is not below %d", id, m.maxJobs)
	}
	if err := m.runs[class].TakeAt(first, count); err != nil {
		return fmt.Errorf("its slots %d to %d of %d elements are taken, or not among the %d that there are: %w",
			first, uint64(first)+uint64(count)-1, classElements()[class], m.slots[class], err)
	}
	m.held[id] = ring{class, first, count}
	return nil
}

// give takes a job's ring back, if it has one.
func (m *memory) give(id uint16) {
	if r, ok := m.held[id]; ok {
		delete(m.held, id)
		m.runs[r.class].Give(r.first, r.count)
	}
}

// free is how many bytes of slots are.
func (m *memory) free() (bytes uint64) {
	for class, runs := range m.runs {
		bytes += uint64(runs.Free()) * xdp.SlotBytes(class)
	}
	return bytes
}

// SetNode says what a node has to give; zeros are what the configuration says. Jobs that have a place there keep it; those whose place is not there any more are
// returned: they hold nothing there until they are given another. It may be called again.
func (l *Ledger) SetNode(name string, slots xdp.Slots, maxJobs uint32) (misplaced []uint16) {
	if slots == (xdp.Slots{}) {
		slots = l.config.Slots
	}
	if maxJobs == 0 {
		maxJobs = l.config.MaxJobs
	}
	if is := l.nodes[name]; is != nil && is.slots == slots && is.maxJobs == maxJobs {
		return nil
	}
	fresh := newMemory(slots, maxJobs)
	for id, a := range l.held {
		place, ok := a.Place(name)
		if !ok {
			continue
		}
		class, _ := xdp.ClassOf(a.ClassElements)
		if err := fresh.takeAt(id, class, place.First, a.Slots); err != nil {
			misplaced = append(misplaced, id)
		}
	}
	l.nodes[name] = fresh
	return misplaced
}

// Take gives a job that is there already a ring at a further node, like those it has, unless it has one there. It reports whether there is room.
func (l *Ledger) Take(id uint16, node string) (Place, bool) {
	a, m := l.held[id], l.nodes[node]
	class, _ := xdp.ClassOf(a.ClassElements)
	if !l.Fits(id, node) {
		return Place{}, false
	}
	if place, ok := l.Place(id, node); ok {
		return place, true
	}
	l.Give(id, node) // a place that is not there any more
	first, err := m.take(id, class, a.Slots)
	if err != nil {
		return Place{}, false
	}
	place := Place{node, first}
	a.Places = append(append([]Place(nil), a.Places...), place)
	l.held[id] = a
	return place, true
}

// Give takes a job's ring at a node back, if it has one.
func (l *Ledger) Give(id uint16, node string) {
	a, ok := l.held[id]
	if !ok {
		return
	}
	var kept []Place
	for _, p := range a.Places {
		if p.Node != node {
			kept = append(kept, p)
		}
	}
	a.Places = kept
	l.held[id] = a
	if m := l.nodes[node]; m != nil {
		m.give(id)
	}
}

// Place is where a job's ring at a node is; false: it has none there, or its place is not there any more.
func (l *Ledger) Place(id uint16, node string) (Place, bool) {
	m := l.nodes[node]
	if m == nil {
		return Place{}, false
	}
	r, ok := m.held[id]
	return Place{node, r.first}, ok
}

// Places are all that a job has, also those of nodes that are not known, in no order.
func (l *Ledger) Places(id uint16) []Place {
	a := l.held[id]
	return append([]Place(nil), a.Places...)
}

// Fits reports whether a job that is there already has a place at a node, or could be given one.
func (l *Ledger) Fits(id uint16, node string) bool {
	m, a := l.nodes[node], l.held[id]
	if m == nil || a.ID != id {
		return false
	}
	class, _ := xdp.ClassOf(a.ClassElements)
	_, has := m.held[id]
	return has || m.fits(id, class, a.Slots)
}

// Free is the memory of a node that nobody has, in bytes, and for how many jobs it has a ring.
func (l *Ledger) Free(node string) (bytes uint64, jobs int) {
	if m := l.nodes[node]; m != nil {
		return m.free(), len(m.held)
	}
	return 0, 0
}
