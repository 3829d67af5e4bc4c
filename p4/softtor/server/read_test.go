package server_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"spillway/p4/client"
	"spillway/p4/p4info"
	"spillway/p4/pipeline"
)

func registerEntry(id uint32, index *p4v1.Index) *p4v1.Entity {
	return &p4v1.Entity{Entity: &p4v1.Entity_RegisterEntry{RegisterEntry: &p4v1.RegisterEntry{RegisterId: id, Index: index}}}
}

func TestReadFilters(t *testing.T) {
	_, c := prepared(t)
	ctx := deadline(t)
	marked := changed(t, forwardEntry, func(m *p4v1.TableEntry) {
		m.Metadata, m.ControllerMetadata = []byte("mine"), 5 //lint:ignore SA1019 controllers may still use it
	})
	drop := p4info.Entry{Table: "forward", Do: call("drop")}
	if err := c.Write(ctx, update(insert, marked), update(insert, changed(t, drop, nil)), update(insert, changed(t, regionEntry, nil))); err != nil {
		t.Fatal(err)
	}
	info := pipeline.Software()
	forward, region := id(t, "forward"), id(t, "region")
	slotID, err := info.Register(pipeline.RegisterSlotID)
	if err != nil {
		t.Fatal(err)
	}
	events, err := info.Counter(pipeline.CounterEvents)
	if err != nil {
		t.Fatal(err)
	}
	action := func(name string) *p4v1.TableAction {
		return &p4v1.TableAction{Type: &p4v1.TableAction_Action{Action: &p4v1.Action{ActionId: actionID(t, name)}}}
	}
	cells := 0
	for _, counter := range info.Counters() {
		cells += int(counter.Size)
	}
	for _, test := range []struct {
		name string
		ask  *p4v1.Entity
		want int
	}{
		{"a table", tableEntity(&p4v1.TableEntry{TableId: forward}), 2},
		{"an entry", tableEntity(&p4v1.TableEntry{TableId: forward, Match: marked.GetTableEntry().GetMatch()}), 1},
		{"an entry that is not there", changed(t, jobEntry, nil), 0},
		{"an action", tableEntity(&p4v1.TableEntry{TableId: forward, Action: action("drop")}), 1},
		{"metadata", tableEntity(&p4v1.TableEntry{TableId: forward, Metadata: []byte("mine")}), 1},
		{"other metadata", tableEntity(&p4v1.TableEntry{TableId: forward, Metadata: []byte("yours")}), 0},
		{"controller metadata", tableEntity(&p4v1.TableEntry{TableId: forward, ControllerMetadata: 5}), 1}, //lint:ignore SA1019 controllers may still use it
		{"a priority", tableEntity(&p4v1.TableEntry{TableId: region, Priority: 1}), 3},
		{"another priority", tableEntity(&p4v1.TableEntry{TableId: region, Priority: 2}), 0},
		{"an entry of any priority", tableEntity(&p4v1.TableEntry{TableId: region, Match: entry(t, regionEntry).Match}), 1},
		{"an entry of another priority", tableEntity(&p4v1.TableEntry{TableId: region, Priority: 2, Match: entry(t, regionEntry).Match}), 0},
		{"a default entry", tableEntity(&p4v1.TableEntry{TableId: forward, IsDefaultAction: true}), 1},
		{"all default entries", tableEntity(&p4v1.TableEntry{IsDefaultAction: true}), len(info.Tables())},
		{"all groups", replication(&p4v1.MulticastGroupEntry{}), 2},
		{"all direct counters", directCounter(&p4v1.TableEntry{}, nil), 2 + 2*5},
		{"a table's direct counters", directCounter(&p4v1.TableEntry{TableId: forward}, nil), 2},
		{"a direct counter", directCounter(&p4v1.TableEntry{TableId: forward, Match: marked.GetTableEntry().GetMatch()}, nil), 1},
		{"all counters", counterEntry(0, nil, nil), cells},
		{"a counter", counterEntry(events.ID, nil, nil), int(events.Size)},
		{"a cell", counterEntry(events.ID, &p4v1.Index{Index: events.Size - 1}, nil), 1},
		{"all registers", registerEntry(0, nil), 5 * slots},
		{"a register", registerEntry(slotID.ID, nil), slots},
		{"an element", registerEntry(slotID.ID, &p4v1.Index{Index: slots - 1}), 1},
	} {
		found, err := c.Read(ctx, test.ask)
		if err != nil || len(found) != test.want {
			t.Errorf("%s: %d entities, %v; want %d", test.name, len(found), err, test.want)
		}
	}
}

func TestRefusedReads(t *testing.T) {
	tor, c := prepared(t)
	info := pipeline.Software()
	events, err := info.Counter(pipeline.CounterEvents)
	if err != nil {
		t.Fatal(err)
	}
	slotID, err := info.Register(pipeline.RegisterSlotID)
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name  string
		ask   *p4v1.Entity
		code  codes.Code
		field string
	}{
		{"no entity", &p4v1.Entity{}, codes.InvalidArgument, "entity"},
		{"entity of a kind that is not there", &p4v1.Entity{Entity: &p4v1.Entity_DigestEntry{}}, codes.Unimplemented, "entity"},
		{"unknown table", tableEntity(&p4v1.TableEntry{TableId: 0x02ffffff}), codes.InvalidArgument, "table_id"},
		{"all tables with a match", tableEntity(&p4v1.TableEntry{Match: entry(t, jobEntry).Match}), codes.InvalidArgument, "table_id"},
		{"half a key", tableEntity(&p4v1.TableEntry{TableId: id(t, "member"), Match: entry(t, memberEntry).Match[:1]}), codes.InvalidArgument, "src"},
		{"default entry with a match", tableEntity(&p4v1.TableEntry{TableId: id(t, "job"), IsDefaultAction: true, Match: entry(t, jobEntry).Match}), codes.InvalidArgument, "is_default_action"},
		{"counter of a table that does not count", tableEntity(&p4v1.TableEntry{TableId: id(t, "job"), CounterData: &p4v1.CounterData{}}), codes.InvalidArgument, "counter_data"},
		{"meter", tableEntity(&p4v1.TableEntry{TableId: id(t, "job"), MeterConfig: &p4v1.MeterConfig{}}), codes.InvalidArgument, "meter_config"},
		{"idle time", tableEntity(&p4v1.TableEntry{TableId: id(t, "job"), TimeSinceLastHit: &p4v1.TableEntry_IdleTimeout{}}), codes.InvalidArgument, "time_since_last_hit"},
		{"group that is not there", replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 77}), codes.NotFound, ""},
		{"clone session", &p4v1.Entity{Entity: &p4v1.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4v1.PacketReplicationEngineEntry{}}}, codes.InvalidArgument, "packet_replication_engine_entry"},
		{"direct counter of an entry that is not there", directCounter(entry(t, memberEntry), nil), codes.NotFound, "table_entry.match"},
		{"direct counter of a table without one", directCounter(entry(t, jobEntry), nil), codes.InvalidArgument, "table_entry"},
		{"unknown counter", counterEntry(0x12ffffff, nil, nil), codes.InvalidArgument, "counter_id"},
		{"index of all counters", counterEntry(0, &p4v1.Index{}, nil), codes.InvalidArgument, "counter_id"},
		{"negative index", counterEntry(events.ID, &p4v1.Index{Index: -1}, nil), codes.InvalidArgument, "index"},
		{"large index", counterEntry(events.ID, &p4v1.Index{Index: events.Size}, nil), codes.OutOfRange, "index"},
		{"unknown register", registerEntry(0x16ffffff, nil), codes.InvalidArgument, "register_id"},
		{"index of all registers", registerEntry(0, &p4v1.Index{}), codes.InvalidArgument, "register_id"},
		{"negative element", registerEntry(slotID.ID, &p4v1.Index{Index: -1}), codes.InvalidArgument, "index"},
		{"element beyond the slots", registerEntry(slotID.ID, &p4v1.Index{Index: slots}), codes.OutOfRange, "index"},
	}
	batch := []*p4v1.Entity{tableEntity(&p4v1.TableEntry{})}
	for _, test := range cases {
		_, err := c.Read(deadline(t), test.ask)
		var failed *client.BatchError
		if !errors.As(err, &failed) || len(failed.Errors) != 1 || failed.Errors[0].Code != test.code || test.field != "" && failed.Errors[0].Field != test.field {
			t.Errorf("%s: %v, want %s about %s", test.name, err, test.code, test.field)
		}
		batch = append(batch, test.ask)
	}
	// The good ones of a batch are answered all the same.
	found, err := c.Read(deadline(t), batch...)
	var failed *client.BatchError
	if !errors.As(err, &failed) || len(failed.Errors) != len(cases) || failed.Errors[0].Index != 1 || len(found) == 0 {
		t.Errorf("batch: %d entities, %v", len(found), err)
	}
	if _, err := tor.raw(t).Capabilities(deadline(t), &p4v1.CapabilitiesRequest{DeviceId: device + 1}); status.Code(err) != codes.NotFound {
		t.Errorf("capabilities of another device: %v", err)
	}
	if _, err := tor.raw(t).GetForwardingPipelineConfig(deadline(t), &p4v1.GetForwardingPipelineConfigRequest{}); status.Code(err) != codes.NotFound {
		t.Errorf("pipeline of another device: %v", err)
	}
	stream, err := tor.raw(t).Read(deadline(t), &p4v1.ReadRequest{DeviceId: device + 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("read of another device: %v", err)
	}
}

// Direct counters: what the data plane counts, from what a controller set.
func TestDirectCounters(t *testing.T) {
	tor, c := prepared(t)
	ctx := deadline(t)
	e := entry(t, forwardEntry)
	e.CounterData = &p4v1.CounterData{PacketCount: 100, ByteCount: 1000}
	frame := ipv4Frame(0x0a4d0101)
	hit := func() {
		t.Helper()
		if out, err := tor.Process(2, frame); err != nil || len(out) != 1 {
			t.Fatalf("%d frames leave, %v", len(out), err)
		}
	}
	counts := func(packets, bytes int64) {
		t.Helper()
		want := &p4v1.CounterData{PacketCount: packets, ByteCount: bytes}
		alone, err := c.Read(ctx, directCounter(&p4v1.TableEntry{TableId: e.TableId, Match: e.Match}, nil))
		if err != nil || len(alone) != 1 {
			t.Fatal(len(alone), err)
		}
		within, err := c.Read(ctx, tableEntity(&p4v1.TableEntry{TableId: e.TableId, Match: e.Match, CounterData: &p4v1.CounterData{}}))
		if err != nil || len(within) != 1 {
			t.Fatal(len(within), err)
		}
		for _, got := range []*p4v1.CounterData{alone[0].GetDirectCounterEntry().GetData(), within[0].GetTableEntry().GetCounterData()} {
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	}
	write := func(kind p4v1.Update_Type, entity *p4v1.Entity) {
		t.Helper()
		if err := c.Write(ctx, update(kind, entity)); err != nil {
			t.Fatal(err)
		}
	}
	size := int64(len(frame))
	write(insert, tableEntity(e))
	counts(100, 1000)
	hit()
	counts(101, 1000+size)
	e.CounterData = nil
	write(modify, tableEntity(e)) // unset: unchanged
	hit()
	counts(102, 1000+2*size)
	write(modify, directCounter(e, &p4v1.CounterData{PacketCount: 1, ByteCount: 2}))
	hit()
	counts(2, 2+size)
	write(modify, directCounter(e, nil)) // nothing is modified
	counts(2, 2+size)
	// A batch that is rolled back leaves counters as they were, those of a deleted entry too.
	err := c.WriteAtomic(ctx, p4v1.WriteRequest_ROLLBACK_ON_ERROR,
		update(modify, directCounter(e, &p4v1.CounterData{PacketCount: 9})),
		update(modify, changed(t, forwardEntry, func(m *p4v1.TableEntry) { m.CounterData = &p4v1.CounterData{PacketCount: 5, ByteCount: 5} })),
		update(remove, tableEntity(e)), update(insert, tableEntity(e)), update(remove, tableEntity(e)), update(remove, tableEntity(e)))
	if err == nil {
		t.Error("an entry was deleted twice")
	}
	hit()
	counts(3, 2+2*size)
	write(remove, tableEntity(e))
	write(insert, tableEntity(e))
	counts(0, 0)
}

func TestCounters(t *testing.T) {
	tor, c := prepared(t)
	ctx := deadline(t)
	events, err := pipeline.Software().Counter(pipeline.CounterEvents)
	if err != nil {
		t.Fatal(err)
	}
	// A packet for a home's port that is nothing of Spillway's.
	frame := ipv4Frame(0x0a4d00fe)
	copy(frame[34:], []byte{0x26, 0x48, 0x25, 0xe0, 0, 26, 0, 0})
	unknown := func() uint64 {
		t.Helper()
		counts, err := pipeline.ReadEvents(ctx, c, pipeline.Software(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return counts[pipeline.EventBadHeader]
	}
	hit := func() {
		t.Helper()
		if out, err := tor.Process(2, frame); err != nil || len(out) != 0 {
			t.Fatalf("%d frames leave, %v", len(out), err)
		}
	}
	hit()
	if n := unknown(); n != 1 {
		t.Errorf("%d bad headers, want 1", n)
	}
	cell := &p4v1.Index{Index: int64(pipeline.EventBadHeader)}
	if err := c.Write(ctx, update(modify, counterEntry(events.ID, cell, &p4v1.CounterData{PacketCount: 41}))); err != nil {
		t.Fatal(err)
	}
	hit()
	if n := unknown(); n != 42 {
		t.Errorf("%d bad headers, want 42", n)
	}
	if err := c.Write(ctx, update(modify, counterEntry(events.ID, cell, nil))); err != nil || unknown() != 42 {
		t.Errorf("a write without data: %v, now %d", err, unknown())
	}
	err = c.WriteAtomic(ctx, p4v1.WriteRequest_ROLLBACK_ON_ERROR, update(modify, counterEntry(events.ID, nil, &p4v1.CounterData{PacketCount: 7})), update(insert, counterEntry(events.ID, nil, nil)))
	if err == nil || unknown() != 42 {
		t.Errorf("rolled back: %v, now %d", err, unknown())
	}
	if err := c.Write(ctx, update(modify, counterEntry(events.ID, nil, &p4v1.CounterData{}))); err != nil || unknown() != 0 {
		t.Errorf("all cleared: %v, now %d", err, unknown())
	}
	hit()
	if n := unknown(); n != 1 {
		t.Errorf("%d bad headers, want 1", n)
	}
}
