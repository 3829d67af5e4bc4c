package cluster

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/v3"

	"spillway/appliance/cluster/peer"
)

// How soon somebody who is gone is missed. A process that dies is missed at once, because its connections end.
const (
	// beatEvery is how often a leader's heart beats at each appliance.
	beatEvery = 100 * time.Millisecond
	// silence is after how long without a beat, or its answer, the other side is missed.
	silence = 600 * time.Millisecond
	// lastWord is how long somebody who is missed may take to answer one more question.
	lastWord = 300 * time.Millisecond
	// Between two times that this appliance deposes leaders of one name pass 2 s, then twice as long each time, up to a minute: two that reach etcd and not each
	// other would depose each other for ever.
	leastPatience, mostPatience = 2 * time.Second, time.Minute
)

// guard watches over the leader, while that is another appliance: when its heartbeat is missed and it does not answer, its lease is revoked, so that the election
// need not wait for the lease's end.
func (c *Cluster) guard(ctx context.Context, client *clientv3.Client) error {
	patience, next := map[string]time.Duration{}, map[string]time.Time{}
	var met Leadership // the leader, and when it was first seen here
	var heard time.Time
	for ctx.Err() == nil {
		_, leader, changed := c.view.look()
		if leader.Term != met.Term {
			met, heard = leader, time.Now()
			if leader.Term != 0 {
				// After a start nothing else may tell for a while, and a leader that is cut off from etcd may give orders. An error says that a later one was heard of.
				_ = c.config.Terms.Admit(leader.Term)
			}
		}
		if leader.Term == 0 || leader.Name == c.config.Self.Name {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		pulse := c.config.Terms.Pulse(leader.Term)
		if pulse.Heard.After(heard) {
			heard = pulse.Heard
		}
		broken := !pulse.Beating && !pulse.Heard.IsZero()
		if left := silence - time.Since(heard); left > 0 && !broken {
			timer := time.NewTimer(left)
			select {
			case <-changed:
			case <-pulse.Changed:
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
			continue
		}
		err := c.ask(ctx, leader)
		switch now := time.Now(); {
		case ctx.Err() != nil:
		case err == nil: // it is there, and will be heard again
			heard = now
			if broken && !wait(ctx, beatEvery) {
				return nil
			}
		case now.Before(next[leader.Name]):
			wait(ctx, beatEvery)
		case c.sees(ctx, client) != nil || c.ask(ctx, leader) == nil: // it is this appliance that is missed, or nobody any more
			wait(ctx, beatEvery)
		default:
			c.config.Log.Warn("the leader is missed: its lease is revoked", "leader", leader.Name, "term", leader.Term, "why", err)
			if c.revoke(client, leader.lease) != nil {
				wait(ctx, retryAfter)
				continue
			}
			patience[leader.Name] = min(max(2*patience[leader.Name], leastPatience), mostPatience)
			next[leader.Name] = now.Add(patience[leader.Name])
			heard = now
		}
	}
	return nil
}

// sees asks whether this appliance sees a quorum of etcd. One that is cut off from all others misses the leader too.
func (c *Cluster) sees(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	_, err := client.Get(ctx, c.keys.schema())
	return err
}

// ask asks a leader whether it leads.
func (c *Cluster) ask(ctx context.Context, leader Leadership) error {
	client, err := peer.Dial(leader.Name, leader.Peers, c.config.Identity)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, lastWord)
	defer cancel()
	answer, err := client.Greet(ctx)
	if err != nil {
		return err
	}
	if !answer.GetLeads() || answer.GetTerm() != leader.Term {
		return fmt.Errorf("appliance %s does not lead in term %d: it knows of term %d", leader.Name, leader.Term, answer.GetTerm())
	}
	return nil
}
