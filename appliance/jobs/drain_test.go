package jobs

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/xdp"
)

// TestDrainNode has all that is at a node move, and nothing come back before it is undrained, also after a restart.
func TestDrainNode(t *testing.T) {
	c := newCluster(t, 3, false)
	running := c.run("running", 2)
	home := c.get("running").Homes[0]
	c.create("waiting", 2)
	c.create("more", 2)
	c.create("fourth", 2)
	want := c.node(home).Jobs
	moved, err := c.m.DrainNode(t.Context(), home)
	if err != nil || !slices.Equal(moved, want) || len(moved) < 2 {
		t.Fatalf("moved %v of %v, %v", moved, want, err)
	}
	if n := c.node(home); n.State != v1.NodeState_NODE_STATE_DRAINED || len(n.Jobs) != 0 {
		t.Errorf("%v", n)
	}
	for _, w := range running {
		w.moved()
	}
	c.quiet()
	c.create("later", 2)
	c.restart()
	c.become("drained", v1.NodeState_NODE_STATE_DRAINED, home)
	c.ready(slices.DeleteFunc([]string{"a", "b", "c"}, func(name string) bool { return name == home })...)
	c.create("later-still", 2)
	if moved, err := c.m.DrainNode(t.Context(), home); err != nil || len(moved) != 0 {
		t.Errorf("again: %v, %v", moved, err)
	}
	if err := c.m.UndrainNode(home); err != nil {
		t.Fatal(err)
	}
	c.ready(home)
	c.joinAll("later", 2)
	c.quiet()
	if c.create("last", 2); len(c.node(home).Jobs) != 1 {
		t.Errorf("%v", c.node(home))
	}
	_, err = c.m.DrainNode(t.Context(), "x")
	refused(t, err, codes.NotFound, refusal.NoSuchNode, `no node "x"`)
	refused(t, c.m.UndrainNode("x"), codes.NotFound, refusal.NoSuchNode, `no node "x"`)
}

// TestDrainRefused has the others lack room for all of it: then nothing moves.
func TestDrainRefused(t *testing.T) {
	slots := xdp.Slots{16, 16, 64, 16}
	c := newCluster(t, 2, false, func(config *Config) { config.Ledger.Slots = slots })
	for _, name := range []string{"one", "two", "three", "four", "five"} {
		c.run(name, 2)
	}
	c.quiet()
	before := c.state()
	_, err := c.m.DrainNode(t.Context(), "b")
	refused(t, err, codes.ResourceExhausted, refusal.NoRoomToMove, `node "b" stays as it is`, "node a has no run of 16 free slots of 256 elements")
	c.unchanged(before, "the refusal")
	if n := c.node("b"); n.State != v1.NodeState_NODE_STATE_READY {
		t.Errorf("%v", n)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.m.DrainNode(canceled, "b"); err == nil {
		t.Error("drained after the caller had gone")
	}
	c.failNext("drained", 1)
	if _, err := c.m.Delete(t.Context(), "one", true); err != nil {
		t.Fatal(err)
	}
	if _, err := c.m.Delete(t.Context(), "two", true); err != nil {
		t.Fatal(err)
	}
	before = c.state()
	_, err = c.m.DrainNode(t.Context(), "b")
	refused(t, err, codes.Internal, refusal.Storage, `node "b" is as it was`)
	c.unchanged(before, "the failure")
	if _, err := c.m.DrainNode(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	c.quiet()
}
