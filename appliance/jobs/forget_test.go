package jobs

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

// TestForgetNode: an appliance is struck out when it is gone and nothing has a place there, with the mark that it was drained, also after a restart.
func TestForgetNode(t *testing.T) {
	c := newCluster(t, 3, false)
	listed := func() (names []string) {
		for _, n := range c.m.Nodes() {
			names = append(names, n.GetName())
		}
		return names
	}
	refused(t, c.m.ForgetNode("x"), codes.NotFound, refusal.NoSuchNode, `no node "x"`)
	refused(t, c.m.ForgetNode("b"), codes.FailedPrecondition, refusal.NodeInUse, `node "b" is there`)
	if _, err := c.m.DrainNode(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	refused(t, c.m.ForgetNode("b"), codes.FailedPrecondition, refusal.NodeInUse, `node "b" is there`)
	c.kill("b")
	c.failNext("drained", 1)
	refused(t, c.m.ForgetNode("b"), codes.Internal, refusal.Storage, `node "b" is still drained`)
	if err := c.m.ForgetNode("b"); err != nil {
		t.Fatal(err)
	}
	refused(t, c.m.ForgetNode("b"), codes.NotFound, refusal.NoSuchNode, `no node "b"`)
	if drained, err := c.m.store.Drained(); err != nil || len(drained) != 0 || !slices.Equal(listed(), []string{"a", "c"}) {
		t.Errorf("listed %v, drained %v, %v", listed(), drained, err)
	}
	c.create("train", 2)
	c.joinAll("train", 2)
	c.quiet()
	c.boot("b", true)
	c.m.SetNode(c.config.Nodes[slices.IndexFunc(c.config.Nodes, func(n Node) bool { return n.Name == "b" })])
	c.ready("b") // and not drained
}

// TestForgetHomed: what has a place at an appliance that is lost keeps it known.
func TestForgetHomed(t *testing.T) {
	c := newCluster(t, 1, false)
	c.run("train", 2)
	c.kill("a")
	c.become("lost", v1.NodeState_NODE_STATE_LOST, "a")
	refused(t, c.m.ForgetNode("a"), codes.FailedPrecondition, refusal.NodeInUse, `node "a" is lost`, "train")
}
