package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"golang.org/x/sync/errgroup"

	"spillway/appliance/cluster/etcd"
	"spillway/appliance/cluster/peer"
)

// Config is what a Cluster must be told.
type Config struct {
	// Name is the cluster's, Self is this appliance.
	Name string
	Self Member
	Etcd etcd.Config
	// Identity is what this appliance calls the others with, Terms what it knows of leaders.
	Identity *peer.Identity
	Terms    *peer.Terms
	// Health says whether workers reach this appliance's data plane, why not, and when that changes.
	Health func() (healthy bool, reason string, changed <-chan struct{})
	// Lead is called while this appliance leads, and must return soon after ctx ends. When it returns by itself, the appliance steps down, and may be elected again.
	Lead func(ctx context.Context, term *Term) error
	Log  *slog.Logger
}

const (
	// leaseSeconds is when etcd itself takes an appliance for dead. Heartbeats notice far sooner; it only must not end because a disk is slow.
	leaseSeconds = 5
	// again is how long to wait after something failed.
	again = 250 * time.Millisecond
	// reluctance is how long an appliance that workers do not reach lets others be elected first.
	reluctance = 2 * time.Second
)

// Cluster is an appliance's part in its cluster. Its methods may be called from several goroutines at once.
type Cluster struct {
	config Config
	keys   keys
	view   *view
	took   atomic.Int64

	mu      sync.Mutex // guards what follows
	etcd    *etcd.Etcd // nil: not open yet
	trouble string     // why this appliance has no part in the cluster right now; empty: it has
	since   time.Time  // trouble is what it is
	// toLeader is a connection to the leader of leaderTerm.
	toLeader   *peer.Client
	leaderTerm uint64
}

// New is a part in a cluster that Run takes.
func New(config Config) *Cluster {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Cluster{config: config, keys: keysOf(config.Name), view: newView(), trouble: "etcd was not reached yet", since: time.Now()}
}

// Term is the time for which this appliance leads.
type Term struct {
	// Number is above that of every leader before.
	Number uint64
	// Storage is where the jobs are, as long as the term lasts.
	Storage *Storage

	cluster *Cluster
	session *concurrency.Session
	end     context.CancelCauseFunc
}

// StepDown ends the term.
func (t *Term) StepDown(why error) { t.end(why) }

// Run takes part until ctx ends.
func (c *Cluster) Run(ctx context.Context) error {
	way, err := c.open(ctx)
	if err != nil {
		return err
	}
	if way == nil {
		return nil
	}
	defer c.closeLeader()
	defer func() {
		if err := way.Close(); err != nil {
			c.config.Log.Warn("the way to etcd did not end in order", "error", err)
		}
	}()
	var parts errgroup.Group
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts.Go(func() error {
		select {
		case err := <-way.Failed():
			err = fmt.Errorf("the member of etcd in the daemon ended: %w", err)
			cancel(err)
			return err
		case <-ctx.Done():
			return nil
		}
	})
	ended := make(chan struct{})
	go func() { // ends soon after the parts
		<-ctx.Done()
		patience := time.NewTimer(attemptTimeout)
		defer patience.Stop()
		select {
		case <-ended:
		case <-patience.C: // the election's own way out waits for etcd without a bound
			_ = way.HangUp() // which Close says
		}
	}()
	defer close(ended)
	parts.Go(func() error { return c.retry(ctx, func() error { return c.view.follow(ctx, way.Client, c.keys) }) })
	parts.Go(func() error { return c.guard(ctx, way.Client) })
	parts.Go(func() error { return c.retry(ctx, func() error { return c.attend(ctx, way.Client) }) })
	return parts.Wait()
}

// open opens the way to etcd, as often as it takes: a member that joins others needs them.
func (c *Cluster) open(ctx context.Context) (*etcd.Etcd, error) {
	for {
		way, err := etcd.Open(c.config.Etcd)
		if err == nil {
			c.mu.Lock()
			c.etcd = way
			c.mu.Unlock()
			return way, nil
		}
		c.troubled(err)
		if !wait(ctx, 4*again) {
			return nil, nil
		}
	}
}

// retry does something again and again until ctx ends.
func (c *Cluster) retry(ctx context.Context, f func() error) error {
	for {
		err := f()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			c.troubled(err)
		}
		if !wait(ctx, again) {
			return nil
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// troubled notes why this appliance has no part in the cluster; nil: it has.
func (c *Cluster) troubled(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if (text == "") != (c.trouble == "") {
		c.since = time.Now()
		if err != nil {
			c.config.Log.Warn("no part in the cluster", "error", err)
		} else {
			c.config.Log.Info("a part in the cluster", "cluster", c.config.Name)
		}
	}
	c.trouble = text
}

// attend registers this appliance and stands for election, for as long as one lease lasts.
func (c *Cluster) attend(ctx context.Context, client *clientv3.Client) error {
	if err := c.depart(ctx, client); err != nil {
		return err
	}
	granting, granted := context.WithTimeout(ctx, writeTimeout)
	lease, err := client.Grant(granting, leaseSeconds)
	granted()
	if err != nil {
		return fmt.Errorf("a lease of etcd: %w", err)
	}
	session, err := concurrency.NewSession(client, concurrency.WithLease(lease.ID), concurrency.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("keep a lease of etcd: %w", err)
	}
	defer func() {
		session.Orphan()
		_ = c.revoke(client, session.Lease()) // then it ends by itself
	}()
	if err := c.register(ctx, client, session); err != nil {
		return err
	}
	c.troubled(nil)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() { // ends with the attendance
		select {
		case <-session.Done():
			end(errors.New("the lease in etcd ended"))
		case <-ctx.Done():
		}
	}()
	for {
		if err := c.stand(ctx, client, session); err != nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// depart ends what is left of the daemon that had this part before: if it led, the others need not wait for its lease.
func (c *Cluster) depart(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	answer, err := client.Get(ctx, c.keys.member(c.config.Self.Name))
	if err != nil {
		return fmt.Errorf("read the members from etcd: %w", err)
	}
	if len(answer.Kvs) == 0 {
		return nil
	}
	before, err := parseMember(string(answer.Kvs[0].Key), answer.Kvs[0].Value)
	if err != nil {
		return err
	}
	if before.Peers != c.config.Self.Peers { // nobody else can listen there
		return fmt.Errorf("another appliance, at %s, is called %s: give each a name of its own (name)", before.Peers, before.Name)
	}
	return c.revoke(client, clientv3.LeaseID(answer.Kvs[0].Lease))
}

// revoke ends a lease now. When that fails, it ends by itself.
func (c *Cluster) revoke(client *clientv3.Client, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(context.Background(), attemptTimeout)
	defer cancel()
	_, err := client.Revoke(ctx, lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		err = nil
	}
	if err != nil {
		c.config.Log.Debug("a lease was not revoked: it ends by itself", "lease", lease, "error", err)
	}
	return err
}

// register says that this appliance is there, for as long as the lease is.
func (c *Cluster) register(ctx context.Context, client *clientv3.Client, session *concurrency.Session) error {
	text, err := c.config.Self.text()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	key := c.keys.member(c.config.Self.Name)
	answer, err := client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(
		clientv3.OpPut(key, text, clientv3.WithLease(session.Lease())), clientv3.OpPut(c.keys.knownAs(c.config.Self.Name), text),
	).Commit()
	if err != nil {
		return fmt.Errorf("register in etcd: %w", err)
	}
	if !answer.Succeeded {
		return fmt.Errorf("another appliance has just registered as %s: give each a name of its own (name)", c.config.Self.Name)
	}
	return nil
}

// stand stands for election once, and leads when elected.
func (c *Cluster) stand(ctx context.Context, client *clientv3.Client, session *concurrency.Session) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	text, err := c.config.Self.text()
	if err != nil {
		return err
	}
	election := concurrency.NewElection(session, c.keys.election())
	if err := election.Campaign(ctx, text); err != nil {
		return fmt.Errorf("stand for election: %w", err)
	}
	leading, end := context.WithCancelCause(ctx)
	defer end(nil)
	term := &Term{Number: uint64(election.Rev()), cluster: c, session: session, end: end}
	term.Storage = c.newStorage(leading, client, election.Key(), election.Rev(), func() { end(ErrDeposed) })
	if _, err = c.view.read(leading, client, c.keys); err == nil { // not what was known before the election
		err = c.lead(leading, term)
	}
	if ctx.Err() != nil {
		return err // the lease is revoked, and the part in the election with it
	}
	resigning, resigned := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer resigned()
	if resign := election.Resign(resigning); resign != nil {
		c.config.Log.Debug("the part in the election ends with the lease", "error", resign)
		return errors.Join(err, resign) // with another lease
	}
	return err
}

// ready waits until this appliance should stand for election: at once when workers reach it.
func (c *Cluster) ready(ctx context.Context) error {
	timer := time.NewTimer(reluctance)
	defer timer.Stop()
	for {
		healthy, _, changed := c.config.Health()
		if healthy {
			return nil
		}
		_, leader, moved := c.view.look()
		late := timer.C
		if leader.Term != 0 {
			late = nil
		}
		select {
		case <-changed:
		case <-moved:
			timer.Reset(reluctance)
		case <-late:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lead is one term from its beginning to its end.
func (c *Cluster) lead(ctx context.Context, term *Term) error {
	if err := c.config.Terms.Lead(term.Number); err != nil {
		return err
	}
	defer func() { _ = c.config.Terms.Lead(0) }() // which does not fail
	go c.deposed(ctx, term)                       // ends with the term
	if err := term.Storage.prepare(); err != nil {
		return err
	}
	c.config.Log.Info("leads the cluster", "term", term.Number)
	err := c.config.Lead(ctx, term)
	cause := context.Cause(ctx)
	c.config.Log.Info("leads the cluster no more", "term", term.Number, "why", cause)
	if errors.Is(err, cause) || errors.Is(cause, ErrDeposed) {
		return nil
	}
	return err
}

// deposed ends a term when somebody else has ended it: its key of the election is gone.
func (c *Cluster) deposed(ctx context.Context, term *Term) {
	seen := false
	for {
		_, leader, changed := c.view.look()
		switch {
		case leader.Term == term.Number:
			seen = true
		case leader.Term > term.Number || seen:
			term.end(ErrDeposed)
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
