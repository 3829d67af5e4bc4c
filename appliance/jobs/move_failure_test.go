package jobs

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

// moving is a job of two workers at node a, and node b to go to; c is given when there are three.
func moving(t *testing.T, nodes int, tor bool) (*cluster, []*worker) {
	t.Helper()
	c := newCluster(t, nodes, tor, func(config *Config) { config.Defaults.Tor = v1.TorUse_TOR_USE_NONE })
	spec := c.spec("train", 2)
	if tor {
		spec.Tor = v1.TorUse_TOR_USE_PRIVATE
	}
	if _, err := c.m.Create(t.Context(), spec, false); err != nil {
		t.Fatal(err)
	}
	all := c.joinAll("train", 2)
	if job := c.get("train"); job.Homes[0] != "a" {
		t.Fatalf("%v", job)
	}
	return c, all
}

// TestMoveFails has every step of a move fail, of a job whose home is there until the end and of one whose home is dead. As long as nothing was written down, all is as it was;
// and a further attempt does it.
func TestMoveFails(t *testing.T) {
	for _, step := range []string{"add@b", "path@b", "put", "await"} {
		t.Run("drain, "+step, func(t *testing.T) {
			c, all := moving(t, 2, step == "await")
			before := c.state()
			c.failNext(step, 1)
			moved, err := c.m.DrainNode(t.Context(), "a")
			if step == "await" { // past the ToR, but moved
				if err != nil || len(moved) != 1 {
					t.Fatal(moved, err)
				}
			} else {
				refused(t, err, codes.ResourceExhausted, refusal.NoRoomToMove, `node "a" is not drained yet, job "train" is still there`, "injected")
				c.unchanged(before, "the failure")
				if p := all[0].params; p.Generation != 1 {
					t.Errorf("%v", p)
				}
				c.m.revisit()
			}
			for _, w := range all {
				w.moved()
			}
			c.quiet()
			if job := c.get("train"); job.Homes[0] != "b" || job.Generation != 2 {
				t.Errorf("%v", job)
			}
		})
		t.Run("death, "+step, func(t *testing.T) {
			c, all := moving(t, 2, step == "await")
			c.failNext(step, 1)
			c.kill("a")
			if step != "await" {
				c.until("the failure shows", func() bool { return c.get("train").Reason != "" && c.m.moving("train") == nil })
				c.m.revisit()
			}
			for _, w := range all {
				w.moved()
			}
			c.quiet()
		})
	}
}

// moving is the channel of a job's move.
func (m *Manager) moving(name string) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.jobs[name].moving
}

// TestOldHomeKeeps has the old home not give up the generation before: it is looked at before it is given anything, and again until it has.
func TestOldHomeKeeps(t *testing.T) {
	c, all := moving(t, 2, false)
	c.failNext("remove@a", 1)
	if moved, err := c.m.DrainNode(t.Context(), "a"); err != nil || len(moved) != 1 {
		t.Fatal(moved, err)
	}
	for _, w := range all {
		w.moved()
	}
	c.quiet()
	if jobs := aggregator.Jobs(); len(jobs) != 0 {
		t.Errorf("%v", jobs)
	}
}

// TestNodesDieInAMove has the node that a job moves to die in each step, so that the move is planned again.
func TestNodesDieInAMove(t *testing.T) {
	deaths := map[string]func(h *host){
		"away": func(h *host) { h.die() },
		"mute": func(h *host) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.mute = true
		},
	}
	for name, die := range deaths {
		for _, step := range []string{"path@b", "add@b"} {
			for _, drain := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s at %s, drain %v", name, step, drain), func(t *testing.T) {
					c, all := moving(t, 3, false)
					c.during(step, func() { die(c.hosts["b"]) })
					if drain {
						if moved, err := c.m.DrainNode(t.Context(), "a"); err != nil || len(moved) != 1 {
							t.Fatal(moved, err)
						}
					} else {
						c.kill("a")
					}
					for _, w := range all {
						w.moved()
					}
					if job := c.get("train"); job.Homes[0] != "c" {
						t.Errorf("%v", job)
					}
					c.boot("b", false)
					c.m.revisit()
					c.ready("b")
					c.quiet()
				})
			}
		}
	}
}

// TestDeafNode has a node neither answer nor break the connection: it is given up after a while, or when it is found dead.
func TestDeafNode(t *testing.T) {
	c, all := moving(t, 3, false)
	b := c.hosts["b"]
	reached := make(chan struct{})
	c.during("add@b", func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.deaf = true
		close(reached)
	})
	c.kill("a")
	<-reached
	c.m.LoseNode("b", "its lease ended")
	for _, w := range all {
		w.moved()
	}
	c.quiet()
	if job := c.get("train"); job.Homes[0] != "c" {
		t.Errorf("%v", job)
	}
}

// TestDeathInForming has the home of a generation die while it is formed: it is formed at another.
func TestDeathInForming(t *testing.T) {
	for _, step := range []string{"add@a", "put"} {
		t.Run(step, func(t *testing.T) {
			c := newCluster(t, 2, false)
			c.create("train", 2)
			c.during(step, func() { c.kill("a") })
			all := c.joinAll("train", 2)
			for _, w := range all {
				if w.params.Homes[0].Address == homeOf(0).String() {
					w.moved()
				}
			}
			c.quiet()
			if job := c.get("train"); job.Homes[0] != "b" {
				t.Errorf("%v", job)
			}
		})
	}
}

// TestNoRoom has no node have room for what was homed at a dead one: it waits, and moves when another job is deleted, or a node is back.
func TestNoRoom(t *testing.T) {
	for name, mend := range map[string]func(c *cluster){
		"deletion": func(c *cluster) {
			if _, err := c.m.Delete(context.Background(), "other", true); err != nil {
				c.t.Fatal(err)
			}
		},
		"another node": func(c *cluster) {
			c.hosts["c"].node.Slots = c.config.Ledger.Slots
			c.m.SetNode(c.hosts["c"].node)
		},
		"it is back": func(c *cluster) {
			c.boot("a", false)
			c.m.SetNode(c.hosts["a"].node)
		},
		"it is back empty": func(c *cluster) {
			c.boot("a", true)
			c.m.SetNode(c.hosts["a"].node)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3, false, func(config *Config) {
				config.Ledger.Slots = [4]uint32{16, 16, 16, 16}
				config.Nodes = config.Nodes[:2]
			})
			all := c.run("train", 2)
			c.run("other", 2)
			c.kill("a")
			c.until("it waits", func() bool { return c.m.moving("train") == nil && c.get("train").Reason != "" })
			if job := c.get("train"); job.State != v1.JobState_JOB_STATE_RUNNING || job.Generation != 1 {
				t.Errorf("%v", job)
			}
			if text := c.get("train").Reason; text != `it waits for a place: no node can take job "train": node a is lost: its lease ended; node b has no run of 16 free slots of 256 elements` {
				t.Error(text)
			}
			mend(c)
			if name != "it is back" {
				for _, w := range all {
					w.moved()
				}
			}
			c.quiet()
			if job := c.get("train"); job.Reason != "" {
				t.Errorf("%v", job)
			}
		})
	}
}
