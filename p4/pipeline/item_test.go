package pipeline

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"
)

// answers is a reader that finds what it has, whatever it is asked for.
type answers []*p4v1.Entity

func (a answers) Read(context.Context, ...*p4v1.Entity) ([]*p4v1.Entity, error) { return a, nil }

// jobItems are those of a job, in the order of Entries.
func jobItems(t *testing.T, job Job) []Item {
	t.Helper()
	updates, err := Entries(Software(), job)
	if err != nil {
		t.Fatal(err)
	}
	items, err := Items(Software(), updates)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

// otherwise is the same entity in another form: everything in the other order, and bytestrings longer than they need be.
func otherwise(entity *p4v1.Entity) *p4v1.Entity {
	e := proto.Clone(entity).(*p4v1.Entity)
	long := func(b []byte) []byte { return append([]byte{0, 0}, b...) }
	if table := e.GetTableEntry(); table != nil {
		slices.Reverse(table.Match)
		for _, m := range table.Match {
			switch f := m.GetFieldMatchType().(type) {
			case *p4v1.FieldMatch_Exact_:
				f.Exact.Value = long(f.Exact.Value)
			case *p4v1.FieldMatch_Ternary_:
				f.Ternary.Mask = long(f.Ternary.Mask)
			}
		}
		params := table.GetAction().GetAction().GetParams()
		slices.Reverse(params)
		for _, p := range params {
			p.Value = long(p.Value)
		}
		table.CounterData = &p4v1.CounterData{PacketCount: 3}
		table.Metadata = []byte("somebody's")
	}
	if group := e.GetPacketReplicationEngineEntry().GetMulticastGroupEntry(); group != nil {
		slices.Reverse(group.Replicas)
		for n, r := range group.Replicas {
			if n == 0 {
				r.PortKind = &p4v1.Replica_EgressPort{EgressPort: uint32(replicaPort(r))} //lint:ignore SA1019 servers may still use it
			} else {
				r.PortKind = &p4v1.Replica_Port{Port: long(r.GetPort())}
			}
		}
	}
	return e
}

func TestItemsAreCanonical(t *testing.T) {
	items := jobItems(t, testJob())
	changed := testJob()
	changed.Cookie, changed.Key, changed.Generation, changed.HomePort = 1, 2, 4, 63
	changed.Region.Mode, changed.WorkerPort, changed.MulticastGroup = ModePrivate, 9801, 2
	for n := range changed.Workers {
		changed.Workers[n].Bits <<= 4
	}
	values := map[Key]string{}
	for _, item := range jobItems(t, changed) {
		values[item.Key] = item.Value
	}
	seen := map[Key]bool{}
	for _, item := range items {
		if seen[item.Key] {
			t.Errorf("two items are %s", item.Key)
		}
		seen[item.Key] = true
		same, err := NewItem(Software(), otherwise(item.Entity))
		if err != nil {
			t.Fatal(err)
		}
		if same.Key != item.Key || same.Value != item.Value {
			t.Errorf("in another form %s (%s) is %s (%s)", item.Key, item.Value, same.Key, same.Value)
		}
		if value, there := values[item.Key]; there && value == item.Value {
			t.Errorf("%s is %s of another job too", item.Key, value)
		}
	}
	for _, want := range []Key{"multicast group 1", "region job=0x7 slot=0x40&0xffc0 priority 1", "member port=0x4 src=0xa4d0004 job=0x7", "group dst=0xef810203"} {
		if !seen[want] {
			t.Errorf("there is no %s in %v", want, seen)
		}
	}
}

// Items in any order can be put into the one that Entries makes.
func TestItemsAreOrdered(t *testing.T) {
	items := jobItems(t, testJob())
	kinds := func(items []Item) (list []string) {
		for _, i := range items {
			list = append(list, i.Table)
		}
		return list
	}
	want := kinds(items)
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(items), func(a, b int) { items[a], items[b] = items[b], items[a] })
	slices.SortFunc(items, Item.Before)
	if diff := cmp.Diff(want, kinds(items)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for n := 1; n < len(items); n++ {
		if items[n].Stage() < items[n-1].Stage() {
			t.Errorf("%s is of stage %d, after one of %d", items[n].Key, items[n].Stage(), items[n-1].Stage())
		}
	}
	for _, item := range items {
		u := item.Update(p4v1.Update_DELETE)
		gone, err := NewItem(Software(), u.GetEntity())
		if err != nil || gone.Key != item.Key || strings.Contains(gone.Value, "=") {
			t.Errorf("the deletion of %s is one of %s with %q: %v", item.Key, gone.Key, gone.Value, err)
		}
	}
}

func TestReadItems(t *testing.T) {
	group := Multicast(9, 4, 2)
	unknown := &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: &p4v1.TableEntry{TableId: 0x0200ffff}}}
	limits, err := Software().Table(TableLimits)
	if err != nil {
		t.Fatal(err)
	}
	own := &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: &p4v1.TableEntry{TableId: limits.ID, IsDefaultAction: true}}}
	hosts, err := HostEntries(Software(), 9, Host{netip.MustParseAddr("10.77.0.1"), MAC{2, 0, 0, 0, 0, 1}, 1})
	if err != nil {
		t.Fatal(err)
	}
	items, err := ReadItems(t.Context(), answers{group, own, unknown, hosts[2].GetEntity()}, Software())
	if err != nil || len(items) != 3 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	if items[0].Group() != 9 || !slices.Equal(items[0].Ports(), []uint16{2, 4}) || items[0].Key != "multicast group 9" {
		t.Errorf("%+v", items[0])
	}
	deletion := items[1].Update(p4v1.Update_DELETE)
	if deletion.GetEntity().GetTableEntry().GetTableId() != 0x0200ffff || items[1].Stage() != StageTables || items[1].Key == items[2].Key {
		t.Errorf("%v", deletion)
	}
	if items[2].Key != "forward dst=0xa4d0001/32" || items[2].Value != "to_port port=0x1 mac=0x20000000001" {
		t.Errorf("%+v", items[2])
	}
	if _, err := NewItem(Software(), counterEntity(1, 2)); err == nil {
		t.Error("a counter is an item")
	}
}

// counters is a reader in which every counter is its own index, and which is asked for no more than so many at once.
type counters struct{ asked int }

func (c *counters) Read(_ context.Context, entities ...*p4v1.Entity) ([]*p4v1.Entity, error) {
	c.asked = max(c.asked, len(entities))
	out := make([]*p4v1.Entity, len(entities))
	for n, e := range entities {
		out[n] = proto.Clone(e).(*p4v1.Entity)
		out[n].GetCounterEntry().Data = &p4v1.CounterData{PacketCount: e.GetCounterEntry().GetIndex().GetIndex()}
	}
	return out, nil
}

func TestReadCounts(t *testing.T) {
	var all []uint8
	for index := range 256 {
		all = append(all, uint8(index))
	}
	var tor counters
	found, err := ReadCounts(t.Context(), &tor, Software(), all...)
	if err != nil || len(found) != 256 || tor.asked > maxCounters {
		t.Fatalf("%d indices, %d at once, %v", len(found), tor.asked, err)
	}
	for index, counts := range found {
		if counts.Preempted != uint64(index) || counts.Saturated != uint64(index) {
			t.Errorf("index %d: %+v", index, counts)
		}
		for e, n := range counts.Events {
			want := uint64(index)*EventsPerJob + uint64(e)
			if !Event(e).Known() {
				want = 0
			}
			if n != want {
				t.Errorf("index %d, event %d: %d, want %d", index, e, n, want)
			}
		}
	}
	zero, err := ZeroCounts(Software(), 3)
	if err != nil || len(zero) != len(Events())+2 {
		t.Fatalf("%d updates, %v", len(zero), err)
	}
	for _, u := range zero {
		if u.GetType() != p4v1.Update_MODIFY || u.GetEntity().GetCounterEntry().GetData().GetPacketCount() != 0 {
			t.Errorf("%v", u)
		}
	}
}

func TestCounts(t *testing.T) {
	early := Counts{Preempted: 2, Saturated: 1}
	early.Events[EventClaimed] = 5
	late := early
	late.Events[EventClaimed], late.Saturated = 7, 4
	if !late.Follows(early) || !early.Follows(early) || early.Follows(late) {
		t.Error("what follows what is wrong")
	}
	since := late.Since(early)
	if since.Events[EventClaimed] != 2 || since.Saturated != 3 || since.Preempted != 0 || since.Plus(early) != late {
		t.Errorf("%+v", since)
	}
	for name, less := range map[string]func(*Counts){
		"event":     func(c *Counts) { c.Events[EventClaimed]-- },
		"preempted": func(c *Counts) { c.Preempted-- },
		"saturated": func(c *Counts) { c.Saturated-- },
	} {
		c := late
		less(&c)
		if c.Follows(late) {
			t.Errorf("a %s less follows", name)
		}
	}
}
