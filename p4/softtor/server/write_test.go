package server_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"spillway/p4/client"
	"spillway/p4/p4info"
	"spillway/p4/pipeline"
)

const (
	insert = p4v1.Update_INSERT
	modify = p4v1.Update_MODIFY
	remove = p4v1.Update_DELETE
)

// Good entries, which the cases of tests make bad ones of.
var (
	forwardEntry = p4info.Entry{Table: "forward", Match: []p4info.Match{p4info.LPM("dst", 0x0a4d0100, 24)}, Do: call("to_port", "port", 1, "mac", 0x020000000001)}
	jobEntry     = p4info.Entry{Table: "job", Match: []p4info.Match{p4info.Exact("job", 50)}, Do: call("set_job", "index", 50, "generation", 1, "cookie", 1, "key", 1)}
	memberEntry  = p4info.Entry{Table: "member", Match: []p4info.Match{p4info.Exact("port", 1), p4info.Exact("src", 0x0a4d0101), p4info.Exact("job", 50)}, Do: call("worker", "bits", 1, "rest", 6)}
	regionEntry  = p4info.Entry{Table: "region", Priority: 1, Match: []p4info.Match{p4info.Exact("job", 50), p4info.Ternary("slot", 48, 0xfff0)}, Do: call("private_slots")}
	groupEntry   = p4info.Entry{Table: "group", Match: []p4info.Match{p4info.Exact("dst", 0xef010232)}, Do: call("to_group", "group", 1)}
)

// changed is the message of a good entry, changed.
func changed(t *testing.T, e p4info.Entry, change func(*p4v1.TableEntry)) *p4v1.Entity {
	t.Helper()
	m := entry(t, e)
	if change != nil {
		change(m)
	}
	return tableEntity(m)
}

func id(t *testing.T, table string) uint32 {
	t.Helper()
	found, err := pipeline.Software().Table(table)
	if err != nil {
		t.Fatal(err)
	}
	return found.ID
}

func actionID(t *testing.T, action string) uint32 {
	t.Helper()
	found, err := pipeline.Software().Action(action)
	if err != nil {
		t.Fatal(err)
	}
	return found.ID
}

func replication(m *p4v1.MulticastGroupEntry) *p4v1.Entity {
	return &p4v1.Entity{Entity: &p4v1.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4v1.PacketReplicationEngineEntry{
		Type: &p4v1.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: m},
	}}}
}

func counterEntry(id uint32, index *p4v1.Index, data *p4v1.CounterData) *p4v1.Entity {
	return &p4v1.Entity{Entity: &p4v1.Entity_CounterEntry{CounterEntry: &p4v1.CounterEntry{CounterId: id, Index: index, Data: data}}}
}

func directCounter(m *p4v1.TableEntry, data *p4v1.CounterData) *p4v1.Entity {
	return &p4v1.Entity{Entity: &p4v1.Entity_DirectCounterEntry{DirectCounterEntry: &p4v1.DirectCounterEntry{TableEntry: m, Data: data}}}
}

// prepared is a target with jobs 1 (private slots 0 to 15) and 2 (shared slots 16 to 31).
func prepared(t *testing.T) (*target, *client.Client) {
	t.Helper()
	tor := newTarget(t)
	c := tor.primary(t)
	for id, mode := range map[uint16]pipeline.Mode{1: pipeline.ModePrivate, 2: pipeline.ModeShared} {
		inserts, err := pipeline.Entries(pipeline.Software(), testJob(id, (id-1)*16, mode))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Write(deadline(t), inserts...); err != nil {
			t.Fatal(err)
		}
	}
	return tor, c
}

// snapshot is all that was written.
func snapshot(t *testing.T, c *client.Client) []*p4v1.Entity {
	t.Helper()
	all, err := c.Read(deadline(t), everything()...)
	if err != nil {
		t.Fatal(err)
	}
	return sorted(all)
}

// The status of a batch has an error for each update, in order, also for those that were made.
func TestBatchStatus(t *testing.T) {
	tor, c := prepared(t)
	good, worse := changed(t, forwardEntry, nil), changed(t, forwardEntry, func(m *p4v1.TableEntry) { m.Priority = 5 })
	batch := []*p4v1.Update{update(insert, worse), update(insert, good), update(remove, changed(t, jobEntry, nil))}
	_, err := tor.raw(t).Write(deadline(t), &p4v1.WriteRequest{DeviceId: device, ElectionId: &p4v1.Uint128{Low: 1}, Updates: batch})
	st := status.Convert(err)
	if st.Code() != codes.Unknown || len(st.Details()) != len(batch) {
		t.Fatalf("%v with %d details", err, len(st.Details()))
	}
	for n, want := range []codes.Code{codes.InvalidArgument, codes.OK, codes.NotFound} {
		detail := st.Details()[n].(*p4v1.Error)
		if codes.Code(detail.GetCanonicalCode()) != want || (want == codes.OK) != (proto.Size(detail) == 0) {
			t.Errorf("update %d: %v, want %s", n, detail, want)
		}
	}
	found, err := c.Read(deadline(t), good)
	if err != nil || len(found) != 1 {
		t.Errorf("the update that could be made: %d entries, %v", len(found), err)
	}
	err = c.Write(deadline(t), batch...)
	if err == nil || !strings.Contains(err.Error(), "write: 3 of 3 failed; 0: INSERT forward.priority: 5 is not 0") {
		t.Errorf("the client's error says %v", err)
	}
}

func TestRollback(t *testing.T) {
	_, c := prepared(t)
	before := snapshot(t, c)
	forward := changed(t, forwardEntry, nil)
	job := testJob(1, 0, pipeline.ModePrivate)
	all, err := pipeline.Removal(pipeline.Software(), job)
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, update(insert, forward), update(modify, changed(t, forwardEntry, func(m *p4v1.TableEntry) { m.Metadata = []byte("x") })),
		update(insert, pipeline.Multicast(5, 1)), update(modify, pipeline.Multicast(5, 2)))
	bad := append(all, update(insert, forward))
	err = c.WriteAtomic(deadline(t), p4v1.WriteRequest_ROLLBACK_ON_ERROR, bad...)
	var batch *client.BatchError
	if !errors.As(err, &batch) || len(batch.Errors) != len(bad) || batch.Errors[len(bad)-1].Code != codes.AlreadyExists || batch.Errors[0].Code != codes.Aborted {
		t.Fatalf("error %v", err)
	}
	if diff := cmp.Diff(before, snapshot(t, c), protocmp.Transform()); diff != "" {
		t.Errorf("not rolled back:\n%s", diff)
	}
	if err := c.WriteAtomic(deadline(t), p4v1.WriteRequest_ROLLBACK_ON_ERROR, all...); err != nil {
		t.Errorf("a good batch: %v", err)
	}
	err = c.WriteAtomic(deadline(t), p4v1.WriteRequest_DATAPLANE_ATOMIC, update(remove, forward))
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("DATAPLANE_ATOMIC: %v", err)
	}
	if err := c.WriteAtomic(deadline(t), 99, update(remove, forward)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("atomicity 99: %v", err)
	}
}

// What is written padded is read in canonical form, with the controller's own data.
func TestReadWriteSymmetry(t *testing.T) {
	_, c := prepared(t)
	ctx := deadline(t)
	canonical := entry(t, forwardEntry)
	canonical.Metadata, canonical.ControllerMetadata = []byte("mine"), 77 //lint:ignore SA1019 controllers may still use it
	padded := proto.Clone(canonical).(*p4v1.TableEntry)
	padded.Match[0].GetLpm().Value = append([]byte{0, 0}, padded.Match[0].GetLpm().GetValue()...)
	for _, p := range padded.GetAction().GetAction().GetParams() {
		p.Value = append(make([]byte, 20), p.Value...)
	}
	if err := c.Write(ctx, update(insert, tableEntity(padded))); err != nil {
		t.Fatal(err)
	}
	read := func(filter *p4v1.TableEntry) *p4v1.TableEntry {
		t.Helper()
		found, err := c.Read(ctx, tableEntity(filter))
		if err != nil || len(found) != 1 {
			t.Fatalf("%d entities, %v", len(found), err)
		}
		return found[0].GetTableEntry()
	}
	if diff := cmp.Diff(canonical, read(padded), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A MODIFY without an action keeps it, and replaces what else there is.
	if err := c.Write(ctx, update(modify, tableEntity(&p4v1.TableEntry{TableId: canonical.TableId, Match: padded.Match}))); err != nil {
		t.Fatal(err)
	}
	canonical.Metadata, canonical.ControllerMetadata = nil, 0 //lint:ignore SA1019 controllers may still use it
	if diff := cmp.Diff(canonical, read(&p4v1.TableEntry{TableId: canonical.TableId, Match: canonical.Match}), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A DELETE looks at the key only.
	padded.Action, padded.IdleTimeoutNs, padded.MeterConfig = &p4v1.TableAction{}, 5, &p4v1.MeterConfig{}
	if err := c.Write(ctx, update(remove, tableEntity(padded))); err != nil {
		t.Error(err)
	}
}

func TestTableIsFull(t *testing.T) {
	_, c := prepared(t)
	var batch []*p4v1.Update
	table, err := pipeline.Software().Table("job")
	if err != nil {
		t.Fatal(err)
	}
	for n := range table.Size { // 2 are there
		e := jobEntry
		e.Match = []p4info.Match{p4info.Exact("job", uint64(1000+n))}
		batch = append(batch, update(insert, changed(t, e, nil)))
	}
	err = c.Write(deadline(t), batch...)
	var failed *client.BatchError
	if !errors.As(err, &failed) || len(failed.Errors) != 2 || failed.Errors[0].Code != codes.ResourceExhausted || failed.Errors[0].Index != table.Size-2 {
		t.Errorf("%v", err)
	}
}

// Actions that do what a miss does can be entries too.
func TestInertEntries(t *testing.T) {
	_, c := prepared(t)
	for _, e := range []p4info.Entry{
		{Table: "forward", Do: call("drop")}, // 0.0.0.0/0
		{Table: "bridge", Match: []p4info.Match{p4info.Exact("mac", 5)}, Do: call("drop")},
		{Table: "group", Match: []p4info.Match{p4info.Exact("dst", 0xef000001)}, Do: call("drop")},
		{Table: "uplink", Match: []p4info.Match{p4info.Exact("job", 9)}, Do: call("drop")},
		{Table: "publish", Match: []p4info.Match{p4info.Exact("job", 9)}, Do: call("drop")},
	} {
		for _, kind := range []p4v1.Update_Type{insert, modify, remove} {
			if err := c.Write(deadline(t), update(kind, changed(t, e, nil))); err != nil {
				t.Errorf("%s %s: %v", kind, e.Table, err)
			}
		}
	}
	e := groupEntry
	for _, do := range []p4info.Call{call("to_group", "group", 1), call("drop"), call("to_group", "group", 2)} {
		e.Do = do
		kind := modify
		if do.Action == "to_group" && do.Arg("group") == 1 {
			kind = insert
		}
		if err := c.Write(deadline(t), update(kind, changed(t, e, nil))); err != nil {
			t.Errorf("%v: %v", do, err)
		}
	}
}

// A group may be deleted while entries name it; replicas may be written as before P4Runtime 1.4.
func TestGroups(t *testing.T) {
	_, c := prepared(t)
	ctx := deadline(t)
	if err := c.Write(ctx, update(remove, pipeline.Multicast(1))); err != nil {
		t.Error(err)
	}
	//lint:ignore SA1019 controllers may still use it
	old := replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 1, Metadata: []byte("m"), Replicas: []*p4v1.Replica{{PortKind: &p4v1.Replica_EgressPort{EgressPort: 3}, Instance: 9}}})
	if err := c.Write(ctx, update(insert, old)); err != nil {
		t.Fatal(err)
	}
	found, err := c.Read(ctx, replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 1}))
	if diff := cmp.Diff([]*p4v1.Entity{old}, found, protocmp.Transform()); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// A P4Info whose tables the data plane does not have cannot be served.
func TestForeignProgram(t *testing.T) {
	other := proto.Clone(pipeline.Software().Message()).(*configv1.P4Info)
	other.Tables[1].Preamble.Name = fmt.Sprint("not_", other.Tables[1].Preamble.Name)
	if info, err := p4info.New(other); err != nil || serverFor(info) == nil {
		t.Errorf("error %v, or served all the same", err)
	}
}
