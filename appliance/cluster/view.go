package cluster

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3"
)

// Seen is a member that has registered.
type Seen struct {
	Member
	// Incarnation is another one each time that it registers anew; lease is the one that keeps it there.
	Incarnation int64
	lease       clientv3.LeaseID
}

// Leadership is who leads.
type Leadership struct {
	Member
	// Term is the revision at which it was elected; 0: nobody leads.
	Term  uint64
	Since time.Time
	lease clientv3.LeaseID
}

// view is the cluster as etcd has it, as far as is known here. It is replaced as a whole: what it returned does not change.
type view struct {
	mu      sync.Mutex
	members map[string]Seen
	known   map[string]Member // those that ever registered, too
	leader  Leadership
	changed chan struct{}
}

func newView() *view {
	return &view{changed: make(chan struct{}), leader: Leadership{Since: time.Now()}}
}

// look is what is known, and a channel that is closed when it changes.
func (v *view) look() (members map[string]Seen, leader Leadership, changed <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.members, v.leader, v.changed
}

func (v *view) ever() map[string]Member {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.known)
}

func (v *view) set(members map[string]Seen, known map[string]Member, leader Leadership) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if leader.Term == v.leader.Term {
		leader.Since = v.leader.Since
	}
	v.members, v.known, v.leader = members, known, leader
	close(v.changed)
	v.changed = make(chan struct{})
}

// follow keeps the view until ctx ends or etcd does not answer any more.
func (v *view) follow(ctx context.Context, client *clientv3.Client, keys keys) error {
	for {
		revision, err := v.read(ctx, client, keys)
		if err != nil {
			return err
		}
		watching, stop := context.WithCancel(ctx)
		changes := client.Watch(clientv3.WithRequireLeader(watching), keys.prefix, clientv3.WithPrefix(), clientv3.WithRev(revision+1))
		err = v.await(ctx, changes, keys)
		stop()
		if err != nil {
			return err
		}
	}
}

// await waits for a change of what a view has; jobs are none.
func (v *view) await(ctx context.Context, changes clientv3.WatchChan, keys keys) error {
	for {
		select {
		case answer, ok := <-changes:
			if !ok {
				return fmt.Errorf("the watch of etcd ended: %w", context.Cause(ctx))
			}
			if err := answer.Err(); err != nil {
				return fmt.Errorf("the watch of etcd: %w", err)
			}
			for _, event := range answer.Events {
				if keys.seen(string(event.Kv.Key)) {
					return nil
				}
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// read takes a new view, and returns the revision that it is of.
func (v *view) read(ctx context.Context, client *clientv3.Client, keys keys) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	answer, err := client.Txn(ctx).Then(
		clientv3.OpGet(keys.members(), clientv3.WithPrefix()),
		clientv3.OpGet(keys.known(), clientv3.WithPrefix()),
		clientv3.OpGet(keys.election()+"/", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(1)),
	).Commit()
	if err != nil {
		return 0, fmt.Errorf("read the members from etcd: %w", err)
	}
	members, known, leader := map[string]Seen{}, map[string]Member{}, Leadership{Since: time.Now()}
	for _, kv := range answer.Responses[0].GetResponseRange().GetKvs() {
		m, err := parseMember(string(kv.Key), kv.Value)
		if err != nil {
			return 0, err
		}
		members[m.Name] = Seen{Member: m, Incarnation: kv.Lease, lease: clientv3.LeaseID(kv.Lease)}
	}
	for _, kv := range answer.Responses[1].GetResponseRange().GetKvs() {
		m, err := parseMember(string(kv.Key), kv.Value)
		if err != nil {
			return 0, err
		}
		known[m.Name] = m
	}
	for _, kv := range answer.Responses[2].GetResponseRange().GetKvs() {
		m, err := parseMember(string(kv.Key), kv.Value)
		if err != nil {
			return 0, err
		}
		leader = Leadership{Member: m, Term: uint64(kv.CreateRevision), Since: time.Now(), lease: clientv3.LeaseID(kv.Lease)}
	}
	v.set(members, known, leader)
	return answer.Header.GetRevision(), nil
}
