package client_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	"spillway/p4/client"
	"spillway/p4/pipeline"
	"spillway/p4/v1model"
	"spillway/p4/vectors/rig"
)

// startBMv2 starts a switch with our program, whose session is primary with election id 100.
func startBMv2(t *testing.T) *rig.BMv2 {
	t.Helper()
	if _, err := exec.LookPath(rig.SimpleSwitch); err != nil {
		t.Skipf("%s is not on PATH: it comes with p4lang's package bmv2, or from github.com/p4lang/behavioral-model", rig.SimpleSwitch)
	}
	p, err := client.NewPipeline(pipeline.Software(), v1model.Program)
	if err != nil {
		t.Fatal(err)
	}
	directory, err := os.MkdirTemp("", "bmv2") // the test's own is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	b, err := rig.StartBMv2(deadline(t), directory, p, []uint16{1, 2, 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestBMv2 is the client against a server that is not ours: sessions, pipelines, entries as they come back, errors, counters.
func TestBMv2(t *testing.T) {
	b := startBMv2(t)
	ctx := deadline(t)
	c := b.Client
	if version, err := c.Capabilities(ctx); err != nil || !strings.HasPrefix(version, "1.") {
		t.Errorf("P4Runtime %q, %v", version, err)
	}
	if _, err := c.EnsurePipeline(ctx, b.Pipeline, false); err != nil {
		t.Fatal(err)
	}
	if pushed, err := c.EnsurePipeline(ctx, b.Pipeline, false); pushed || err != nil {
		t.Errorf("the same again: pushed %v, %v", pushed, err)
	}
	job := pipeline.Job{
		ID: 7, Generation: 3, Index: 1, Cookie: 0xdeadbeef, Key: 5,
		Home: netip.MustParseAddrPort("10.77.0.254:9696"), HomePorts: 4, HomePort: 64, HomeMAC: pipeline.MAC{2, 0, 0, 0, 0, 64},
		TorAddr: netip.MustParseAddr("10.77.0.253"), Group: netip.MustParseAddr("239.1.2.3"), MulticastGroup: 1, WorkerPort: 9800,
		Region: &pipeline.Region{Base: 64, Slots: 64, Mode: pipeline.ModeShared},
		Workers: []pipeline.Worker{
			{Addr: netip.MustParseAddr("10.77.0.1"), Port: 1, Bits: 1}, {Addr: netip.MustParseAddr("10.77.0.2"), Port: 2, Bits: 2},
		},
	}
	// A pipeline in the place of another: nothing of that is left to see. (That no copies go to the old group's members is seen by p4/vectors/rig.)
	if err := c.Write(ctx, &p4v1.Update{Type: p4v1.Update_INSERT, Entity: pipeline.Multicast(1, 64)}); err != nil {
		t.Fatal(err)
	}
	again := b.Pipeline
	again.Cookie++
	if pushed, err := c.EnsurePipeline(ctx, again, false); !pushed || err != nil {
		t.Fatalf("another pipeline: pushed %v, %v", pushed, err)
	}
	inserts, err := pipeline.Entries(b.Pipeline.Info, job)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(ctx, inserts...); err != nil {
		t.Fatal(err)
	}
	everything := []*p4v1.Entity{{Entity: &p4v1.Entity_TableEntry{TableEntry: &p4v1.TableEntry{}}}, pipeline.Multicast(0)}
	read := func() []*p4v1.Entity {
		t.Helper()
		found, err := c.Read(ctx, everything...)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(found, func(a, b *p4v1.Entity) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return found
	}
	var want []*p4v1.Entity
	for _, u := range inserts {
		want = append(want, u.GetEntity())
	}
	slices.SortFunc(want, func(a, b *p4v1.Entity) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	// A server need not keep the order of replicas.
	byPort := protocmp.SortRepeated(func(a, b *p4v1.Replica) bool { return string(a.GetPort()) < string(b.GetPort()) })
	if diff := cmp.Diff(want, read(), protocmp.Transform(), byPort); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}

	err = c.Write(ctx, inserts[len(inserts)-1], &p4v1.Update{Type: p4v1.Update_MODIFY, Entity: inserts[len(inserts)-1].GetEntity()})
	var batch *client.BatchError
	if !errors.As(err, &batch) || len(batch.Errors) != 1 || batch.Errors[0].Index != 0 || batch.Errors[0].Name != "member" || batch.Errors[0].Code != codes.AlreadyExists {
		t.Errorf("inserted twice: %v", err)
	}
	limits, err := pipeline.ReadLimits(ctx, c, b.Pipeline.Info)
	if err != nil || limits != (pipeline.Limits{Slots: 4096, Elements: 32}) {
		t.Errorf("limits %+v, %v", limits, err)
	}
	if events, err := pipeline.ReadEvents(ctx, c, b.Pipeline.Info, 1); err != nil || len(events) != len(pipeline.Events()) {
		t.Errorf("events %v, %v", events, err)
	}

	// Another controller with a higher id takes over, and leaves.
	other, err := b.Dial(ctx, client.ElectionID{Low: 200})
	if err != nil {
		t.Fatal(err)
	}
	if now, _ := other.Arbitration(); !now.Primary() {
		t.Errorf("the one with the highest election id is %s", now)
	}
	backup := func(want bool) {
		t.Helper()
		for {
			now, changed := c.Arbitration()
			if now.Primary() != want {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				t.Fatalf("still %s", now)
			}
		}
	}
	backup(true)
	if err := c.Write(ctx, inserts[0]); err == nil {
		t.Error("a backup may write")
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if now, err := c.Elect(ctx, &client.ElectionID{Low: 201}); err != nil || !now.Primary() {
		t.Errorf("%s, %v", now, err)
	}
	removal, err := pipeline.Removal(b.Pipeline.Info, job)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(ctx, removal...); err != nil {
		t.Fatal(err)
	}
	if left := read(); len(left) != 0 {
		t.Errorf("%d entities are left: %v", len(left), left)
	}
	// The death of the switch ends the session.
	if err := b.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := c.Write(ctx, inserts[0]); err == nil {
		t.Error("a switch that is dead takes entries")
	}
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if config, err := b.Client.Pipeline(ctx, p4v1.GetForwardingPipelineConfigRequest_COOKIE_ONLY); config.GetCookie() != nil || err != nil {
		t.Errorf("a switch that has just started has the pipeline %v, %v", config, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
