package rack

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"spillway/appliance/refusal"
)

// A tor is the ToR of a rack: its namespace, whose interfaces are its ports, and the process in it. What it holds is the daemon's business.
type tor struct {
	config    Tor
	elements  int
	namespace *namespace
	// management is an end of the management link that is not where a daemon is.
	management end
	watching   sync.WaitGroup // of the goroutines that wait for the process's end
	failed     chan<- error   // why it ended by itself, which happens once at most
	ended      atomic.Bool    // it did

	mu      sync.Mutex // guards process; held while one is started
	process *Process
}

// newTor makes the ToR's namespace. Its ports come with the hosts' links, and the process when they are there.
func newTor(config *Config, failed chan<- error) (*tor, error) {
	in, err := newNamespace("the ToR")
	if err != nil {
		return nil, err
	}
	return &tor{config: config.Tor, elements: config.Elements, namespace: in, failed: failed}, nil
}

// startTor starts the process.
func (r *Rack) startTor(ctx context.Context) error {
	r.tor.mu.Lock()
	defer r.tor.mu.Unlock()
	if err := r.tor.launch(ctx, r.torPorts()); err != nil {
		return fmt.Errorf("start the ToR: %w", err)
	}
	return nil
}

// RebootTor kills the ToR's process without warning, starts it again, and waits until the daemon has told it all that it should know. What it
// held is lost.
func (r *Rack) RebootTor(ctx context.Context) error {
	t := r.tor
	if t == nil {
		return errors.New("reboot the ToR: the rack has none")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// The daemon adds up what ToRs counted that are gone, as far as it knows it: this is the last look. One that is restarted at this moment
	// has forgotten it anyway.
	_, err := r.listCounters(ctx, "")
	if refused := refusal.Of(err); err != nil && (refused == nil || refused.Code != codes.Unavailable) {
		return fmt.Errorf("reboot the ToR: last look at its counters: %w", err)
	}
	killed := time.Now()
	t.process.Kill()
	if err := t.launch(ctx, r.torPorts()); err != nil {
		return fmt.Errorf("reboot the ToR: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, daemonPatience, fmt.Errorf("the ToR is not ready after %v", daemonPatience))
	defer cancel()
	if err := r.operator().awaitSwitch(ctx, killed); err != nil {
		return fmt.Errorf("reboot the ToR: %w", err)
	}
	return nil
}

// launch starts the kind of ToR that the rack is to have; t.mu is held.
func (t *tor) launch(ctx context.Context, ports []torPort) (err error) {
	var p *Process
	if t.config.Kind == TorBMv2 {
		p, err = t.launchBMv2(ports)
	} else {
		p, err = t.launchSoft(ctx, ports)
	}
	if err != nil {
		return err
	}
	t.process = p
	t.watching.Go(func() {
		<-p.done
		if !p.stopped.Load() {
			t.ended.Store(true)
			t.failed <- fmt.Errorf("the ToR ended by itself: %w", errors.Join(ErrEnded, p.err))
		}
	})
	return nil
}

// A torPort is an interface of the ToR's namespace and the number that P4 gives it.
type torPort struct {
	Number    uint16
	Interface string
}

// torPorts are all ports of the rack's ToR.
func (r *Rack) torPorts() []torPort {
	var ports []torPort
	for _, a := range r.appliances {
		ports = append(ports, torPort{torAppliancePort(a.index), a.link[len(a.link)-1].far.name})
	}
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
	if t.process != nil {
		err := t.process.Stop()
		t.watching.Wait()
		if told := t.ended.Load() && len(t.failed) == 0; !told {
			all = append(all, err)
		}
	}
	return errors.Join(append(all, t.namespace.close())...)
}
