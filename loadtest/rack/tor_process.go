package rack

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"spillway/p4/client"
	"spillway/p4/p4info"
	"spillway/p4/pipeline"
	"spillway/worker"
)

// A tor is the ToR of a rack: its namespace, whose interfaces are its ports, the process in it, and what it is to hold, so that
// it can be told again after a reboot.
type tor struct {
	config    Tor
	elements  int
	info      *p4info.Info
	namespace *namespace
	hosts     []pipeline.Host
	regions   *regions
	watching  sync.WaitGroup // of the goroutines that wait for the process's end
	failed    chan error     // why it ended by itself, which happens once at most
	ended     atomic.Bool    // it did

	// dialing guards closed, and is held while a connection is made; the last to be taken.
	dialing sync.Mutex
	closed  bool

	mu        sync.Mutex // guards what follows; held while the ToR is talked to
	process   *Process
	election  client.ElectionID // of the last session
	control   controller
	jobs      []torJob
	forgotten map[uint16]TorCounters // of jobs, by ToRs that were rebooted
}

// newTor makes the ToR's namespace. Its ports come with the hosts' links, and the process when they are there.
func newTor(config *Config) (*tor, error) {
	in, err := newNamespace("the ToR")
	if err != nil {
		return nil, err
	}
	return &tor{
		config:    config.Tor,
		elements:  config.Elements,
		info:      torInfo(),
		namespace: in,
		hosts:     torHosts(config.Workers),
		regions:   newRegions(uint32(config.Tor.Slots), config.Tor.Jobs, config.Tor.Shared),
		failed:    make(chan error, 1),
		forgotten: map[uint16]TorCounters{},
	}, nil
}

// startTor starts the process and programs it.
func (r *Rack) startTor(ctx context.Context) error {
	r.tor.mu.Lock()
	defer r.tor.mu.Unlock()
	if err := r.tor.start(ctx, r.torPorts()); err != nil {
		return fmt.Errorf("start the ToR: %w", err)
	}
	return nil
}

// RebootTor kills the ToR's process without warning, starts it again, and tells it all it was told before. What it held is lost.
func (r *Rack) RebootTor(ctx context.Context) error {
	t := r.tor
	if t == nil {
		return errors.New("reboot the ToR: the rack has none")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range t.jobs {
		last, err := t.counters(ctx, j.Index)
		if err != nil {
			return fmt.Errorf("reboot the ToR: last look at its counters: %w", err)
		}
		t.forgotten[j.ID] = t.forgotten[j.ID].plus(last)
	}
	t.process.Kill()
	// The process's end has closed the session; what that says is no news.
	_ = t.control.Close()
	t.control = nil
	if err := t.start(ctx, r.torPorts()); err != nil {
		return fmt.Errorf("reboot the ToR: %w", err)
	}
	return nil
}

// start starts the process, connects to it and writes all tables; t.mu is held.
func (t *tor) start(ctx context.Context, ports []torPort) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, torPatience, fmt.Errorf("the ToR is not ready after %v", torPatience))
	defer cancel()
	if t.process, err = t.launch(ctx, ports); err != nil {
		return err
	}
	if t.control, err = t.connect(ctx); err != nil {
		return err
	}
	if err := t.checkLimits(ctx, t.elements); err != nil {
		return err
	}
	return t.program(ctx)
}

// launch starts the kind of ToR that the rack is to have.
func (t *tor) launch(ctx context.Context, ports []torPort) (p *Process, err error) {
	if t.config.Kind == TorBMv2 {
		p, err = t.launchBMv2(ports)
	} else {
		p, err = t.launchSoft(ctx, ports)
	}
	if err != nil {
		return nil, err
	}
	t.watching.Go(func() {
		<-p.done
		if !p.stopped.Load() {
			t.ended.Store(true)
			t.failed <- fmt.Errorf("the ToR ended by itself: %w", errors.Join(ErrEnded, p.err))
		}
	})
	return p, nil
}

// TorFailed gives the reason when the ToR's process has ended that nobody stopped. It is nil without a ToR.
func (r *Rack) TorFailed() <-chan error {
	if r.tor == nil {
		return nil
	}
	return r.tor.failed
}

// A torPort is an interface of the ToR's namespace and the number that P4 gives it.
type torPort struct {
	Number    uint16
	Interface string
}

// torPorts are all ports of the rack's ToR.
func (r *Rack) torPorts() []torPort {
	ports := []torPort{{torHomePort, r.homeLink[len(r.homeLink)-1].far.name}}
	for rank, joined := range r.links {
		ports = append(ports, torPort{torWorkerPort(rank), joined[len(joined)-1].far.name})
	}
	return ports
}

// close ends the process and drops the namespace.
func (t *tor) close() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []error
	if t.control != nil {
		all = append(all, t.control.Close())
	}
	if t.process != nil {
		err := t.process.Stop()
		t.watching.Wait()
		if told := t.ended.Load() && len(t.failed) == 0; !told {
			all = append(all, err)
		}
	}
	t.dialing.Lock()
	defer t.dialing.Unlock()
	t.closed = true
	return errors.Join(append(all, t.namespace.close())...)
}

// params is what a job's workers must know of the ToR.
func (t *tor) params(job uint16) *worker.TorRegion {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range t.jobs {
		if j.ID == job {
			return &worker.TorRegion{Base: uint16(j.region.Base), Slots: uint16(j.region.Slots), Period: j.region.Period, Offset: uint16(j.region.Offset)}
		}
	}
	return nil
}
