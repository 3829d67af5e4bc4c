package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"spillway/appliance/cluster"
	"spillway/appliance/cluster/peer"
	"spillway/appliance/config"
	"spillway/appliance/fabric"
	"spillway/appliance/jobs"
	"spillway/appliance/observe"
	"spillway/appliance/stragglers"
	"spillway/p4/client"
)

// reign is what schedules jobs and keeps the ToR: in one appliance of a cluster at a time, and always in one that stands alone.
type reign struct {
	fabric   *fabric.Fabric // nil: there is no ToR
	jobs     *jobs.Manager
	observer *observe.Observer
	tracker  *stragglers.Tracker
}

// newReign brings the jobs back. Of several appliances it is told the term, and where the others are.
func (d *daemon) newReign(storage jobs.Storage, nodes []jobs.Node, alone bool, term uint64, plane observe.Plane) (*reign, error) {
	d.changing.Lock()
	defer d.changing.Unlock()
	c := d.config
	of := jobs.Config{
		Ledger: ledgerConfig(c), Defaults: defaults(c), FirstPort: config.FirstHomePort, Ports: config.HomePorts, HomePorts: c.Aggregator.Ports,
		Self: c.NodeName(), Alone: alone, Events: d.events, Log: d.log, Nodes: nodes, Storage: storage,
	}
	r := &reign{}
	if c.Switch != nil {
		config, err := fabricConfig(c, d.interfaces.list(), d.log, d.events)
		if err != nil {
			return nil, err
		}
		config.Election = client.ElectionID{High: term, Low: c.Switch.Election}
		if r.fabric, err = fabric.New(config); err != nil {
			return nil, fmt.Errorf("switch: %w", err)
		}
		of.Switch, of.TorAddress = r.fabric, c.Switch.Address
	}
	var err error
	if r.jobs, err = jobs.New(of); err != nil { // which closes the storage, also when it fails
		return nil, err
	}
	seen := d.observing
	seen.Plane, seen.Jobs = plane, r.jobs
	if all, of := plane.(*everywhere); of {
		seen.Unknown = all.unknown
	}
	if r.fabric != nil {
		seen.Switch = r.fabric
	}
	r.observer = observe.New(seen)
	r.tracker = stragglers.New(plane, r.jobs, d.events, d.log)
	return r, nil
}

// run runs the parts until ctx ends.
func (r *reign) run(ctx context.Context) error {
	parts, ctx := errgroup.WithContext(ctx)
	run := func(name string, f func(context.Context) error) {
		parts.Go(func() error {
			err := f(ctx)
			if err == nil && ctx.Err() == nil {
				err = errors.New("ended by itself")
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			return err
		})
	}
	if r.fabric != nil {
		run("switch", r.fabric.Run)
		run("switch", r.followSwitch)
	}
	run("jobs", r.jobs.Run)
	run("stragglers", r.tracker.Run)
	return parts.Wait()
}

// followSwitch tells the jobs how the ToR stands, until ctx ends.
func (r *reign) followSwitch(ctx context.Context) error {
	for {
		changed := r.fabric.Changed()
		state, reason := r.fabric.State()
		r.jobs.SwitchChanged(state, reason)
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// lead is a term of this appliance.
func (d *daemon) lead(ctx context.Context, term *cluster.Term) error {
	ruling := &ruling{daemon: d, term: term, everywhere: newEverywhere(d)}
	ctx, stop := context.WithCancel(ctx)
	var running errgroup.Group
	ruling.started = func(r *reign) {
		running.Go(func() error {
			err := r.run(ctx)
			if err != nil {
				term.StepDown(err)
			}
			return err
		})
	}
	err := errors.Join(term.Follow(ctx, ruling), ruling.closed)
	stop()
	return errors.Join(err, running.Wait())
}

// ruling is a leader with those that it leads.
type ruling struct {
	daemon     *daemon
	term       *cluster.Term
	everywhere *everywhere
	reign      *reign
	started    func(*reign)
	closed     error // of the end
}

// node is an appliance as package jobs has it.
func (r *ruling) node(led cluster.Led) jobs.Node {
	n := jobs.Node{Name: led.Name, Slots: led.Slots, MTU: led.MTU, MaxJobs: led.MaxJobs, Rack: led.Rack}
	if led.Client == nil {
		n.Aggregator, n.Paths = r.daemon.terms.Held(r.term.Number, jobs.Local(r.daemon.plane)), &paths{r.daemon.interfaces}
		return n
	}
	of := led.Client.Leader(r.term.Number)
	n.Aggregator, n.Paths = of.Aggregator(), of.Paths()
	return n
}

// Begin implements cluster.Follower.
func (r *ruling) Begin(up []cluster.Led) error {
	var nodes []jobs.Node
	for _, led := range up {
		r.everywhere.set(led.Name, led.Client)
		nodes = append(nodes, r.node(led))
	}
	of, err := r.daemon.newReign(r.term.Storage, nodes, false, r.term.Number, r.everywhere)
	if err != nil {
		return err
	}
	r.everywhere.homes = of.homes
	r.reign = of
	r.started(of)
	r.daemon.seat.now.Store(of)
	return nil
}

// Up implements cluster.Follower.
func (r *ruling) Up(led cluster.Led) {
	r.everywhere.set(led.Name, led.Client)
	r.reign.jobs.SetNode(r.node(led))
}

// Down implements cluster.Follower.
func (r *ruling) Down(name, reason string) {
	r.everywhere.remove(name)
	r.reign.jobs.LoseNode(name, reason)
}

// End implements cluster.Follower.
func (r *ruling) End() {
	if r.reign == nil {
		return
	}
	r.daemon.seat.now.CompareAndSwap(r.reign, nil)
	r.closed = r.reign.jobs.Close()
}

// homes are the appliances that a job is homed at.
func (r *reign) homes(id uint16) []string {
	info, ok := r.jobs.Job(id)
	if !ok {
		return nil
	}
	return info.Job.GetHomes()
}

// clients are the other appliances of a cluster by name.
type clients struct {
	mu sync.Mutex
	of map[string]*peer.Client
}

func (c *clients) set(name string, client *peer.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]*peer.Client{}
	}
	c.of[name] = client
}

func (c *clients) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, name)
}

// get is the client of an appliance; nil and true: it is this one.
func (c *clients) get(name string) (client *peer.Client, there bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	client, there = c.of[name]
	return client, there
}

// others are the clients of the appliances that are there, but for this one.
func (c *clients) others() (all []*peer.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.of {
		if client != nil {
			all = append(all, client)
		}
	}
	return all
}
