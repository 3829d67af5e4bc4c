package pipeline

import (
	"context"
	"fmt"
	"slices"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"

	"spillway/p4/p4info"
)

// Counts is what a ToR has counted at one index: of a job, or at index 0 of no job's packets.
type Counts struct {
	// Events has an element for each event; those of numbers that are no event's are 0.
	Events [EventsPerJob]uint64
	// Preempted counts partial sums that were put out of their slot, Saturated packets with a sum that left the int32 range.
	Preempted, Saturated uint64
}

// Plus is the sum of each count.
func (c Counts) Plus(more Counts) Counts {
	for e := range c.Events {
		c.Events[e] += more.Events[e]
	}
	c.Preempted += more.Preempted
	c.Saturated += more.Saturated
	return c
}

// Since is what was counted after an earlier look at the same counters.
func (c Counts) Since(earlier Counts) Counts {
	for e := range c.Events {
		c.Events[e] -= earlier.Events[e]
	}
	c.Preempted -= earlier.Preempted
	c.Saturated -= earlier.Saturated
	return c
}

// Follows tells whether the counters can have gone on from an earlier look: none is less than it was. After a reboot that something was
// lost by, one is.
func (c Counts) Follows(earlier Counts) bool {
	for e := range c.Events {
		if c.Events[e] < earlier.Events[e] {
			return false
		}
	}
	return c.Preempted >= earlier.Preempted && c.Saturated >= earlier.Saturated
}

// maxCounters is how many counters are read in one call.
const maxCounters = 4096

// ReadCounts reads what a ToR has counted at each of the indices.
func ReadCounts(ctx context.Context, tor Reader, info *p4info.Info, indices ...uint8) (map[uint8]Counts, error) {
	counters, err := countersOf(info)
	if err != nil {
		return nil, err
	}
	out := map[uint8]Counts{}
	var asked []*p4v1.Entity
	for _, index := range indices {
		out[index] = Counts{}
		asked = append(asked, counters.cells(index)...)
	}
	for some := range slices.Chunk(asked, maxCounters) {
		found, err := tor.Read(ctx, some...)
		if err != nil {
			return nil, fmt.Errorf("read the counters: %w", err)
		}
		for _, entity := range found {
			counters.add(out, entity.GetCounterEntry())
		}
	}
	return out, nil
}

// ZeroCounts are the updates that set all counters of an index to 0.
func ZeroCounts(info *p4info.Info, index uint8) ([]*p4v1.Update, error) {
	counters, err := countersOf(info)
	if err != nil {
		return nil, err
	}
	cells := counters.cells(index)
	for _, cell := range cells {
		cell.GetCounterEntry().Data = &p4v1.CounterData{}
	}
	return updates(p4v1.Update_MODIFY, cells), nil
}

// counterIDs are the ids of the counters that have elements of jobs.
type counterIDs struct{ events, preempted, saturated uint32 }

func countersOf(info *p4info.Info) (c counterIDs, err error) {
	for name, id := range map[string]*uint32{CounterEvents: &c.events, CounterPreempted: &c.preempted, CounterSaturated: &c.saturated} {
		counter, err := info.Counter(name)
		if err != nil {
			return c, err
		}
		*id = counter.ID
	}
	return c, nil
}

// cells are all counters of an index.
func (c counterIDs) cells(index uint8) []*p4v1.Entity {
	var cells []*p4v1.Entity
	for _, e := range Events() {
		cells = append(cells, counterEntity(c.events, int64(index)*EventsPerJob+int64(e)))
	}
	return append(cells, counterEntity(c.preempted, int64(index)), counterEntity(c.saturated, int64(index)))
}

// add puts a counter that was read into its place; one that was not asked for has none.
func (c counterIDs) add(to map[uint8]Counts, entry *p4v1.CounterEntry) {
	at, value := entry.GetIndex().GetIndex(), uint64(entry.GetData().GetPacketCount())
	index := uint8(at)
	if entry.GetCounterId() == c.events {
		index = uint8(at / EventsPerJob)
	}
	counts, ok := to[index]
	if !ok {
		return
	}
	switch entry.GetCounterId() {
	case c.events:
		counts.Events[at%EventsPerJob] = value
	case c.preempted:
		counts.Preempted = value
	case c.saturated:
		counts.Saturated = value
	}
	to[index] = counts
}
