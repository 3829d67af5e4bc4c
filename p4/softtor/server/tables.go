package server

import (
	"errors"
	"fmt"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"spillway/p4/p4info"
)

// table is a table with what was written to it.
type table struct {
	*p4info.Table
	rows map[string]*row
}

// row is an entry.
type row struct {
	entry p4info.Entry
	// message is the entry as it is read: in canonical form, with the controller's metadata, without counters.
	message *p4v1.TableEntry
	// offset is what is added to the data plane's counter of the entry.
	offset count
}

// rowKey is the identity of an entry in its table.
func rowKey(e p4info.Entry) string { return fmt.Sprint(e.Match, e.Priority) }

// updateTable inserts, modifies or deletes an entry.
func (s *state) updateTable(kind p4v1.Update_Type, m *p4v1.TableEntry) (undo func() error, err error) {
	t, err := s.writable(kind, m)
	if err != nil {
		return nil, err
	}
	e, err := s.decode(kind, t, m)
	if err != nil {
		return nil, err
	}
	key := rowKey(e)
	old := t.rows[key]
	switch {
	case kind == p4v1.Update_INSERT && old != nil:
		return nil, refuse(codes.AlreadyExists, t.Name, "match", "the entry exists")
	case kind != p4v1.Update_INSERT && old == nil:
		return nil, refuse(codes.NotFound, t.Name, "match", "there is no such entry")
	case kind == p4v1.Update_DELETE:
		return s.remove(t, key, old)
	case kind == p4v1.Update_INSERT && t.Size > 0 && len(t.rows) >= t.Size:
		return nil, refuse(codes.ResourceExhausted, t.Name, "", "it has %d entries, as many as it can hold", t.Size)
	}
	if e.Do.Action == "" {
		if old == nil {
			return nil, refuse(codes.InvalidArgument, t.Name, "action", "an INSERT needs one")
		}
		e.Do = old.entry.Do
	}
	if err := s.check(t, e); err != nil {
		return nil, err
	}
	canonical, err := s.info.Encode(e)
	if err != nil {
		return nil, err
	}
	canonical.ControllerMetadata, canonical.Metadata = m.GetControllerMetadata(), m.GetMetadata() //lint:ignore SA1019 controllers may still use it
	replacement := &row{entry: e, message: canonical}
	if old != nil {
		replacement.offset = old.offset
	}
	restore, err := s.replace(t, key, old, replacement)
	if err != nil {
		return nil, err
	}
	if old == nil || m.GetCounterData() != nil {
		if err := s.setHits(t, replacement, m.GetCounterData()); err != nil {
			return nil, errors.Join(err, restore())
		}
	}
	if old == nil {
		return restore, nil
	}
	by := replacement.offset.minus(old.offset)
	return func() error {
		old.offset = replacement.offset.minus(by) // the entry may have come back, with a new counter, since
		return restore()
	}, nil
}

// writable checks what all updates of a table have in common.
func (s *state) writable(kind p4v1.Update_Type, m *p4v1.TableEntry) (*table, error) {
	t, ok := s.tables[m.GetTableId()]
	if !ok {
		return nil, refuse(codes.InvalidArgument, "", "table_id", "there is no table with id %#x", m.GetTableId())
	}
	invalid := func(field, format string, args ...any) (*table, error) {
		return nil, refuse(codes.InvalidArgument, t.Name, field, format, args...)
	}
	if m.GetIsConst() {
		return invalid("is_const", "only the program makes constant entries")
	}
	if m.GetIsDefaultAction() {
		if len(m.GetMatch()) > 0 || m.GetPriority() != 0 {
			return invalid("is_default_action", "the default entry has neither match nor priority")
		}
		if kind != p4v1.Update_MODIFY {
			return invalid("is_default_action", "the default entry is always there, it can be modified only")
		}
		return nil, refuse(codes.PermissionDenied, t.Name, "is_default_action", "the default action is constant")
	}
	if t.Const {
		return nil, refuse(codes.PermissionDenied, t.Name, "", "the table is constant")
	}
	if len(t.Keys) == 0 {
		return invalid("match", "the table has no key, so it has no entries but the default one")
	}
	if kind == p4v1.Update_DELETE {
		return t, nil // only the key counts
	}
	if m.GetMeterConfig() != nil || m.GetMeterCounterData() != nil {
		return invalid("meter_config", "the table has no meter")
	}
	if m.GetIdleTimeoutNs() != 0 || m.GetTimeSinceLastHit() != nil {
		return invalid("idle_timeout_ns", "entries of this table do not expire")
	}
	if m.GetCounterData() != nil {
		if t.DirectCounter == nil {
			return invalid("counter_data", "the table has no direct counter")
		}
		if err := checkCount(t.Name, m.GetCounterData()); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// decode is the entry that an update means; of a DELETE only the key.
func (s *state) decode(kind p4v1.Update_Type, t *table, m *p4v1.TableEntry) (p4info.Entry, error) {
	if kind == p4v1.Update_DELETE {
		m = &p4v1.TableEntry{TableId: m.GetTableId(), Match: m.GetMatch(), Priority: m.GetPriority()}
	}
	e, err := s.info.Decode(m)
	if err != nil {
		return e, err
	}
	if err := t.CheckKey(e); err != nil {
		return e, err
	}
	return e, t.CheckScope(e.Do.Action, false)
}

// replace puts a row in the place of another (nil: none), in the data plane first.
func (s *state) replace(t *table, key string, old, replacement *row) (undo func() error, err error) {
	if s.live {
		if replacement != nil {
			err = bindings[t.Name].set(s.dataplane, replacement.entry, true)
		} else {
			err = bindings[t.Name].set(s.dataplane, old.entry, false)
		}
		if err != nil {
			return nil, err
		}
	}
	if replacement != nil {
		t.rows[key] = replacement
	} else {
		delete(t.rows, key)
	}
	return func() error {
		_, err := s.replace(t, key, replacement, old)
		return err
	}, nil
}

// remove deletes a row. Its counter ends with it, so what it had is taken for the case that the row comes back.
func (s *state) remove(t *table, key string, old *row) (undo func() error, err error) {
	var had *p4v1.CounterData
	if t.DirectCounter != nil {
		c, err := s.hits(t, old)
		if err != nil {
			return nil, err
		}
		had = c.message()
	}
	restore, err := s.replace(t, key, old, nil)
	if err != nil {
		return nil, err
	}
	return func() error {
		if err := restore(); err != nil {
			return err
		}
		return s.setHits(t, old, had)
	}, nil
}

// readTables gives the entries that a read of TableEntry asks for.
func (s *state) readTables(m *p4v1.TableEntry, found func(*p4v1.Entity) error) error {
	if m.GetTableId() == 0 {
		if len(m.GetMatch()) > 0 || m.GetAction() != nil || m.GetPriority() != 0 {
			return refuse(codes.InvalidArgument, "", "table_id", "a read of all tables has no other filters")
		}
		for _, t := range s.info.Tables() {
			if err := s.readTable(s.tables[t.ID], m, found); err != nil {
				return err
			}
		}
		return nil
	}
	t, ok := s.tables[m.GetTableId()]
	if !ok {
		return refuse(codes.InvalidArgument, "", "table_id", "there is no table with id %#x", m.GetTableId())
	}
	if m.GetCounterData() != nil && t.DirectCounter == nil {
		return refuse(codes.InvalidArgument, t.Name, "counter_data", "the table has no direct counter")
	}
	return s.readTable(t, m, found)
}

func (s *state) readTable(t *table, m *p4v1.TableEntry, found func(*p4v1.Entity) error) error {
	if m.GetMeterConfig() != nil || m.GetMeterCounterData() != nil {
		return refuse(codes.InvalidArgument, t.Name, "meter_config", "the table has no meter")
	}
	if m.GetTimeSinceLastHit() != nil {
		return refuse(codes.InvalidArgument, t.Name, "time_since_last_hit", "entries of this table do not expire")
	}
	if m.GetIsDefaultAction() {
		return s.readDefault(t, m, found)
	}
	rows, err := s.selected(t, m)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if a := m.GetAction().GetAction().GetActionId(); a != 0 && r.message.GetAction().GetAction().GetActionId() != a {
			continue
		}
		//lint:ignore SA1019 controllers may still use it
		if c := m.GetControllerMetadata(); c != 0 && r.message.GetControllerMetadata() != c {
			continue
		}
		if c := m.GetMetadata(); len(c) > 0 && string(r.message.GetMetadata()) != string(c) {
			continue
		}
		out := r.message
		if m.GetCounterData() != nil && t.DirectCounter != nil {
			hits, err := s.hits(t, r)
			if err != nil {
				return err
			}
			out = proto.Clone(out).(*p4v1.TableEntry)
			out.CounterData = hits.message()
		}
		if err := found(&p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: out}}); err != nil {
			return err
		}
	}
	return nil
}

// selected are the rows with a given key, or all; and of a given priority, or of any.
func (s *state) selected(t *table, m *p4v1.TableEntry) ([]*row, error) {
	wanted := ""
	if len(m.GetMatch()) > 0 {
		e, err := s.info.Decode(&p4v1.TableEntry{TableId: t.ID, Match: m.GetMatch()})
		if err != nil {
			return nil, err
		}
		// The priority is a filter of its own here, and 0 its wildcard.
		e.Priority = 0
		if t.Prioritised() {
			e.Priority = 1
		}
		if err := t.CheckKey(e); err != nil {
			return nil, err
		}
		wanted = fmt.Sprint(e.Match)
		if !t.Prioritised() && m.GetPriority() == 0 {
			if r, ok := t.rows[rowKey(e)]; ok {
				return []*row{r}, nil
			}
			return nil, nil
		}
	}
	var rows []*row
	for _, r := range t.rows {
		if (wanted == "" || fmt.Sprint(r.entry.Match) == wanted) && (m.GetPriority() == 0 || r.entry.Priority == m.GetPriority()) {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// readDefault gives the default entry of a table. That of limits says what this target can hold.
func (s *state) readDefault(t *table, m *p4v1.TableEntry, found func(*p4v1.Entity) error) error {
	if len(m.GetMatch()) > 0 || m.GetPriority() != 0 {
		return refuse(codes.InvalidArgument, t.Name, "is_default_action", "the default entry has neither match nor priority")
	}
	if m.GetCounterData() != nil && m.GetTableId() != 0 {
		return refuse(codes.Unimplemented, t.Name, "counter_data", "misses are not counted")
	}
	e := p4info.Entry{Table: t.Name, Default: true, Do: t.Default}
	if t.Name == tableLimits {
		slots, elements := s.dataplane.Limits()
		e.Do.Args = []p4info.Arg{{Param: "slots", Value: uint64(slots)}, {Param: "elements", Value: uint64(elements)}}
	}
	out, err := s.info.Encode(e)
	if err != nil {
		return err
	}
	return found(&p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: out}})
}
