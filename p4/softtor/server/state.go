package server

import (
	"fmt"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"spillway/p4/p4info"
)

// state is everything that controllers wrote for one pipeline configuration: what the data plane cannot give back as it came.
type state struct {
	info      *p4info.Info
	dataplane Dataplane
	// live tells whether the data plane runs this pipeline; until then writes are kept here only.
	live   bool
	tables map[uint32]*table
	groups map[uint32]*group
	// offsets are what is added to the data plane's indexed counters, for it cannot be told a count.
	offsets map[cell]count
}

// cell is an element of an indexed counter.
type cell struct {
	counter uint32
	index   int64
}

// count is packets and bytes; differences may be negative.
type count struct{ packets, bytes int64 }

func (c count) plus(d count) count  { return count{c.packets + d.packets, c.bytes + d.bytes} }
func (c count) minus(d count) count { return count{c.packets - d.packets, c.bytes - d.bytes} }

func (c count) message() *p4v1.CounterData {
	return &p4v1.CounterData{PacketCount: c.packets, ByteCount: c.bytes}
}

// newState is empty. It refuses a P4Info with tables that are not known here.
func newState(info *p4info.Info, dp Dataplane) (*state, error) {
	s := &state{info: info, dataplane: dp, tables: map[uint32]*table{}, groups: map[uint32]*group{}, offsets: map[cell]count{}}
	for _, t := range info.Tables() {
		if _, ok := bindings[t.Name]; !ok && len(t.Keys) > 0 {
			return nil, fmt.Errorf("the data plane has no table %s", t.Name)
		}
		if !t.ConstDefault {
			return nil, fmt.Errorf("the default action of table %s can be changed in the program, but not in the data plane", t.Name)
		}
		s.tables[t.ID] = &table{Table: t, rows: map[string]*row{}}
	}
	return s, nil
}

// goLive makes the data plane, which is empty, do what was written.
func (s *state) goLive() error {
	s.live = true
	for id, g := range s.groups {
		if err := s.dataplane.SetMulticast(uint16(id), g.ports); err != nil {
			return err
		}
	}
	for _, t := range s.tables {
		for _, r := range t.rows {
			if err := bindings[t.Name].set(s.dataplane, r.entry, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// update makes one update, or nothing: then its error is why, a *refusal or one that asRefusal makes one of. undo takes it back.
func (s *state) update(u *p4v1.Update) (undo func() error, err error) {
	switch u.GetType() {
	case p4v1.Update_INSERT, p4v1.Update_MODIFY, p4v1.Update_DELETE:
	default:
		return nil, refuse(codes.InvalidArgument, "", "type", "%s", u.GetType())
	}
	switch e := u.GetEntity().GetEntity().(type) {
	case *p4v1.Entity_TableEntry:
		return s.updateTable(u.GetType(), e.TableEntry)
	case *p4v1.Entity_DirectCounterEntry:
		return s.updateDirectCounter(u.GetType(), e.DirectCounterEntry)
	case *p4v1.Entity_CounterEntry:
		return s.updateCounter(u.GetType(), e.CounterEntry)
	case *p4v1.Entity_PacketReplicationEngineEntry:
		return s.updateReplication(u.GetType(), e.PacketReplicationEngineEntry)
	case *p4v1.Entity_RegisterEntry:
		return nil, refuse(codes.Unimplemented, "", "register_entry", "registers are the data plane's, they can be read only")
	}
	return nil, s.unknownEntity(u.GetEntity())
}

// unknownEntity is the refusal of entities that this pipeline has none of.
func (s *state) unknownEntity(e *p4v1.Entity) *refusal {
	if e.GetEntity() == nil {
		return refuse(codes.InvalidArgument, "", "entity", "it is not set")
	}
	return refuse(codes.Unimplemented, "", "entity", "the pipeline has no %T", e.GetEntity())
}

// nothing is the undoing of an update that changed nothing.
func nothing() error { return nil }
