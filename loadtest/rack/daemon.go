package rack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/xdp"
)

const (
	// daemonPatience is how long the daemon may take from its start until it answers and, with a ToR, has told that everything.
	daemonPatience = 30 * time.Second
	// lookEvery is how often it is asked meanwhile.
	lookEvery = 20 * time.Millisecond
)

// A daemon is a spillwayd of a rack: a process in its aggregator's namespace, and the connection to it of an operator.
type daemon struct {
	name    string
	command Command
	host    *namespace
	conn    *grpc.ClientConn
	jobs    v1.JobServiceClient
	node    v1.NodeServiceClient
	cluster v1.ClusterServiceClient
	// clustered says that the rack has several.
	clustered bool
	down      atomic.Bool // it was killed, and not started again

	watching sync.WaitGroup // of the goroutines that wait for a process's end
	failed   chan<- error   // why one ended by itself, which is said once at most
	ended    atomic.Bool    // one did

	// dialing guards closed, and is held while a connection is made; the last to be taken.
	dialing sync.Mutex
	closed  bool

	mu      sync.Mutex // guards what follows; held while a process is started
	process *Process
	mode    xdp.Mode
	// endedEarly has the error of the process when it has ended.
	endedEarly chan error
}

// newDaemon prepares an aggregator's host for the daemon: its directory, its certificates, its configuration.
func (r *Rack) newDaemon(a *appliance) (err error) {
	d := &daemon{name: ApplianceName(a.index), command: r.config.Daemon, host: a.host, failed: r.failed, clustered: len(r.appliances) > 1}
	if err := a.host.ownRun(); err != nil {
		return err
	}
	pair, err := r.authority.Issue(r.daemonCertificate(a.index))
	if err != nil {
		return err
	}
	text, err := r.daemonConfig(a.index)
	if err != nil {
		return err
	}
	node, err := r.nodes.Issue(nodeCertificate(a.index))
	if err != nil {
		return err
	}
	err = a.host.do(func() error {
		return errors.Join(pair.Write(daemonDir, daemonTLSName, false), node.Write(nodeDir, nodeTLSName, false), writeConfig(text))
	})
	if err != nil {
		return err
	}
	d.conn, err = grpc.NewClient("passthrough:///spillwayd",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(d.dial),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: lookEvery, Multiplier: 1.5, MaxDelay: 10 * lookEvery}, MinConnectTimeout: time.Second}))
	if err != nil {
		return fmt.Errorf("connect to the daemon: %w", err)
	}
	d.jobs, d.node, d.cluster = v1.NewJobServiceClient(d.conn), v1.NewNodeServiceClient(d.conn), v1.NewClusterServiceClient(d.conn)
	a.daemon = d
	return nil
}

// operator is the daemon that operators' calls go to: the first one that was not killed.
func (r *Rack) operator() *daemon {
	for _, a := range r.appliances {
		if !a.daemon.down.Load() {
			return a.daemon
		}
	}
	return r.home().daemon
}

// dial connects to the daemon's socket, whose path means something on the host's thread only.
func (d *daemon) dial(ctx context.Context, _ string) (conn net.Conn, err error) {
	d.dialing.Lock()
	defer d.dialing.Unlock()
	if d.closed {
		return nil, fmt.Errorf("connect to %s: %w", daemonSocket, net.ErrClosed)
	}
	err = d.host.do(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "unix", daemonSocket)
		return err
	})
	return conn, err
}

// run starts the process.
func (d *daemon) run(more ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.launch(more...)
}

// launch is run; d.mu is held.
func (d *daemon) launch(more ...string) error {
	command := d.command
	command.Args = append(append(append([]string(nil), command.Args...), "run", "--config", daemonConfig), more...)
	command.Foreign, command.End = true, syscall.SIGTERM
	p, err := startProcess(d.host, command)
	if err != nil {
		return err
	}
	d.process, d.endedEarly = p, make(chan error, 1)
	d.down.Store(false)
	early := d.endedEarly
	d.watching.Go(func() {
		<-p.done
		err := fmt.Errorf("the daemon ended by itself: %w", errors.Join(ErrEnded, p.err))
		early <- err
		if !p.stopped.Load() && d.ended.CompareAndSwap(false, true) {
			d.failed <- err
		}
	})
	return nil
}

// ready waits until the process that was started last answers and, with a ToR, has told that everything.
func (d *daemon) ready(ctx context.Context, tor bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answers(ctx, tor)
}

// answers is ready; d.mu is held.
func (d *daemon) answers(ctx context.Context, tor bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, daemonPatience, fmt.Errorf("the daemon is not ready after %v", daemonPatience))
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	go func() { // ends with the wait
		select {
		case err := <-d.endedEarly:
			d.endedEarly <- err
			giveUp(err)
		case <-ctx.Done():
		}
	}()
	err := d.await(ctx, tor)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	}
	return err
}

// await asks until the daemon is ready.
func (d *daemon) await(ctx context.Context, tor bool) error {
	node, err := d.node.GetNode(ctx, &v1.GetNodeRequest{})
	if err != nil {
		return fmt.Errorf("ask the daemon: %w", err)
	}
	for _, at := range node.GetInterfaces() {
		d.mode = xdp.Mode(at.GetMode())
	}
	if d.clustered {
		if err := d.awaitLeader(ctx); err != nil {
			return err
		}
	}
	if !tor {
		return nil
	}
	return d.awaitSwitch(ctx, time.Time{})
}

// awaitLeader asks until an appliance leads, and has this one among those that jobs can be homed at.
func (d *daemon) awaitLeader(ctx context.Context) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		answer, err := d.cluster.ListNodes(ctx, &v1.ListNodesRequest{})
		if err != nil && status.Code(err) != codes.Unavailable {
			return fmt.Errorf("ask the daemon for the cluster: %w", err)
		}
		led, here := false, false
		for _, n := range answer.GetNodes() {
			led = led || n.GetLeader()
			here = here || n.GetName() == d.name && n.GetState() == v1.NodeState_NODE_STATE_READY
		}
		if led && here {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("appliance %s has no part in the cluster: %v: %w", d.name, answer.GetNodes(), errors.Join(context.Cause(ctx), err))
		}
	}
}

// awaitSwitch asks until the ToR is what it should be, and has come to be that after a moment. The daemon may be restarted meanwhile.
func (d *daemon) awaitSwitch(ctx context.Context, after time.Time) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		s, err := d.node.GetSwitch(ctx, &v1.GetSwitchRequest{})
		if err != nil && status.Code(err) != codes.Unavailable {
			return fmt.Errorf("ask the daemon for the ToR: %w", err)
		}
		if s.GetState() == v1.SwitchState_SWITCH_STATE_IN_SYNC && s.GetSince().AsTime().After(after) {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("the ToR is %s (%s): %w", s.GetState(), s.GetReason(), context.Cause(ctx))
		}
	}
}

// Mode is how the aggregator's program sits on its interface.
func (d *daemon) Mode() xdp.Mode {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mode
}

// RestartDaemon kills the first appliance's daemon without warning and starts it again, as systemd would. It returns when that answers.
func (r *Rack) RestartDaemon(ctx context.Context) error {
	return r.again(ctx, (*Process).Kill)
}

// UpgradeDaemon ends the first appliance's daemon in order and starts it again, told to take over whatever data plane there is.
func (r *Rack) UpgradeDaemon(ctx context.Context) error {
	var ending error
	return errors.Join(r.again(ctx, func(p *Process) { ending = p.Stop() }, "--upgrade"), ending)
}

func (r *Rack) again(ctx context.Context, end func(*Process), more ...string) error {
	return r.home().daemon.again(ctx, end, more...)
}

func (d *daemon) again(ctx context.Context, end func(*Process), more ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	end(d.process)
	if err := d.launch(more...); err != nil {
		return fmt.Errorf("start the daemon again: %w", err)
	}
	if err := d.answers(ctx, false); err != nil {
		return fmt.Errorf("start the daemon again: %w", err)
	}
	return nil
}

// close ends the daemon in order. What it has pinned goes with the mounts of its host.
func (d *daemon) close() error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []error
	if d.process != nil {
		err := d.process.Stop()
		d.watching.Wait()
		if told := d.ended.Load() && len(d.failed) == 0; !told {
			all = append(all, err)
		}
	}
	d.dialing.Lock()
	d.closed = true
	d.dialing.Unlock()
	if d.conn != nil {
		all = append(all, d.conn.Close())
	}
	return errors.Join(all...)
}

// Failed gives the reason when the daemon or the ToR's process has ended that nobody stopped.
func (r *Rack) Failed() <-chan error { return r.failed }
