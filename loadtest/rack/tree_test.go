package rack

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"spillway/wire"
	"spillway/worker"
)

// TestTree: two racks of two workers reduce, over sockets and native XDP, while the aggregators of both levels forget what they have, over and over. Every sum is right.
func TestTree(t *testing.T) {
	r, err := New(t.Context(), Config{Racks: 2, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	job := Job{Name: "tree", Window: 32, Silence: 20 * time.Second}
	if err := r.AddJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	invitations, err := r.Invite(job)
	if err != nil {
		t.Fatal(err)
	}
	workers := make([]*worker.Worker, len(invitations))
	for rank, invitation := range invitations {
		err := r.InWorker(rank, func() (err error) {
			workers[rank], err = invitation.Join(t.Context())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer workers[rank].Close()
	}
	const rounds, length = 60, 20_000
	var group errgroup.Group
	for rank, w := range workers {
		group.Go(func() error {
			for round := range rounds {
				x := make([]int32, length)
				for i := range x {
					x[i] = int32((rank + 1) * (round + i))
				}
				if err := w.AllReduceInt32(t.Context(), x, wire.Sum); err != nil {
					return fmt.Errorf("rank %d, round %d: %w", rank, round, err)
				}
				for i := range x {
					if want := int32(10 * (round + i)); x[i] != want {
						return fmt.Errorf("rank %d, round %d, element %d: %d, want %d", rank, round, i, x[i], want)
					}
				}
			}
			return nil
		})
	}
	done := make(chan error, 1)
	go func() { done <- group.Wait() }()
	wipes, tick := 0, time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		case <-tick.C:
			if err := r.WipeNode(wipes % 3); err != nil {
				t.Fatal(err)
			}
			wipes++
		}
	}
	racks, root, err := r.TreeCounters("tree")
	if err != nil {
		t.Fatal(err)
	}
	var resends uint64
	for _, w := range workers {
		resends += w.Stats().Resends
	}
	t.Logf("%d wipes, %d resends, racks %v, root %v", wipes, resends, racks, root)
	if wipes < 3 || resends == 0 || racks["sent_up"] == 0 || root["published"] == 0 {
		t.Errorf("%d wipes, %d resends, racks %v, root %v", wipes, resends, racks, root)
	}
}

// TestTreeRefuses what a job of several racks cannot have.
func TestTreeRefuses(t *testing.T) {
	r := &Rack{config: Config{Racks: 2, Workers: 2, Elements: 256}, forest: &forest{}, workers: make([]*namespace, 4)}
	for want, job := range map[string]Job{
		"cannot have a quorum": {Name: "a", Window: 8, Quorum: 3},
		"is not elastic":       {Name: "a", Window: 8, MinWorkers: 2},
		"by multicast":         {Name: "a", Window: 8, Unicast: true},
		"runs on all 4":        {Name: "a", Window: 8, Hosts: []int{0, 1}},
	} {
		if err := r.AddJob(t.Context(), job); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	for want, config := range map[string]Config{
		"1 to 64 racks":       {Workers: 1, Racks: 65},
		"one aggregator each": {Workers: 1, Racks: 2, Appliances: 2},
		"no limit to its":     {Workers: 1, Racks: 2, HomeRate: 1e9},
	} {
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
