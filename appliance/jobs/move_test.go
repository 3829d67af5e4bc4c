package jobs

import (
	"fmt"
	"slices"
	"testing"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/store"
)

// describe is a record as far as the data plane goes by it.
func describe(record *store.Job) string {
	text := fmt.Sprintf("%v", record.Allocation.Places)
	if running := record.Running; running != nil {
		text += fmt.Sprintf(" generation %d cookie %d", record.Generation, running.Cookie)
		for _, home := range running.Homes {
			text += fmt.Sprintf(" %s:%s", home.Node, home.Addr)
		}
	}
	return text
}

// moved waits for the parameters that resume what a worker has.
func (w *worker) moved() *v1.Parameters {
	w.r.t.Helper()
	before := w.params
	p := w.begun()
	for p.Generation == before.Generation { // it called again before the move
		p = w.begun()
	}
	if p.Resumes < before.Generation || p.Generation <= p.Resumes || p.Cookie == before.Cookie || p.Group != before.Group || p.WorkerPort != before.WorkerPort ||
		p.Rank != before.Rank || p.Workers != before.Workers || p.Address != before.Address || len(p.Homes) != len(before.Homes) {
		w.r.t.Errorf("goes on from %v as %v", before, p)
	}
	return p
}

// TestMove has a home die: the job goes on at another, and its workers hear of it, on their calls or when they call again.
func TestMove(t *testing.T) {
	c := newCluster(t, 3, false)
	all := c.run("train", 3)
	job := c.get("train")
	if len(job.Homes) != 1 || len(job.Standby) != 2 {
		t.Fatalf("%v", job)
	}
	first, next := job.Homes[0], job.Standby[0]
	all[2].vanish()
	c.kill(first)
	for _, w := range all[:2] {
		w.moved()
	}
	all[2].resume().moved()
	c.quiet()
	job = c.get("train")
	if job.Homes[0] != next || job.Moves != 1 || job.Generation != 2 || job.Reason != "" || job.State != v1.JobState_JOB_STATE_RUNNING {
		t.Errorf("%v", job)
	}
	if n := c.node(first); n.State != v1.NodeState_NODE_STATE_LOST || n.Reason != "lost: its lease ended" || len(n.Jobs) != 0 {
		t.Errorf("%v", n)
	}
	if n := c.node(next); n.State != v1.NodeState_NODE_STATE_READY || len(n.Jobs) != 1 {
		t.Errorf("%v", n)
	}
}

// TestNodeBack has a node that was given up come back, with all that it had and with nothing: what is old is taken out before it is given anything.
func TestNodeBack(t *testing.T) {
	for name, empty := range map[string]bool{"with its memory": false, "empty": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2, false)
			all := c.run("train", 2)
			first := c.get("train").Homes[0]
			c.kill(first)
			for _, w := range all {
				w.moved()
			}
			if job := c.get("train"); len(job.Standby) != 0 {
				t.Errorf("%v", job)
			}
			c.boot(first, empty)
			c.m.SetNode(c.hosts[first].node)
			c.ready(first)
			c.quiet()
			if job := c.get("train"); job.Generation != 2 || len(job.Standby) != 1 || job.Standby[0] != first {
				t.Errorf("%v", job)
			}
		})
	}
}

// TestMemoryLost has a node's aggregator be loaded anew before anybody noticed: its jobs go on in a new generation.
func TestMemoryLost(t *testing.T) {
	c := newCluster(t, 2, false)
	spec := c.spec("train", 3)
	spec.Quorum = &v1.Quorum{Workers: 2}
	if _, err := c.m.Create(t.Context(), spec, false); err != nil {
		t.Fatal(err)
	}
	all := c.joinAll("train", 3)
	home := c.get("train").Homes[0]
	if c.hosts[home].plane.Jobs()[0].Resumed {
		t.Error("the first generation resumes another")
	}
	c.boot(home, true)
	c.m.SetNode(c.hosts[home].node)
	for _, w := range all {
		w.moved()
	}
	c.quiet()
	if job := c.get("train"); job.Homes[0] != home || job.Generation != 2 || job.Moves != 1 {
		t.Errorf("%v", job)
	}
	if !c.hosts[home].plane.Jobs()[0].Resumed {
		t.Error("the home does not know that it has no memory of what was released")
	}
}

// TestTakeover has another Manager take over, with all nodes and with one that is gone.
func TestTakeover(t *testing.T) {
	c := newCluster(t, 3, false)
	var all [][]*worker
	for _, name := range []string{"one", "two", "three"} {
		all = append(all, c.run(name, 2))
	}
	c.quiet()
	before, jobs := c.state(), c.m.List()
	c.restart()
	c.ready("a", "b", "c")
	c.quiet()
	c.unchanged(before, "the takeover")
	for i, job := range c.m.List() {
		if job.Generation != 1 || job.Moves != 0 || job.Homes[0] != jobs[i].Homes[0] {
			t.Errorf("before %v\nafter %v", jobs[i], job)
		}
	}
	gone := jobs[0].Homes[0]
	if gone == "a" {
		gone = jobs[1].Homes[0]
	}
	c.stop()
	c.hosts[gone].die()
	c.config.Nodes = slices.DeleteFunc(slices.Clone(c.config.Nodes), func(n Node) bool { return n.Name == gone })
	c.start()
	c.quiet()
	for i, workers := range all {
		for _, w := range workers {
			again := w.resume()
			if p := again.begun(); (p.Generation == 2) != (c.get(again.job()).Moves == 1) {
				t.Errorf("job %d: %v", i, p)
			}
		}
	}
	moves := 0
	for _, job := range c.m.List() {
		moves += int(job.Moves)
		if job.Homes[0] == gone {
			t.Errorf("%v", job)
		}
	}
	if moves != 1 {
		t.Errorf("%d moves", moves)
	}
}
