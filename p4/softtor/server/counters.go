package server

import (
	"errors"
	"fmt"

	configv1 "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"spillway/p4/p4info"
	"spillway/p4/pipeline"
)

// The data plane only counts. A count that a controller writes is kept as the offset that makes the data plane's count into it.

func checkCount(object string, data *p4v1.CounterData) error {
	if data.GetPacketCount() < 0 || data.GetByteCount() < 0 {
		return refuse(codes.InvalidArgument, object, "data", "%d packets, %d bytes", data.GetPacketCount(), data.GetByteCount())
	}
	return nil
}

func written(data *p4v1.CounterData, unit configv1.CounterSpec_Unit) count {
	return inUnit(count{data.GetPacketCount(), data.GetByteCount()}, unit)
}

// inUnit leaves of a count what the counter counts.
func inUnit(c count, unit configv1.CounterSpec_Unit) count {
	switch unit {
	case configv1.CounterSpec_PACKETS:
		c.bytes = 0
	case configv1.CounterSpec_BYTES:
		c.packets = 0
	}
	return c
}

// counted is what the data plane has counted for a row since it was there.
func (s *state) counted(t *table, r *row) (count, error) {
	if !s.live {
		return count{}, nil
	}
	var packets, bytes uint64
	var err error
	switch t.Name {
	case pipeline.TableForward:
		packets, bytes, err = s.dataplane.ForwardCount(prefix(r.entry))
	case pipeline.TableMember:
		packets, bytes, err = s.dataplane.MemberCount(memberKey(r.entry))
	default:
		err = fmt.Errorf("table %s has no counter", t.Name)
	}
	return inUnit(count{int64(packets), int64(bytes)}, t.DirectCounter.Unit), err
}

// hits is the count of a row.
func (s *state) hits(t *table, r *row) (count, error) {
	c, err := s.counted(t, r)
	return c.plus(r.offset), err
}

// setHits makes the count of a row what data says, 0 for nil. It does nothing in a table that does not count.
func (s *state) setHits(t *table, r *row, data *p4v1.CounterData) error {
	if t.DirectCounter == nil {
		return nil
	}
	c, err := s.counted(t, r)
	if err != nil {
		return err
	}
	r.offset = written(data, t.DirectCounter.Unit).minus(c)
	return nil
}

func (s *state) directCounterTable(m *p4v1.DirectCounterEntry) (*table, error) {
	t, ok := s.tables[m.GetTableEntry().GetTableId()]
	if !ok {
		return nil, refuse(codes.InvalidArgument, "", "table_entry.table_id", "there is no table with id %#x", m.GetTableEntry().GetTableId())
	}
	if t.DirectCounter == nil {
		return nil, refuse(codes.InvalidArgument, t.Name, "table_entry", "the table has no direct counter")
	}
	if m.GetTableEntry().GetIsDefaultAction() {
		return nil, refuse(codes.Unimplemented, t.Name, "table_entry.is_default_action", "misses are not counted")
	}
	return t, nil
}

func (s *state) updateDirectCounter(kind p4v1.Update_Type, m *p4v1.DirectCounterEntry) (undo func() error, err error) {
	t, err := s.directCounterTable(m)
	if err != nil {
		return nil, err
	}
	if kind != p4v1.Update_MODIFY {
		return nil, refuse(codes.InvalidArgument, t.Name, "type", "a direct counter can be modified only")
	}
	if err := checkCount(t.Name, m.GetData()); err != nil {
		return nil, err
	}
	e, err := s.info.Decode(&p4v1.TableEntry{TableId: t.ID, Match: m.GetTableEntry().GetMatch(), Priority: m.GetTableEntry().GetPriority()})
	if err == nil {
		err = t.CheckKey(e)
	}
	if err != nil {
		return nil, err
	}
	r, ok := t.rows[rowKey(e)]
	if !ok {
		return nil, refuse(codes.NotFound, t.Name, "table_entry.match", "there is no such entry")
	}
	if m.GetData() == nil {
		return nothing, nil
	}
	before := r.offset
	if err := s.setHits(t, r, m.GetData()); err != nil {
		return nil, err
	}
	by := r.offset.minus(before)
	return func() error {
		r.offset = r.offset.minus(by) // the entry may have come back, with a new counter, since
		return nil
	}, nil
}

// readDirectCounters gives the counters of one entry, of a table, or of all tables.
func (s *state) readDirectCounters(m *p4v1.DirectCounterEntry, found func(*p4v1.Entity) error) error {
	filter := m.GetTableEntry()
	if filter.GetTableId() == 0 {
		for _, t := range s.info.Tables() {
			if t.DirectCounter == nil {
				continue
			}
			if err := s.readDirectCounters(&p4v1.DirectCounterEntry{TableEntry: &p4v1.TableEntry{TableId: t.ID}}, found); err != nil {
				return err
			}
		}
		return nil
	}
	t, err := s.directCounterTable(m)
	if err != nil {
		return err
	}
	rows, err := s.selected(t, filter)
	if err != nil {
		return err
	}
	if len(rows) == 0 && len(filter.GetMatch()) > 0 {
		return refuse(codes.NotFound, t.Name, "table_entry.match", "there is no such entry")
	}
	for _, r := range rows {
		c, err := s.hits(t, r)
		if err != nil {
			return err
		}
		if err := found(&p4v1.Entity{Entity: &p4v1.Entity_DirectCounterEntry{DirectCounterEntry: &p4v1.DirectCounterEntry{
			TableEntry: &p4v1.TableEntry{TableId: t.ID, Match: r.message.GetMatch(), Priority: r.message.GetPriority()},
			Data:       c.message(),
		}}}); err != nil {
			return err
		}
	}
	return nil
}

// cellCounted is what the data plane has in a cell of an indexed counter.
func (s *state) cellCounted(c *p4info.Counter, index int64) (count, error) {
	if !s.live {
		return count{}, nil
	}
	var packets uint64
	var err error
	switch c.Name {
	case pipeline.CounterEvents:
		if event := pipeline.Event(index % pipeline.EventsPerJob); event.Known() {
			packets, err = s.dataplane.EventCount(uint8(index/pipeline.EventsPerJob), int(event))
		}
	case pipeline.CounterPreempted:
		packets, err = s.dataplane.PreemptedCount(uint8(index))
	case pipeline.CounterSaturated:
		packets, err = s.dataplane.SaturatedCount(uint8(index))
	default:
		err = errors.New("there is no counter " + c.Name)
	}
	return count{packets: int64(packets)}, err
}

// cells are the indices that an index field names: one, or without one all.
func cells(name string, size int64, index *p4v1.Index) (first, end int64, err error) {
	i := index.GetIndex()
	switch {
	case index == nil:
		return 0, size, nil
	case i < 0:
		return 0, 0, refuse(codes.InvalidArgument, name, "index", "%d is negative", i)
	case i >= size:
		return 0, 0, refuse(codes.OutOfRange, name, "index", "%d, there are %d", i, size)
	}
	return i, i + 1, nil
}

func (s *state) updateCounter(kind p4v1.Update_Type, m *p4v1.CounterEntry) (undo func() error, err error) {
	c, ok := s.info.CounterByID(m.GetCounterId())
	if !ok {
		return nil, refuse(codes.InvalidArgument, "", "counter_id", "there is no counter with id %#x", m.GetCounterId())
	}
	if kind != p4v1.Update_MODIFY {
		return nil, refuse(codes.InvalidArgument, c.Name, "type", "a counter can be modified only")
	}
	first, end, err := cells(c.Name, c.Size, m.GetIndex())
	if err != nil {
		return nil, err
	}
	if err := checkCount(c.Name, m.GetData()); err != nil {
		return nil, err
	}
	if m.GetData() == nil {
		return nothing, nil
	}
	offsets := make(map[cell]count, end-first)
	for i := first; i < end; i++ {
		counted, err := s.cellCounted(c, i)
		if err != nil {
			return nil, err
		}
		offsets[cell{c.ID, i}] = written(m.GetData(), c.Unit).minus(counted)
	}
	for at, offset := range offsets {
		offsets[at], s.offsets[at] = s.offsets[at], offset
	}
	return func() error {
		for at, offset := range offsets {
			s.offsets[at] = offset
		}
		return nil
	}, nil
}

// readCounters gives one cell of a counter, all of one, or all of all.
func (s *state) readCounters(m *p4v1.CounterEntry, found func(*p4v1.Entity) error) error {
	if m.GetCounterId() == 0 {
		if m.GetIndex() != nil {
			return refuse(codes.InvalidArgument, "", "counter_id", "an index without a counter")
		}
		for _, c := range s.info.Counters() {
			if err := s.readCounters(&p4v1.CounterEntry{CounterId: c.ID}, found); err != nil {
				return err
			}
		}
		return nil
	}
	c, ok := s.info.CounterByID(m.GetCounterId())
	if !ok {
		return refuse(codes.InvalidArgument, "", "counter_id", "there is no counter with id %#x", m.GetCounterId())
	}
	first, end, err := cells(c.Name, c.Size, m.GetIndex())
	if err != nil {
		return err
	}
	for i := first; i < end; i++ {
		counted, err := s.cellCounted(c, i)
		if err != nil {
			return err
		}
		if err := found(&p4v1.Entity{Entity: &p4v1.Entity_CounterEntry{CounterEntry: &p4v1.CounterEntry{
			CounterId: c.ID, Index: &p4v1.Index{Index: i}, Data: counted.plus(s.offsets[cell{c.ID, i}]).message(),
		}}}); err != nil {
			return err
		}
	}
	return nil
}
