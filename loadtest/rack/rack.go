package rack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"

	"spillway/appliance/certs"
	"spillway/loadtest/faults"
)

// A Rack is a set of namespaces joined by links. Its methods are safe for
// concurrent use except Close, which must come last.
type Rack struct {
	config     Config
	sw         *namespace   // the switch; with a ToR, what is between it and the hosts
	bridge     netlink.Link // nil with a ToR
	tor        *tor         // nil without
	appliances []*appliance // at least one
	workers    []*namespace
	server     *namespace       // nil without
	links      []attachment     // of the workers
	forest     *forest          // of several racks; nil of one
	spineLinks []attachment     // of the aggregators of several racks
	injector   *faults.Injector // nil without faults

	authority *certs.Authority // of workers, and of what they call
	nodes     *certs.Authority // of appliances among themselves
	failed    chan error       // of daemons and ToR: one each

	mu        sync.Mutex // guards processes; held for no call that blocks
	processes []*Process
}

// New builds a rack. It needs CAP_SYS_ADMIN (namespaces) and CAP_NET_ADMIN;
// Preflight says beforehand what is missing. Nothing is left when it fails.
func New(ctx context.Context, config Config) (r *Rack, err error) {
	if err := config.setDefaults(); err != nil {
		return nil, err
	}
	r = &Rack{config: config, failed: make(chan error, 1+config.Appliances)}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("build the rack: %w", err), r.Close())
			r = nil
		}
	}()
	if r.authority, err = certs.NewAuthority("a rack", 0); err != nil {
		return r, err
	}
	if r.nodes, err = certs.NewAuthority("a rack's appliances", 0); err != nil {
		return r, err
	}
	if r.sw, err = newNamespace("the switch"); err != nil {
		return r, err
	}
	if config.Racks > 1 {
		if err := r.addRacks(ctx); err != nil {
			return r, err
		}
		return r, r.addFaults()
	}
	if config.Tor.Kind == TorNone {
		if r.bridge, err = makeBridge(r.sw, "rack", config.mtu()); err != nil {
			return r, err
		}
	} else if r.tor, err = newTor(&r.config, r.failed); err != nil {
		return r, err
	}
	for index := range config.Appliances {
		if err := r.addAppliance(index); err != nil {
			return r, err
		}
	}
	for rank := range config.Workers {
		if err := ctx.Err(); err != nil {
			return r, context.Cause(ctx)
		}
		if err := r.addWorker(rank); err != nil {
			return r, err
		}
	}
	if err := r.addServer(); err != nil {
		return r, err
	}
	if err := r.addFaults(); err != nil {
		return r, err
	}
	if err := r.addManagement(); err != nil {
		return r, err
	}
	if r.tor != nil {
		if err := r.startTor(ctx); err != nil {
			return r, err
		}
	}
	return r, r.startDaemons(ctx)
}

// addFaults puts the injector at the workers' ports.
func (r *Rack) addFaults() (err error) {
	if !r.config.Faults.Any() {
		return nil
	}
	if r.config.Faults.TCP {
		if err := r.uncoalesce(); err != nil {
			return err
		}
	}
	if r.injector, err = faults.Load(r.config.Faults); err != nil {
		return err
	}
	for _, joined := range append(slices.Clone(r.links), r.spineLinks...) {
		at := joined.port()
		if err := r.injector.Attach(r.sw.link, at.index, faults.Link{Rate: r.config.Rate, MTU: r.config.mtu()}); err != nil {
			return fmt.Errorf("port %s: %w", at.name, err)
		}
	}
	return nil
}

// uncoalesce keeps TCP's packets single wherever they are on their way to a worker's port.
func (r *Rack) uncoalesce() error {
	joined := slices.Clone(r.links)
	for _, a := range r.appliances {
		joined = append(joined, a.link)
	}
	for _, hops := range joined {
		if at := hops.port(); at.in == r.sw { // a port of the ToR has XDP, below GRO
			if err := uncoalesced(at); err != nil {
				return err
			}
		}
		for _, second := range hops[1:] {
			if err := uncoalesced(second.near); err != nil {
				return err
			}
		}
	}
	return nil
}

// SetFaults replaces the faults that are injected, from now on; the zero value is none. The rack must have Hooks, or faults from the beginning, and
// nothing that is to come late. Their counters begin again.
func (r *Rack) SetFaults(rates faults.Rates) (err error) {
	switch {
	case !r.config.singly():
		return errors.New("change the faults: the rack was built without hooks for them")
	case rates.Reorder > 0 || r.config.Faults.Reorder > 0:
		return errors.New("change the faults: a detour for packets that come late cannot be changed")
	}
	if r.injector != nil {
		for _, joined := range append(slices.Clone(r.links), r.spineLinks...) {
			if err := r.injector.Detach(r.sw.link, joined.port().index); err != nil {
				return err
			}
		}
		if err := r.injector.Close(); err != nil {
			return err
		}
		r.injector = nil
	}
	r.config.Faults = rates
	return r.addFaults()
}

// Workers is the number of workers.
func (r *Rack) Workers() int { return len(r.workers) }

// Faults counts what was injected so far, over all workers; zeros without faults.
func (r *Rack) Faults() (faults.Counters, error) {
	if r.injector == nil {
		return faults.Counters{}, nil
	}
	return r.injector.Counters()
}

// InWorker runs f on a thread that is in the namespace of the worker with this
// rank: sockets it opens are that worker's.
func (r *Rack) InWorker(rank int, f func() error) error { return r.workers[rank].do(f) }

// InHome runs f on a thread that is in the first aggregator's namespace.
func (r *Rack) InHome(f func() error) error { return r.home().host.do(f) }

// Close stops all processes and removes the rack. It returns how processes
// ended that Stop was not called for and that did not end well.
func (r *Rack) Close() error {
	var all []error
	all = append(all, r.stopProcesses())
	for _, a := range r.appliances {
		all = append(all, a.close())
	}
	all = append(all, r.tor.close(), r.forest.close())
	if r.injector != nil {
		all = append(all, r.injector.Close())
	}
	for _, n := range append([]*namespace{r.sw, r.server}, r.workers...) {
		if n != nil {
			all = append(all, n.close())
		}
	}
	return errors.Join(all...)
}

// stopProcesses stops all at once: each may take its time to end.
func (r *Rack) stopProcesses() error {
	r.mu.Lock()
	processes := r.processes
	r.processes = nil
	r.mu.Unlock()
	all := make([]error, len(processes))
	var stopping sync.WaitGroup
	for i, p := range processes {
		if p.stopped.Load() {
			continue
		}
		stopping.Go(func() { all[i] = p.Stop() })
	}
	stopping.Wait()
	return errors.Join(all...)
}
