package server_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/testing/protocmp"

	"spillway/p4/client"
	"spillway/p4/pipeline"
	"spillway/p4/softtor/dataplane"
)

func testJob(id uint16, base uint16, mode pipeline.Mode) pipeline.Job {
	job := pipeline.Job{
		ID: id, Generation: 3, Index: uint8(id), Cookie: 0xdeadbeef, Key: 0x12345678,
		Home: netip.MustParseAddrPort("10.77.0.254:9696"), HomePorts: 4, HomePort: 64, HomeMAC: pipeline.MAC{2, 0, 0, 0, 0, 64},
		TorAddr: netip.MustParseAddr("10.77.0.253"), Group: netip.AddrFrom4([4]byte{239, 1, 2, byte(id)}), MulticastGroup: id, WorkerPort: 9800,
		Region: &pipeline.Region{Base: base, Slots: 16, Mode: mode},
	}
	for i := range 4 {
		job.Workers = append(job.Workers, pipeline.Worker{Addr: netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)}), Port: uint16(i + 1), Bits: 1 << i})
	}
	return job
}

// everything is a read of all that can be written.
func everything() []*p4v1.Entity {
	return []*p4v1.Entity{
		tableEntity(&p4v1.TableEntry{}),
		{Entity: &p4v1.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4v1.PacketReplicationEngineEntry{
			Type: &p4v1.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: &p4v1.MulticastGroupEntry{}},
		}}},
	}
}

func sorted(entities []*p4v1.Entity) []*p4v1.Entity {
	slices.SortFunc(entities, func(a, b *p4v1.Entity) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return entities
}

// A job is written, read back as it was written, and taken out again.
func TestJobRoundTrip(t *testing.T) {
	tor := newTarget(t)
	c := tor.primary(t)
	ctx := deadline(t)
	var want []*p4v1.Entity
	for id := uint16(1); id <= 2; id++ {
		inserts, err := pipeline.Entries(pipeline.Software(), testJob(id, (id-1)*16, pipeline.ModePrivate))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Write(ctx, inserts...); err != nil {
			t.Fatal(err)
		}
		for _, u := range inserts {
			want = append(want, u.GetEntity())
		}
	}
	hosts, err := pipeline.HostEntries(pipeline.Software(), 9, pipeline.Host{Addr: netip.MustParseAddr("10.77.0.1"), MAC: pipeline.MAC{2, 0, 0, 0, 0, 1}, Port: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(ctx, hosts...); err != nil {
		t.Fatal(err)
	}
	for _, u := range hosts {
		want = append(want, u.GetEntity())
	}
	got, err := c.Read(ctx, everything()...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sorted(want), sorted(got), protocmp.Transform()); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	for id := uint16(1); id <= 2; id++ {
		removal, err := pipeline.Removal(pipeline.Software(), testJob(id, (id-1)*16, pipeline.ModePrivate))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Write(ctx, removal...); err != nil {
			t.Fatal(err)
		}
	}
	if got, err = c.Read(ctx, everything()...); err != nil || len(got) != len(hosts) {
		t.Errorf("%d entities are left, %d were of hosts; error %v", len(got), len(hosts), err)
	}
}

func TestLimitsEventsAndSlots(t *testing.T) {
	tor := newTarget(t)
	c := tor.primary(t)
	ctx := deadline(t)
	limits, err := pipeline.ReadLimits(ctx, c, pipeline.Software())
	if want := (pipeline.Limits{Slots: slots, Elements: elements}); limits != want || err != nil {
		t.Errorf("limits %+v, %v; want %+v", limits, err, want)
	}
	events, err := pipeline.ReadEvents(ctx, c, pipeline.Software(), 1)
	if err != nil || len(events) != len(pipeline.Events()) {
		t.Errorf("%d events, %v", len(events), err)
	}
	for _, name := range []string{pipeline.CounterPreempted, pipeline.CounterSaturated} {
		if n, err := pipeline.ReadJobCounter(ctx, c, pipeline.Software(), name, 255); n != 0 || err != nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	all, err := pipeline.ReadSlots(ctx, c, pipeline.Software())
	if err != nil || len(all) != slots || !all[0].Free() {
		t.Errorf("%d slots, %v", len(all), err)
	}
	if version, err := c.Capabilities(ctx); version != "1.5.0" || err != nil {
		t.Errorf("P4Runtime %q, %v", version, err)
	}
}

// The names of events here are those of the compiled program.
func TestEventNames(t *testing.T) {
	names, err := dataplane.EventNames()
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[string]int{}
	for n, name := range names {
		if name != "" {
			compiled[name] = n
		}
	}
	known := map[string]int{}
	for _, e := range pipeline.Events() {
		known[e.String()] = int(e)
	}
	if !maps.Equal(compiled, known) {
		t.Error(cmp.Diff(compiled, known))
	}
}

var _ pipeline.Reader = (*client.Client)(nil)
