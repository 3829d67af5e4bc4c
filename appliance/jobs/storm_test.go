package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/ledger"
	"spillway/appliance/refusal"
	"spillway/xdp"
)

// TestStorm does everything at once, at random, and with failures, and then looks for what was left behind.
func TestStorm(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := newRig(t, true, func(c *Config) {
		c.Patience = 5 * time.Millisecond
		c.Ledger = ledger.Config{Slots: xdp.DefaultSlots, Groups: c.Ledger.Groups, FirstWorkerPort: 9800, LastWorkerPort: 9803, SharedSlots: 64}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var all sync.WaitGroup
	name := func(random *rand.Rand) string { return fmt.Sprintf("job-%d", random.IntN(5)) }
	check := func(what string, err error) {
		if err != nil && refusal.Of(err) == nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for n := range 4 { // operators
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		all.Go(func() {
			for ctx.Err() == nil {
				switch random.IntN(6) {
				case 0, 1:
					_, err := r.m.Create(ctx, r.spec(name(random), 1+random.IntN(3)), random.IntN(4) == 0)
					check("create", err)
				case 2:
					_, err := r.m.Delete(ctx, name(random), random.IntN(2) == 0)
					check("delete", err)
				case 3:
					_, err := r.m.Drain(ctx, name(random))
					check("drain", err)
				case 4:
					r.clock.advance(time.Minute)
					r.m.sweep(ctx)
				case 5:
					r.failNext([]string{"put", "delete", "add", "remove", "await"}[random.IntN(5)], 1+random.IntN(3))
				}
			}
		})
	}
	for n := range 30 { // workers
		random := rand.New(rand.NewPCG(seed, uint64(100+n)))
		all.Go(func() {
			for ctx.Err() == nil {
				r.stormyWorker(ctx, random, name(random), check)
			}
		})
	}
	all.Wait()
	r.mu.Lock()
	clear(r.fail)
	r.mu.Unlock()
	for _, job := range r.m.List() {
		if job.Present != 0 {
			t.Errorf("nobody is there, and yet: %v", job)
		}
	}
	before := r.state()
	r.restart()
	after := r.state()
	if before.Account != after.Account {
		t.Errorf("the account before the restart %s, after %s", before.Account, after.Account)
	}
	for _, job := range r.m.List() {
		if _, err := r.m.Delete(t.Context(), job.Spec.Name, true); err != nil {
			t.Error(err)
		}
	}
	if s := r.state(); len(s.Maps)+len(s.Store)+len(s.Tor) != 0 || r.m.Capacity().Jobs.Used+r.m.Capacity().MemoryBytes.Used+r.m.Capacity().TorSlots.Used != 0 {
		t.Errorf("left behind: %+v", s)
	}
}

// stormyWorker joins, and goes in one of the ways there are.
func (r *rig) stormyWorker(ctx context.Context, random *rand.Rand, job string, check func(string, error)) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(50))*time.Millisecond)
	defer cancel()
	request := &v1.JoinRequest{Job: job, Rank: uint32(random.IntN(3)), Address: workerAddr(random.IntN(3)).String()}
	way := random.IntN(3)
	var left sync.WaitGroup
	defer left.Wait()
	for range 2 {
		var part *v1.Resume
		err := r.m.Join(ctx, request, func(u *v1.JoinResponse) error {
			if p := u.GetParameters(); p != nil {
				part = &v1.Resume{Generation: p.Generation, Cookie: p.Cookie}
				switch way {
				case 0:
					left.Go(func() {
						check("leave", r.m.Leave(context.WithoutCancel(ctx), &v1.LeaveRequest{Job: job, Rank: request.Rank, Part: part}))
					})
				case 1:
					return context.Canceled // the connection breaks
				}
			}
			return nil
		})
		check("join", err)
		if request.Resume = part; part == nil {
			return
		}
	}
}
