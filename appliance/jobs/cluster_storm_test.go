package jobs

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/ledger"
	"spillway/appliance/refusal"
	"spillway/xdp"
)

var stormSeed = flag.Uint64("storm-seed", 0, "seed of the storm over several nodes; 0: a random one")

// TestClusterStorm does everything at once, at random, to several nodes: they die with their memory and without, come back, do not answer for a while, refuse a step, are
// drained and undrained, and another Manager takes over, while jobs are created, joined, left and deleted. In between, when it is quiet, all must be as it should be.
func TestClusterStorm(t *testing.T) {
	seed := *stormSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: go test ./appliance/jobs -run TestClusterStorm -storm-seed %d", seed, seed)
	for _, tor := range []bool{false, true} {
		name := "without a ToR"
		if tor {
			name = "with a ToR"
		}
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 4, tor, func(config *Config) {
				config.Patience, config.NodePatience = 5*time.Millisecond, 20*time.Millisecond
				config.Ledger = ledger.Config{
					Slots: xdp.Slots{64, 64, 64, 64}, Groups: config.Ledger.Groups, FirstWorkerPort: 9800, LastWorkerPort: 9807, SharedSlots: 64,
				}
			})
			random := rand.New(rand.NewPCG(seed, 1))
			steady := c.run("steady", 2)
			for range 6 {
				c.storm(rand.New(rand.NewPCG(random.Uint64(), 2)), 400*time.Millisecond)
				c.calm()
				for _, w := range steady {
					w.follow()
				}
				if random.IntN(2) == 0 {
					c.restart()
					c.calm()
					for i, w := range steady {
						steady[i] = w.resume()
						steady[i].begun()
						steady[i].follow()
					}
				}
			}
			if job := c.get("steady"); job.Moves == 0 || job.Present != 2 {
				t.Errorf("the job whose workers stayed: %v", job)
			}
			for _, job := range c.m.List() {
				if _, err := c.m.Delete(t.Context(), job.Spec.Name, true); err != nil {
					t.Error(err)
				}
			}
			c.quiet()
			if capacity := c.m.Capacity(); capacity.Jobs.Used+capacity.MemoryBytes.Used != 0 {
				t.Errorf("left behind: %v", capacity)
			}
		})
	}
}

// follow reads what a worker was told, until it is in the generation that runs.
func (w *worker) follow() {
	w.r.t.Helper()
	for job := w.r.get(w.job()); w.params.Generation != job.Generation; {
		w.moved()
	}
}

// calm has all nodes be there and nothing fail any more, and waits until all is as it should be.
func (c *cluster) calm() {
	c.t.Helper()
	c.mu.Lock()
	clear(c.fail)
	clear(c.next)
	c.mu.Unlock()
	for _, name := range nodeNames {
		c.boot(name, false)
		c.m.SetNode(c.hosts[name].node)
		if err := c.m.UndrainNode(name); err != nil {
			c.t.Error(err)
		}
	}
	deadline := time.Now().Add(patience)
	for c.settled() != "" && time.Now().Before(deadline) {
		c.m.revisit()
		c.m.rewrite(c.t.Context())
		time.Sleep(5 * time.Millisecond)
	}
	c.quiet()
}

// storm is what happens for a while.
func (c *cluster) storm(random *rand.Rand, d time.Duration) {
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	defer cancel()
	check := func(what string, err error) {
		if err != nil && refusal.Of(err) == nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			c.t.Errorf("%s: %v", what, err)
		}
	}
	name := func(random *rand.Rand) string { return "job-" + string(rune('0'+random.IntN(6))) }
	var all sync.WaitGroup
	start := func(do func(random *rand.Rand)) {
		own := rand.New(rand.NewPCG(random.Uint64(), 3))
		all.Go(func() {
			for ctx.Err() == nil {
				do(own)
			}
		})
	}
	for range 2 {
		start(func(random *rand.Rand) { c.stormyOperator(ctx, random, name(random), check) })
	}
	start(func(random *rand.Rand) {
		c.stormyNode(ctx, random, nodeNames[random.IntN(len(nodeNames))], check)
		time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
	})
	for range 16 {
		start(func(random *rand.Rand) { c.stormyWorker(ctx, random, name(random), check) })
	}
	all.Wait()
}

// stormyOperator does one thing to a job.
func (c *cluster) stormyOperator(ctx context.Context, random *rand.Rand, name string, check func(string, error)) {
	switch random.IntN(8) {
	case 0, 1, 2, 3:
		spec := c.spec(name, 1+random.IntN(3))
		switch random.IntN(3) {
		case 0:
			spec.Shards, spec.Tor = uint32(1+random.IntN(3)), v1.TorUse_TOR_USE_NONE
		case 1:
			if spec.Workers > 1 {
				spec.Quorum = &v1.Quorum{Workers: spec.Workers - 1, MaxLag: 1}
			}
		}
		_, err := c.m.Create(ctx, spec, false)
		check("create", err)
	case 4:
		_, err := c.m.Delete(ctx, name, random.IntN(2) == 0)
		check("delete", err)
	case 5:
		c.m.revisit()
	case 6:
		c.failNext([]string{"put", "delete", "add", "remove", "await", "list", "path", "drained"}[random.IntN(8)], 1+random.IntN(3))
	case 7:
		time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
	}
}

// stormyNode does one thing to a node. That which runs the Manager does not lose its memory, as the Manager would be gone with it.
func (c *cluster) stormyNode(ctx context.Context, random *rand.Rand, name string, check func(string, error)) {
	h := c.hosts[name]
	switch random.IntN(8) {
	case 0:
		c.kill(name)
	case 1:
		h.die() // and nobody notices before it is asked something
	case 2:
		h.mu.Lock()
		h.mute = true
		h.mu.Unlock()
	case 3:
		h.mu.Lock()
		h.deaf = true
		h.mu.Unlock()
	case 4:
		c.bootAt(name, random.IntN(2) == 0)
		c.m.SetNode(h.node)
	case 5:
		c.bootAt(name, false)
	case 6:
		_, err := c.m.DrainNode(ctx, name)
		check("drain", err)
	case 7:
		check("undrain", c.m.UndrainNode(name))
	}
}

// bootAt is boot, while others may use the aggregator.
func (c *cluster) bootAt(name string, empty bool) {
	h := c.hosts[name]
	if empty {
		for _, job := range h.plane.Jobs() {
			if err := h.plane.RemoveJob(job.ID); err != nil && !errors.Is(err, xdp.ErrNoJob) {
				c.t.Error(err)
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away, h.deaf, h.mute = false, false, false
}

// TestMoveShards has the homes of a job with several shards die one after the other: those that are left share the shards, and go apart again.
func TestMoveShards(t *testing.T) {
	c := newCluster(t, 3, false)
	spec := c.spec("train", 2)
	spec.Shards, spec.Quorum = 2, &v1.Quorum{Workers: 1}
	if _, err := c.m.Create(t.Context(), spec, false); err != nil {
		t.Fatal(err)
	}
	all := c.joinAll("train", 2)
	distinct := func(want int) []string {
		t.Helper()
		job := c.get("train")
		names := slices.Compact(slices.Sorted(slices.Values(job.Homes)))
		if len(job.Homes) != 2 || len(names) != want {
			t.Errorf("want %d homes: %v", want, job)
		}
		return names
	}
	homes := distinct(2)
	for range 2 {
		c.kill(homes[0])
		for _, w := range all {
			w.moved()
		}
		c.quiet()
		homes = slices.Sorted(slices.Values(c.get("train").Homes))
	}
	last := distinct(1)[0]
	if all[0].params.Homes[0].String() != all[0].params.Homes[1].String() {
		t.Errorf("%v", all[0].params)
	}
	for _, name := range nodeNames[:3] {
		if name != last {
			c.boot(name, false)
			c.m.SetNode(c.hosts[name].node)
			c.ready(name)
		}
	}
	if _, err := c.m.DrainNode(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		w.moved()
	}
	c.quiet()
	distinct(2)
}

// TestMovePastTheTor has a job that goes through the ToR move to a node that the ToR does not know, which it goes past the ToR for without its workers
// leaving their group; and to one that it knows, through the ToR again.
func TestMovePastTheTor(t *testing.T) {
	c, all := moving(t, 3, true)
	c.tor.mu.Lock()
	c.tor.strange = homeOf(1)
	c.tor.mu.Unlock()
	if p := all[0].params; p.Group == "" || p.Tor == nil {
		t.Fatalf("%v", p)
	}
	c.kill("a")
	for _, w := range all {
		if p := w.moved(); p.Group == "" || p.Tor != nil || p.Homes[0].Address != homeOf(1).String() {
			t.Errorf("%v", p)
		}
	}
	c.quiet()
	if job := c.get("train"); job.Path != v1.JobPath_JOB_PATH_DIRECT || job.Reason != "past the ToR: the aggregator's address 10.77.0.250 is not among the hosts of the switch in the configuration" {
		t.Errorf("%v", job)
	}
	if job := c.hosts["b"].plane.Jobs()[0]; job.Group.IsValid() {
		t.Errorf("%+v", job)
	}
	c.kill("b")
	for _, w := range all {
		if p := w.moved(); p.Group == "" || p.Tor == nil || p.Homes[0].Address != homeOf(2).String() {
			t.Errorf("%v", p)
		}
	}
	c.quiet()
	if job := c.get("train"); job.Path != v1.JobPath_JOB_PATH_TOR || job.Reason != "" {
		t.Errorf("%v", job)
	}
}
