package pipeline

import (
	"context"
	"fmt"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"

	"spillway/p4/p4info"
)

// Reader reads entities from a ToR; the P4Runtime client is one.
type Reader interface {
	Read(ctx context.Context, entities ...*p4v1.Entity) ([]*p4v1.Entity, error)
}

// Limits are what a ToR can hold.
type Limits struct {
	Slots uint32
	// Elements is the most a chunk may have to be summed in it.
	Elements int
}

// ReadLimits asks a ToR for its limits. A target that does not let default entries be read (BMv2 does) is believed to
// be what its program says.
func ReadLimits(ctx context.Context, tor Reader, info *p4info.Info) (Limits, error) {
	table, err := info.Table(TableLimits)
	if err != nil {
		return Limits{}, err
	}
	found, err := tor.Read(ctx, &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: &p4v1.TableEntry{TableId: table.ID, IsDefaultAction: true}}})
	if err != nil {
		return Limits{}, fmt.Errorf("read the limits: %w", err)
	}
	call := table.Default
	for _, entity := range found {
		entry, err := info.Decode(entity.GetTableEntry())
		if err != nil {
			return Limits{}, fmt.Errorf("read the limits: %w", err)
		}
		if entry.Do.Action != "" {
			call = entry.Do
		}
	}
	limits := Limits{Slots: uint32(call.Arg("slots")), Elements: int(call.Arg("elements"))}
	if limits.Slots == 0 || limits.Elements == 0 {
		return limits, fmt.Errorf("limits of the ToR: %d slots, %d elements", limits.Slots, limits.Elements)
	}
	return limits, nil
}

// ReadEvents reads the events of a job (or of index 0, which counts the packets of no job). Events that did not happen are there with 0.
func ReadEvents(ctx context.Context, tor Reader, info *p4info.Info, index uint8) (map[Event]uint64, error) {
	counter, err := info.Counter(CounterEvents)
	if err != nil {
		return nil, err
	}
	events := Events()
	asked := make([]*p4v1.Entity, len(events))
	for n, e := range events {
		asked[n] = counterEntity(counter.ID, int64(index)*EventsPerJob+int64(e))
	}
	found, err := tor.Read(ctx, asked...)
	if err != nil {
		return nil, fmt.Errorf("read the events of index %d: %w", index, err)
	}
	out := map[Event]uint64{}
	for _, e := range events {
		out[e] = 0
	}
	for _, entity := range found {
		if c := entity.GetCounterEntry(); c != nil && c.GetCounterId() == counter.ID {
			out[Event(c.GetIndex().GetIndex()-int64(index)*EventsPerJob)] = uint64(c.GetData().GetPacketCount())
		}
	}
	return out, nil
}

// ReadJobCounter reads the element of a job of one of the counters that have one for each: CounterPreempted, CounterSaturated.
func ReadJobCounter(ctx context.Context, tor Reader, info *p4info.Info, name string, index uint8) (uint64, error) {
	counter, err := info.Counter(name)
	if err != nil {
		return 0, err
	}
	found, err := tor.Read(ctx, counterEntity(counter.ID, int64(index)))
	if err != nil {
		return 0, fmt.Errorf("read %s of index %d: %w", name, index, err)
	}
	var sum uint64
	for _, entity := range found {
		sum += uint64(entity.GetCounterEntry().GetData().GetPacketCount())
	}
	return sum, nil
}

func counterEntity(id uint32, index int64) *p4v1.Entity {
	return &p4v1.Entity{Entity: &p4v1.Entity_CounterEntry{CounterEntry: &p4v1.CounterEntry{CounterId: id, Index: &p4v1.Index{Index: index}}}}
}

// Slot is the state of a slot, without its elements.
type Slot struct {
	ID, Urgency, Tag uint32
	Bitmap           uint64
	Flags            uint8
}

// Free tells whether the slot holds nothing.
func (s Slot) Free() bool { return s.Urgency == 0 }

// ReadSlots reads the state of all slots, from a target whose registers can be read (the software ToR; not BMv2).
func ReadSlots(ctx context.Context, tor Reader, info *p4info.Info) ([]Slot, error) {
	var slots []Slot
	for _, register := range []struct {
		name string
		set  func(*Slot, uint64)
	}{
		{RegisterSlotID, func(s *Slot, v uint64) { s.ID = uint32(v) }},
		{RegisterSlotUrgency, func(s *Slot, v uint64) { s.Urgency = uint32(v) }},
		{RegisterSlotTag, func(s *Slot, v uint64) { s.Tag = uint32(v) }},
		{RegisterSlotBitmap, func(s *Slot, v uint64) { s.Bitmap = v }},
		{RegisterSlotFlags, func(s *Slot, v uint64) { s.Flags = uint8(v) }},
	} {
		r, err := info.Register(register.name)
		if err != nil {
			return nil, err
		}
		found, err := tor.Read(ctx, &p4v1.Entity{Entity: &p4v1.Entity_RegisterEntry{RegisterEntry: &p4v1.RegisterEntry{RegisterId: r.ID}}})
		if err != nil {
			return nil, fmt.Errorf("read register %s: %w", register.name, err)
		}
		for _, entity := range found {
			entry := entity.GetRegisterEntry()
			n := entry.GetIndex().GetIndex()
			if n < 0 || n > NoSlot {
				return nil, fmt.Errorf("register %s has element %d", register.name, n)
			}
			for int64(len(slots)) <= n {
				slots = append(slots, Slot{})
			}
			v, err := p4info.Value(entry.GetData().GetBitstring(), r.Width)
			if err != nil {
				return nil, fmt.Errorf("register %s, element %d: %w", register.name, n, err)
			}
			register.set(&slots[n], v)
		}
	}
	return slots, nil
}
