package rig

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"spillway/p4/client"
	"spillway/p4/p4info"
	"spillway/p4/pipeline"
	"spillway/p4/vectors"
)

var interopPorts = []uint16{1, 2, 3, 63, 64, 68}

// within gives a test's call a deadline, which only ends what hangs.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// routeOf is an entry of the forward table: address by port.
func routeOf(t *testing.T, p client.Pipeline, address string, port uint16) *p4v1.Entity {
	t.Helper()
	entry, err := p.Info.Encode(route(vectors.Forward{Prefix: netip.MustParsePrefix(address), Port: port, MAC: vectors.MAC{2, 0, 0, 0, 0, 9}}))
	if err != nil {
		t.Fatal(err)
	}
	return &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: entry}}
}

// routes reads the whole forward table.
func routes(t *testing.T, c *client.Client, p client.Pipeline) []p4info.Entry {
	t.Helper()
	table, err := p.Info.Table(pipeline.TableForward)
	if err != nil {
		t.Fatal(err)
	}
	found, err := c.Read(within(t), &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: &p4v1.TableEntry{TableId: table.ID}}})
	if err != nil {
		t.Fatal(err)
	}
	var entries []p4info.Entry
	for _, e := range found {
		entry, err := p.Info.Decode(e.GetTableEntry())
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry)
	}
	return entries
}

// sums runs a case that claims, merges and completes.
func sums(t *testing.T, b *BMv2) {
	t.Helper()
	files := load(t)
	slots := files[slices.IndexFunc(files, func(f *vectors.File) bool { return f.Name == "slots" })]
	if err := slots.Run(b, &slots.Cases[0]); err != nil {
		t.Error(err)
	}
}

// TestBMv2Interop holds the client to a server that is not the project's own.
func TestBMv2Interop(t *testing.T) {
	b := startBMv2(t, interopPorts)
	if err := b.Configure(&vectors.Fixture{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, *BMv2)
	}{
		{"capabilities and limits", bmv2Limits},
		{"the pipeline that was pushed", bmv2Pipelines},
		{"table entries", bmv2Entries},
		{"multicast groups", bmv2Groups},
		{"a second client", bmv2Backup},
		{"a job as the controller makes it", bmv2Job},
		{"a foreign pipeline", bmv2Foreign},
		{"a restart", bmv2Restart},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, b) })
	}
}

func bmv2Limits(t *testing.T, b *BMv2) {
	version, err := b.Client.Capabilities(within(t))
	if err != nil || !strings.HasPrefix(version, "1.") {
		t.Errorf("version %q, error %v", version, err)
	}
	limits, err := pipeline.ReadLimits(within(t), b.Client, b.Pipeline.Info)
	if want := (pipeline.Limits{Slots: 4096, Elements: 32}); err != nil || limits != want {
		t.Errorf("limits %+v, error %v; want %+v", limits, err, want)
	}
}

func bmv2Pipelines(t *testing.T, b *BMv2) {
	there, err := b.Client.Pipeline(within(t), p4v1.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE)
	if err != nil {
		t.Fatal(err)
	}
	if got := there.GetCookie().GetCookie(); got != b.Pipeline.Cookie {
		t.Errorf("cookie %#x, pushed was %#x", got, b.Pipeline.Cookie)
	}
	if diff := p4info.Difference(b.Pipeline.Info.Message(), there.GetP4Info()); diff != "" {
		t.Errorf("p4info: %s", diff)
	}
	if pushed, err := b.Client.EnsurePipeline(within(t), b.Pipeline, true); err != nil || pushed {
		t.Errorf("the same pipeline again: pushed %v, error %v", pushed, err)
	}
}

func bmv2Entries(t *testing.T, b *BMv2) {
	c, p := b.Client, b.Pipeline
	first, second := routeOf(t, p, "10.1.0.0/16", 1), routeOf(t, p, "10.1.2.0/24", 2)
	if err := c.Write(within(t), insert(first), insert(second)); err != nil {
		t.Fatal(err)
	}
	if got := routes(t, c, p); len(got) != 2 {
		t.Errorf("%d routes, want 2: %v", len(got), got)
	}
	// One of three is there already: the others are made, and the error says which.
	third := routeOf(t, p, "10.1.3.0/24", 3)
	err := c.Write(within(t), insert(first), insert(third))
	var batch *client.BatchError
	if !errors.As(err, &batch) || len(batch.Errors) != 1 || batch.Errors[0].Index != 0 || batch.Errors[0].Code != codes.AlreadyExists {
		t.Errorf("a route twice: %v", err)
	}
	if err := c.Write(within(t), &p4v1.Update{Type: p4v1.Update_MODIFY, Entity: routeOf(t, p, "10.1.3.0/24", 64)}); err != nil {
		t.Errorf("modify: %v", err)
	}
	if !slices.ContainsFunc(routes(t, c, p), func(e p4info.Entry) bool { return e.Do.Arg("port") == 64 }) {
		t.Errorf("the change is not there: %v", routes(t, c, p))
	}
	var gone []*p4v1.Update
	for _, e := range []*p4v1.Entity{first, second, third} {
		gone = append(gone, &p4v1.Update{Type: p4v1.Update_DELETE, Entity: e})
	}
	if err := c.Write(within(t), gone...); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := c.Write(within(t), gone[0]); !errors.As(err, &batch) || batch.Errors[0].Code != codes.NotFound {
		t.Errorf("delete what is gone: %v", err)
	}
	if got := routes(t, c, p); len(got) != 0 {
		t.Errorf("routes that are left: %v", got)
	}
}

func bmv2Groups(t *testing.T, b *BMv2) {
	group := pipeline.Multicast(77, 1, 2)
	if err := b.Client.Write(within(t), insert(group)); err != nil {
		t.Fatal(err)
	}
	changed := pipeline.Multicast(77, 1, 2, 64)
	if err := b.Client.Write(within(t), &p4v1.Update{Type: p4v1.Update_MODIFY, Entity: changed}); err != nil {
		t.Fatal(err)
	}
	found, err := b.Client.Read(within(t), pipeline.Multicast(77))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d groups, error %v", len(found), err)
	}
	if got := found[0].GetPacketReplicationEngineEntry().GetMulticastGroupEntry().GetReplicas(); len(got) != 3 {
		t.Errorf("the group has %d replicas, want 3: %v", len(got), got)
	}
	if err := b.Client.Write(within(t), &p4v1.Update{Type: p4v1.Update_DELETE, Entity: changed}); err != nil {
		t.Error(err)
	}
}

// bmv2Backup: the lower election id waits, may read but not write, and takes over.
func bmv2Backup(t *testing.T, b *BMv2) {
	backup, err := b.Dial(within(t), client.ElectionID{Low: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := backup.Close(); err != nil {
			t.Error(err)
		}
	}()
	if now, _ := backup.Arbitration(); now.Primary() || now.Status != codes.AlreadyExists {
		t.Errorf("the second client is %v", now)
	}
	entity := routeOf(t, b.Pipeline, "10.9.0.0/16", 1)
	if err := backup.Write(within(t), insert(entity)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a backup writes: %v", err)
	}
	if got := routes(t, backup, b.Pipeline); len(got) != 0 {
		t.Errorf("a backup reads %v", got)
	}
	if _, err := b.Client.Elect(within(t), &client.ElectionID{Low: 3}); err != nil {
		t.Fatalf("step down: %v", err)
	}
	if err := backup.WaitPrimary(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := backup.Write(within(t), insert(entity), &p4v1.Update{Type: p4v1.Update_DELETE, Entity: entity}); err != nil {
		t.Errorf("the new primary writes: %v", err)
	}
	if now, err := b.Client.Elect(within(t), &client.ElectionID{Low: 200}); err != nil || !now.Primary() {
		t.Errorf("take the role back: %v, error %v", now, err)
	}
}

// bmv2Job: its tables are made and taken away as the controller does.
func bmv2Job(t *testing.T, b *BMv2) {
	job := pipeline.Job{
		ID: 7, Generation: 1, Index: 9, Cookie: 0xc00c1e, Key: 0xabcd0000,
		Workers: []pipeline.Worker{
			{Addr: netip.MustParseAddr("10.77.0.1"), Port: 1, Bits: 1}, {Addr: netip.MustParseAddr("10.77.0.2"), Port: 2, Bits: 2},
		},
		Home: netip.MustParseAddrPort("10.77.0.254:9700"), HomePorts: 1, HomePort: 64, HomeMAC: pipeline.MAC{2, 0, 0, 0, 0, 0xfe},
		TorAddr: netip.MustParseAddr("10.77.0.253"), Group: netip.MustParseAddr("239.77.0.1"), MulticastGroup: 1, WorkerPort: 9801,
		Region: &pipeline.Region{Base: 8, Slots: 8, Mode: pipeline.ModePrivate},
	}
	add, err := pipeline.Entries(b.Pipeline.Info, job)
	if err != nil {
		t.Fatal(err)
	}
	remove, err := pipeline.Removal(b.Pipeline.Info, job)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Client.Write(within(t), add...); err != nil {
			t.Fatal(err)
		}
		if err := b.Client.Write(within(t), remove...); err != nil {
			t.Fatal(err)
		}
	}
}

// bmv2Foreign: BMv2 takes a p4info that is not its program's. The client sees
// by the cookie that the pipeline is not its own, and pushes that.
func bmv2Foreign(t *testing.T, b *BMv2) {
	if err := b.Client.Write(within(t), b.groups...); err != nil {
		t.Fatal(err)
	}
	b.groups = nil
	message := proto.CloneOf(b.Pipeline.Info.Message())
	message.Tables[1].Preamble.Name, message.Tables[1].Preamble.Alias = "routes", "routes"
	info, err := p4info.New(message)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := client.NewPipeline(info, b.Pipeline.Device)
	if err != nil {
		t.Fatal(err)
	}
	if foreign.Cookie == b.Pipeline.Cookie {
		t.Error("two pipelines have one cookie")
	}
	if pushed, err := b.Client.EnsurePipeline(within(t), foreign, false); err != nil || !pushed {
		t.Fatalf("another pipeline: pushed %v, error %v", pushed, err)
	}
	if pushed, err := b.Client.EnsurePipeline(within(t), b.Pipeline, false); err != nil || !pushed {
		t.Errorf("the own pipeline again: pushed %v, error %v", pushed, err)
	}
	sums(t, b)
}

// bmv2Restart: a switch that dies ends the session with a reason; a new one is empty, and is programmed again.
func bmv2Restart(t *testing.T, b *BMv2) {
	// From what is not JSON BMv2 does not recover: it takes no pipeline any more, until it is started again.
	broken := b.Pipeline
	broken.Device = []byte("this is not JSON")
	if err := b.Client.Push(within(t), p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT, broken); err == nil {
		t.Error("a configuration that is not JSON was taken")
	}
	if err := b.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.Client.Done():
	case <-within(t).Done():
		t.Fatal("the session did not end with the switch")
	}
	var ended *client.SessionError
	if _, err := b.Client.Capabilities(within(t)); !errors.As(err, &ended) {
		t.Errorf("a call after the end: %v", err)
	}
	if err := b.Client.Close(); err != nil {
		t.Error(err)
	}
	if err := b.Start(within(t)); err != nil {
		t.Fatal(err)
	}
	if there, err := b.Client.Pipeline(within(t), p4v1.GetForwardingPipelineConfigRequest_COOKIE_ONLY); err != nil || there.GetCookie() != nil {
		t.Errorf("a switch that just started has pipeline %v, error %v", there, err)
	}
	if pushed, err := b.Client.EnsurePipeline(within(t), b.Pipeline, true); err != nil || !pushed {
		t.Errorf("pushed %v, error %v", pushed, err)
	}
	sums(t, b)
}
