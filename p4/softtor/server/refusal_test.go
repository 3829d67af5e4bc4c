package server_test

import (
	"errors"
	"strings"
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

// refusals are updates that must be refused, each with its status and the field that the message must name. Job 1 is there, with
// the private slots 0 to 15, and multicast group 1.
func refusals(t *testing.T) []refusalCase {
	info := pipeline.Software()
	events, err := info.Counter(pipeline.CounterEvents)
	if err != nil {
		t.Fatal(err)
	}
	register, err := info.Register(pipeline.RegisterSlotID)
	if err != nil {
		t.Fatal(err)
	}
	there := func() *p4v1.TableEntry { // an entry of job 1
		return entry(t, p4info.Entry{Table: "job", Match: []p4info.Match{p4info.Exact("job", 1)}, Do: jobEntry.Do})
	}
	bad := func(e p4info.Entry, change func(*p4v1.TableEntry)) *p4v1.Entity { return changed(t, e, change) }
	param := func(n int, value string) func(*p4v1.TableEntry) {
		return func(m *p4v1.TableEntry) { m.GetAction().GetAction().Params[n].Value = []byte(value) }
	}
	with := func(e p4info.Entry, do p4info.Call) *p4v1.Entity {
		e.Do = do
		return bad(e, nil)
	}
	at := func(e p4info.Entry, match ...p4info.Match) *p4v1.Entity {
		e.Match = match
		return bad(e, nil)
	}
	region := func(job uint64, base, mask uint64, action string) *p4v1.Entity {
		e := regionEntry
		e.Match, e.Do = []p4info.Match{p4info.Exact("job", job), p4info.Ternary("slot", base, mask)}, call(action)
		return bad(e, nil)
	}
	port := func(b ...byte) *p4v1.Replica { return &p4v1.Replica{PortKind: &p4v1.Replica_Port{Port: b}} }
	return []refusalCase{
		{"update without a type", update(0, tableEntity(there())), codes.InvalidArgument, "type"},
		{"no entity", update(insert, &p4v1.Entity{}), codes.InvalidArgument, "entity"},
		{"entity of a kind that is not there", update(insert, &p4v1.Entity{Entity: &p4v1.Entity_MeterEntry{}}), codes.Unimplemented, "entity"},
		{"extern", update(insert, &p4v1.Entity{Entity: &p4v1.Entity_ExternEntry{ExternEntry: &p4v1.ExternEntry{}}}), codes.Unimplemented, "entity"},

		{"unknown table", update(insert, tableEntity(&p4v1.TableEntry{TableId: 0x02ffffff})), codes.InvalidArgument, "table_id"},
		{"no table", update(insert, tableEntity(&p4v1.TableEntry{})), codes.InvalidArgument, "table_id"},
		{"existing entry", update(insert, tableEntity(there())), codes.AlreadyExists, "job.match"},
		{"modify what is not there", update(modify, bad(jobEntry, nil)), codes.NotFound, "job.match"},
		{"delete what is not there", update(remove, bad(jobEntry, nil)), codes.NotFound, "job.match"},
		{"unknown key", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) { m.Match[0].FieldId = 9 })), codes.InvalidArgument, "job.match"},
		{"key twice", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) { m.Match = append(m.Match, m.Match[0]) })), codes.InvalidArgument, "job.job"},
		{"key left out", update(insert, bad(memberEntry, func(m *p4v1.TableEntry) { m.Match = m.Match[:2] })), codes.InvalidArgument, "member.job"},
		{"kind of match", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) {
			m.Match[0].FieldMatchType = &p4v1.FieldMatch_Lpm{Lpm: &p4v1.FieldMatch_LPM{Value: []byte{1}, PrefixLen: 16}}
		})), codes.InvalidArgument, "job.job"},
		{"match without a value", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) { m.Match[0].FieldMatchType = nil })), codes.InvalidArgument, "job.job"},
		{"wide key", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) { m.Match[0].GetExact().Value = []byte{1, 0, 0} })), codes.OutOfRange, "job.job"},
		{"wide key of 9 bits", update(insert, bad(memberEntry, func(m *p4v1.TableEntry) { m.Match[0].GetExact().Value = []byte{2, 0} })), codes.OutOfRange, "member.port"},
		{"empty key", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) { m.Match[0].GetExact().Value = nil })), codes.OutOfRange, "job.job"},
		{"prefix of no bits", update(insert, bad(forwardEntry, func(m *p4v1.TableEntry) {
			m.Match[0].GetLpm().PrefixLen, m.Match[0].GetLpm().Value = 0, []byte{0}
		})), codes.InvalidArgument, "forward.dst"},
		{"prefix of 33 bits", update(insert, bad(forwardEntry, func(m *p4v1.TableEntry) { m.Match[0].GetLpm().PrefixLen = 33 })), codes.InvalidArgument, "forward.dst"},
		{"prefix of -1 bits", update(insert, bad(forwardEntry, func(m *p4v1.TableEntry) { m.Match[0].GetLpm().PrefixLen = -1 })), codes.InvalidArgument, "forward.dst"},
		{"bits beyond the prefix", update(insert, bad(forwardEntry, func(m *p4v1.TableEntry) { m.Match[0].GetLpm().PrefixLen = 16 })), codes.InvalidArgument, "forward.dst"},
		{"mask of no bits", update(insert, bad(regionEntry, func(m *p4v1.TableEntry) {
			*m.Match[1].GetTernary() = p4v1.FieldMatch_Ternary{Value: []byte{0}, Mask: []byte{0}}
		})), codes.InvalidArgument, "region.slot"},
		{"bits outside the mask", update(insert, bad(regionEntry, func(m *p4v1.TableEntry) { m.Match[1].GetTernary().Value = []byte{49} })), codes.InvalidArgument, "region.slot"},
		{"empty mask", update(insert, bad(regionEntry, func(m *p4v1.TableEntry) { m.Match[1].GetTernary().Mask = nil })), codes.OutOfRange, "region.slot"},
		{"no priority", update(insert, bad(regionEntry, func(m *p4v1.TableEntry) { m.Priority = 0 })), codes.InvalidArgument, "region.priority"},
		{"negative priority", update(insert, bad(regionEntry, func(m *p4v1.TableEntry) { m.Priority = -1 })), codes.InvalidArgument, "region.priority"},
		{"priority of an exact table", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) { m.Priority = 1 })), codes.InvalidArgument, "job.priority"},
		{"priority of an lpm table", update(insert, bad(forwardEntry, func(m *p4v1.TableEntry) { m.Priority = 1 })), codes.InvalidArgument, "forward.priority"},

		{"no action", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) { m.Action = nil })), codes.InvalidArgument, "job.action"},
		{"empty action", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) { m.Action = &p4v1.TableAction{} })), codes.InvalidArgument, "job.action"},
		{"action profile member", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) {
			m.Action = &p4v1.TableAction{Type: &p4v1.TableAction_ActionProfileMemberId{ActionProfileMemberId: 1}}
		})), codes.InvalidArgument, "job.action"},
		{"unknown action", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) { m.GetAction().GetAction().ActionId = 0x01ffffff })), codes.InvalidArgument, "job.action"},
		{"another table's action", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) { m.GetAction().GetAction().ActionId = actionID(t, "drop") })), codes.InvalidArgument, "job.action"},
		{"action for the default only", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) {
			*m.GetAction().GetAction() = p4v1.Action{ActionId: actionID(t, "no_job")}
		})), codes.PermissionDenied, "job.action"},
		{"parameter left out", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) {
			a := m.GetAction().GetAction()
			a.Params = a.Params[:3]
		})), codes.InvalidArgument, "job.key"},
		{"parameter twice", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) {
			a := m.GetAction().GetAction()
			a.Params = append(a.Params, a.Params[0])
		})), codes.InvalidArgument, "job.action"},
		{"unknown parameter", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) { m.GetAction().GetAction().Params[0].ParamId = 99 })), codes.InvalidArgument, "job.action"},
		{"wide parameter", update(insert, bad(jobEntry, param(1, "\x01\x00"))), codes.OutOfRange, "job.generation"},
		{"empty parameter", update(insert, bad(jobEntry, param(2, ""))), codes.OutOfRange, "job.cookie"},

		{"entry of a table without a key", update(insert, tableEntity(&p4v1.TableEntry{TableId: id(t, "limits")})), codes.InvalidArgument, "limits.match"},
		{"default action", update(modify, bad(p4info.Entry{Table: "forward", Default: true, Do: call("drop")}, nil)), codes.PermissionDenied, "forward.is_default_action"},
		{"limits", update(modify, tableEntity(&p4v1.TableEntry{TableId: id(t, "limits"), IsDefaultAction: true})), codes.PermissionDenied, "limits.is_default_action"},
		{"insert a default entry", update(insert, tableEntity(&p4v1.TableEntry{TableId: id(t, "forward"), IsDefaultAction: true})), codes.InvalidArgument, "forward.is_default_action"},
		{"delete a default entry", update(remove, tableEntity(&p4v1.TableEntry{TableId: id(t, "forward"), IsDefaultAction: true})), codes.InvalidArgument, "forward.is_default_action"},
		{"default entry with a match", update(modify, bad(jobEntry, func(m *p4v1.TableEntry) { m.IsDefaultAction = true })), codes.InvalidArgument, "job.is_default_action"},
		{"constant entry", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) { m.IsConst = true })), codes.InvalidArgument, "job.is_const"},
		{"delete a constant entry", update(remove, bad(jobEntry, func(m *p4v1.TableEntry) { m.IsConst = true })), codes.InvalidArgument, "job.is_const"},
		{"meter", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) { m.MeterConfig = &p4v1.MeterConfig{} })), codes.InvalidArgument, "job.meter_config"},
		{"idle timeout", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) { m.IdleTimeoutNs = 1 })), codes.InvalidArgument, "job.idle_timeout_ns"},
		{"counter of a table that does not count", update(insert, bad(jobEntry, func(m *p4v1.TableEntry) { m.CounterData = &p4v1.CounterData{} })), codes.InvalidArgument, "job.counter_data"},
		{"negative count", update(insert, bad(forwardEntry, func(m *p4v1.TableEntry) { m.CounterData = &p4v1.CounterData{PacketCount: -1} })), codes.InvalidArgument, "forward.data"},

		{"port that is not there", update(insert, with(forwardEntry, call("to_port", "port", 9, "mac", 1))), codes.InvalidArgument, "forward.port"},
		{"bridge to a port that is not there", update(insert, bad(p4info.Entry{Table: "bridge", Match: []p4info.Match{p4info.Exact("mac", 1)}, Do: call("to_link", "port", 511)}, nil)), codes.InvalidArgument, "bridge.port"},
		{"member at a port that is not there", update(insert, at(memberEntry, p4info.Exact("port", 9), p4info.Exact("src", 1), p4info.Exact("job", 50))), codes.InvalidArgument, "member.port"},
		{"no group", update(insert, with(groupEntry, call("to_group", "group", 0))), codes.InvalidArgument, "group.group"},
		{"group of an address that is not multicast", update(insert, at(groupEntry, p4info.Exact("dst", 0x0a4d0101))), codes.InvalidArgument, ""},
		{"index of no job", update(insert, with(jobEntry, call("set_job", "index", 0, "generation", 1, "cookie", 1, "key", 1))), codes.InvalidArgument, "job.index"},
		{"worker without bits", update(insert, with(memberEntry, call("worker", "bits", 0, "rest", 6))), codes.InvalidArgument, "member.bits"},
		{"bits and rest overlap", update(insert, with(memberEntry, call("worker", "bits", 2, "rest", 6))), codes.InvalidArgument, "member.rest"},

		{"region beyond the slots", update(insert, region(50, 64, 0xfff0, "private_slots")), codes.OutOfRange, "region.slot"},
		{"region larger than the slots", update(insert, region(50, 0, 0xff80, "shared_slots")), codes.OutOfRange, "region.slot"},
		{"region of all indices", update(insert, at(regionEntry, p4info.Exact("job", 50))), codes.InvalidArgument, "region.slot"},
		{"region with holes", update(insert, region(50, 0, 0xfff5, "private_slots")), codes.InvalidArgument, "region.slot"},
		{"private region in another's", update(insert, region(50, 8, 0xfff8, "private_slots")), codes.FailedPrecondition, "region.slot"},
		{"private region around another's", update(insert, region(50, 0, 0xffe0, "private_slots")), codes.FailedPrecondition, "region.slot"},
		{"shared region in another's private one", update(insert, region(50, 0, 0xfff0, "shared_slots")), codes.FailedPrecondition, "region.slot"},
		{"first come region in another's private one", update(insert, region(50, 0, 0xffff, "first_come_slots")), codes.FailedPrecondition, "region.slot"},
		{"private region in another's shared one", update(insert, region(50, 16, 0xfff0, "private_slots")), codes.FailedPrecondition, "region.slot"},
		{"two regions of a job overlap", update(insert, region(2, 24, 0xfff8, "shared_slots")), codes.FailedPrecondition, "region.slot"},

		{"no multicast group", update(insert, replication(&p4v1.MulticastGroupEntry{Replicas: []*p4v1.Replica{port(1)}})), codes.InvalidArgument, "multicast_group_id"},
		{"multicast group over 16 bits", update(insert, replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 0x10000, Replicas: []*p4v1.Replica{port(1)}})), codes.InvalidArgument, "multicast_group_id"},
		{"group without ports", update(insert, replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 5})), codes.InvalidArgument, "replicas"},
		{"group loses its ports", update(modify, replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 1})), codes.InvalidArgument, "replicas"},
		{"group with a port that is not there", update(insert, replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 5, Replicas: []*p4v1.Replica{port(1), port(9)}})), codes.InvalidArgument, "replicas[1].port"},
		{"group with a wide port", update(insert, replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 5, Replicas: []*p4v1.Replica{port(2, 0)}})), codes.OutOfRange, "replicas[0].port"},
		{"group with an empty port", update(insert, replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 5, Replicas: []*p4v1.Replica{port()}})), codes.OutOfRange, "replicas[0].port"},
		{"group with no port at all", update(insert, replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 5, Replicas: []*p4v1.Replica{{}}})), codes.InvalidArgument, "replicas[0].port"},
		{"group with a port twice", update(insert, replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 5, Replicas: []*p4v1.Replica{port(1), port(1)}})), codes.InvalidArgument, "replicas[1]"},
		{"group with two copies to a port", update(insert, replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 5, Replicas: []*p4v1.Replica{port(1), {Instance: 2, PortKind: port(1).PortKind}}})), codes.Unimplemented, "replicas[1]"},
		{"group with a large instance", update(insert, replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 5, Replicas: []*p4v1.Replica{{Instance: 0x10000, PortKind: port(1).PortKind}}})), codes.InvalidArgument, "replicas[0].instance"},
		{"group with backups", update(insert, replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 5, Replicas: []*p4v1.Replica{{PortKind: port(1).PortKind, BackupReplicas: []*p4v1.BackupReplica{{Port: []byte{2}}}}}})), codes.Unimplemented, "replicas[0].backup_replicas"},
		{"existing group", update(insert, replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 1, Replicas: []*p4v1.Replica{port(1)}})), codes.AlreadyExists, ""},
		{"modify a group that is not there", update(modify, replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 5, Replicas: []*p4v1.Replica{port(1)}})), codes.NotFound, ""},
		{"delete a group that is not there", update(remove, replication(&p4v1.MulticastGroupEntry{MulticastGroupId: 5})), codes.NotFound, ""},
		{"clone session", update(insert, &p4v1.Entity{Entity: &p4v1.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4v1.PacketReplicationEngineEntry{Type: &p4v1.PacketReplicationEngineEntry_CloneSessionEntry{}}}}), codes.Unimplemented, "packet_replication_engine_entry"},
		{"replication of no kind", update(insert, &p4v1.Entity{Entity: &p4v1.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4v1.PacketReplicationEngineEntry{}}}), codes.InvalidArgument, "packet_replication_engine_entry"},

		{"unknown counter", update(modify, counterEntry(0x12ffffff, nil, nil)), codes.InvalidArgument, "counter_id"},
		{"insert a counter", update(insert, counterEntry(events.ID, nil, nil)), codes.InvalidArgument, "events.type"},
		{"delete a counter", update(remove, counterEntry(events.ID, nil, nil)), codes.InvalidArgument, "events.type"},
		{"counter's index is negative", update(modify, counterEntry(events.ID, &p4v1.Index{Index: -1}, &p4v1.CounterData{})), codes.InvalidArgument, "events.index"},
		{"counter's index is large", update(modify, counterEntry(events.ID, &p4v1.Index{Index: 8192}, &p4v1.CounterData{})), codes.OutOfRange, "events.index"},
		{"counter's data is negative", update(modify, counterEntry(events.ID, nil, &p4v1.CounterData{ByteCount: -1})), codes.InvalidArgument, "events.data"},
		{"insert a direct counter", update(insert, directCounter(&p4v1.TableEntry{TableId: id(t, "forward")}, nil)), codes.InvalidArgument, "forward.type"},
		{"direct counter of nothing", update(modify, directCounter(nil, nil)), codes.InvalidArgument, "table_entry.table_id"},
		{"direct counter of a table without one", update(modify, directCounter(there(), nil)), codes.InvalidArgument, "job.table_entry"},
		{"direct counter of an entry that is not there", update(modify, directCounter(entry(t, memberEntry), &p4v1.CounterData{})), codes.NotFound, "member.table_entry.match"},
		{"direct counter of a bad key", update(modify, directCounter(&p4v1.TableEntry{TableId: id(t, "member")}, &p4v1.CounterData{})), codes.InvalidArgument, "member.port"},
		{"direct counter of misses", update(modify, directCounter(&p4v1.TableEntry{TableId: id(t, "forward"), IsDefaultAction: true}, nil)), codes.Unimplemented, "forward.table_entry.is_default_action"},
		{"register", update(modify, &p4v1.Entity{Entity: &p4v1.Entity_RegisterEntry{RegisterEntry: &p4v1.RegisterEntry{RegisterId: register.ID}}}), codes.Unimplemented, "register_entry"},
	}
}

type refusalCase struct {
	name   string
	update *p4v1.Update
	code   codes.Code
	field  string
}

func TestRefusedUpdates(t *testing.T) {
	_, c := prepared(t)
	before := snapshot(t, c)
	for _, test := range refusals(t) {
		t.Run(test.name, func(t *testing.T) {
			err := c.Write(deadline(t), test.update)
			var batch *client.BatchError
			if !errors.As(err, &batch) || len(batch.Errors) != 1 {
				t.Fatalf("error %v, want %s about %q", err, test.code, test.field)
			}
			got := batch.Errors[0]
			if got.Code != test.code || !strings.HasSuffix(test.field, got.Field) && !strings.HasSuffix(got.Field, test.field) || !strings.Contains(got.Message, test.field) {
				t.Errorf("%s about %q: %s; want %s about %q", got.Code, got.Field, got.Message, test.code, test.field)
			}
			if status.Code(err) == codes.OK || status.Code(err) == codes.Internal {
				t.Errorf("the whole has status %s", status.Code(err))
			}
			if diff := cmp.Diff(before, snapshot(t, c), protocmp.Transform()); diff != "" {
				t.Errorf("the state is another:\n%s", diff)
			}
		})
	}
}
