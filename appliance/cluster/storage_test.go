package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/ledger"
	"spillway/appliance/store"
)

func record(name string, generation uint32) store.Job {
	return store.Job{Spec: &v1.JobSpec{Name: name, Workers: 2}, Allocation: ledger.Allocation{ID: 7}, Created: time.Unix(1, 0).UTC(), Generation: generation}
}

// elected is a storage of a leader that was elected without an election: its key is there.
func elected(t *testing.T, client *clientv3.Client, name string, deposed func()) *Storage {
	t.Helper()
	c := New(Config{Name: "test", Self: Member{Name: name}})
	key := c.keys.election() + "/" + name
	answer, err := client.Put(t.Context(), key, "{}")
	if err != nil {
		t.Fatal(err)
	}
	s := c.newStorage(t.Context(), client, key, answer.Header.GetRevision(), deposed)
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStorage: a storage keeps what package store keeps, and a leader that was deposed changes nothing of it.
func TestStorage(t *testing.T) {
	client := embedded(t).client()
	deposed := 0
	first := elected(t, client, "first", func() { deposed++ })
	for _, name := range []string{"b", "a"} {
		if err := first.Put(record(name, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(first.Put(record("a", 2)), first.Delete("nobody"), first.PutLimits(store.Limits{Slots: 4, Elements: 32}), first.PutDrained([]string{"n"})); err != nil {
		t.Fatal(err)
	}
	second := elected(t, client, "second", func() {})
	if _, err := client.Delete(t.Context(), first.leader); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"put": first.Put(record("c", 1)), "delete": first.Delete("a"), "limits": first.PutLimits(store.Limits{}), "drained": first.PutDrained(nil),
	} {
		if !errors.Is(err, ErrDeposed) {
			t.Errorf("%s by the leader that was deposed: %v", what, err)
		}
	}
	if deposed != 4 {
		t.Errorf("it was told %d times, want 4", deposed)
	}
	jobs, err := second.Jobs()
	if err != nil || len(jobs) != 2 || jobs[0].Name() != "a" || jobs[0].Generation != 2 || jobs[1].Name() != "b" {
		t.Errorf("jobs: %v, %v", jobs, err)
	}
	if limits, known, err := second.Limits(); err != nil || !known || limits != (store.Limits{Slots: 4, Elements: 32}) {
		t.Errorf("limits: %v, %v, %v", limits, known, err)
	}
	if drained, err := second.Drained(); err != nil || !slices.Equal(drained, []string{"n"}) {
		t.Errorf("drained: %v, %v", drained, err)
	}
	if err := errors.Join(second.Delete("a"), second.Put(record("b", 3))); err != nil {
		t.Error(err)
	}
}

// TestLateProposal: a proposal that arrives after a later one of the same leader changes nothing.
func TestLateProposal(t *testing.T) {
	client := embedded(t).client()
	s := elected(t, client, "first", func() {})
	if err := s.Put(record("a", 1)); err != nil {
		t.Fatal(err)
	}
	key := s.keys.job("a")
	before := s.known(key)
	if err := s.Put(record("a", 2)); err != nil {
		t.Fatal(err)
	}
	after := s.known(key)
	s.learn(key, before) // as the first proposal of generation 1 knew it
	if done, err := s.attempt(t.Context(), key, []byte("late"), clientv3.OpPut(key, "late")); done || err != nil {
		t.Errorf("the late one: %v, %v", done, err)
	}
	if s.known(key) != after {
		t.Errorf("it knows of revision %d, want %d", s.known(key), after)
	}
	if jobs, err := s.Jobs(); err != nil || len(jobs) != 1 || jobs[0].Generation != 2 {
		t.Errorf("jobs: %v, %v", jobs, err)
	}
}

// TestMembersDie: while jobs are written, members of etcd are killed one after the other and started again. What was acknowledged is there.
func TestMembersDie(t *testing.T) {
	for name, members := range map[string]func(*testing.T) *quorum{"embedded": embedded, "etcd-server": debian} {
		t.Run(name, func(t *testing.T) {
			q := members(t)
			s := elected(t, q.client(), "first", func() {})
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			wrote, ended := make(chan int, 1<<16), make(chan error, 1)
			go func() {
				for i := 0; ctx.Err() == nil; i++ {
					if err := s.Put(record(fmt.Sprintf("job-%d", i), 1)); err != nil {
						ended <- err
						return
					}
					wrote <- i
				}
				ended <- nil
			}()
			last := -1
			more := func() {
				for target := last + 5; last < target; {
					select {
					case last = <-wrote:
					case err := <-ended:
						t.Fatalf("after job %d: %v", last, err)
					}
				}
			}
			for i := range q.processes {
				more()
				q.kill(i)
				more()
				q.again(i)
				q.await()
			}
			stop()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			for len(wrote) > 0 {
				last = <-wrote
			}
			jobs, err := elected(t, q.client(), "second", func() {}).Jobs()
			if err != nil {
				t.Fatal(err)
			}
			there := map[string]bool{}
			for _, j := range jobs {
				there[j.Name()] = true
			}
			for i := range last + 1 {
				if !there[fmt.Sprintf("job-%d", i)] {
					t.Errorf("job-%d was acknowledged and is lost", i)
				}
			}
		})
	}
}
