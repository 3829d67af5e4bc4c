package rack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"spillway/p4/client"
)

// appliance returns one by its index, or says that there is none.
func (r *Rack) appliance(index int) (*appliance, error) {
	if index < 0 || index >= len(r.appliances) {
		return nil, fmt.Errorf("the rack has appliances 0 to %d, not %d", len(r.appliances)-1, index)
	}
	return r.appliances[index], nil
}

// KillDaemon kills an appliance's daemon without warning (SIGKILL). Its data plane stays pinned and goes on.
func (r *Rack) KillDaemon(index int) error {
	a, err := r.appliance(index)
	if err != nil {
		return err
	}
	a.daemon.mu.Lock()
	defer a.daemon.mu.Unlock()
	a.daemon.down.Store(true)
	a.daemon.process.Kill()
	return nil
}

// StartDaemon starts the daemon of an appliance where it was killed, and waits until it answers.
func (r *Rack) StartDaemon(ctx context.Context, index int) error {
	a, err := r.appliance(index)
	if err != nil {
		return err
	}
	if err := a.daemon.run(); err != nil {
		return fmt.Errorf("start the daemon again: %w", err)
	}
	return a.daemon.ready(ctx, false)
}

// RunDaemon starts the daemon of an appliance where it was killed, and does not wait for it.
func (r *Rack) RunDaemon(index int) error {
	a, err := r.appliance(index)
	if err != nil {
		return err
	}
	if err := a.daemon.run(); err != nil {
		return fmt.Errorf("start the daemon again: %w", err)
	}
	return nil
}

// Isolate cuts all links of an appliance, as when its host loses power; restore joins them again. Operators' calls go to another meanwhile.
func (r *Rack) Isolate(index int) (restore func() error, err error) {
	a, err := r.appliance(index)
	if err != nil {
		return nil, err
	}
	a.daemon.down.Store(true)
	err = errors.Join(r.SetLink(index, false), r.SetManagement(index, false))
	return func() error {
		a.daemon.down.Store(false)
		return errors.Join(r.SetLink(index, true), r.SetManagement(index, true))
	}, err
}

// DaemonPID is the process of an appliance's daemon.
func (r *Rack) DaemonPID(index int) int {
	d := r.appliances[index].daemon
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.process.PID()
}

// SetLink cuts an appliance off from the workers, as a cable that is pulled does, or joins it again. Its management link is another.
func (r *Rack) SetLink(index int, up bool) error {
	a, err := r.appliance(index)
	if err != nil {
		return err
	}
	return setLink(a.link.port(), up)
}

// SetManagement does the same to an appliance's management link. A rack of one appliance without a ToR has none.
func (r *Rack) SetManagement(index int, up bool) error {
	a, err := r.appliance(index)
	if err != nil {
		return err
	}
	if a.management.in == nil {
		return errors.New("the rack has no management network: it has one appliance and no ToR")
	}
	return setLink(a.management, up)
}

// SetTorManagement does the same to the ToR's management link, over which it is programmed.
func (r *Rack) SetTorManagement(up bool) error {
	if r.tor == nil {
		return errNoTor
	}
	return setLink(r.tor.management, up)
}

// SetWorkerLink does the same to a worker's link.
func (r *Rack) SetWorkerLink(worker int, up bool) error { return setLink(r.links[worker].port(), up) }

var errNoTor = errors.New("the rack has no ToR")

// TorController connects to the ToR over P4Runtime, from inside of its own management processor, as a second controller would. An
// empty role is the daemon's.
func (r *Rack) TorController(ctx context.Context, role string, election client.ElectionID) (*client.Client, error) {
	if r.tor == nil {
		return nil, errNoTor
	}
	dial := func(ctx context.Context, _ string) (conn net.Conn, err error) {
		err = r.tor.namespace.do(func() (err error) {
			conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", torListen)
			return err
		})
		return conn, err
	}
	return client.Dial(ctx, client.Config{Target: "passthrough:///tor", Device: torDevice, Role: role, Election: &election, Options: []grpc.DialOption{grpc.WithContextDialer(dial)}})
}

// AwaitTor waits until the daemon says that the ToR is what it should be, and has come to be that after a moment; the zero time is any.
func (r *Rack) AwaitTor(ctx context.Context, after time.Time) error {
	if r.tor == nil {
		return errNoTor
	}
	ctx, cancel := context.WithTimeoutCause(ctx, daemonPatience, fmt.Errorf("the ToR is not in sync after %v", daemonPatience))
	defer cancel()
	return r.operator().awaitSwitch(ctx, after)
}

// PacketSocket is a packet socket on a worker host's interface, bound to a protocol (ETH_P_ALL hears everything, 0 nothing). It sends frames as they are. The
// caller closes it.
func (r *Rack) PacketSocket(worker int, protocol uint16) (socket int, err error) {
	err = r.InWorker(worker, func() error {
		eth, err := net.InterfaceByName(hostInterface)
		if err != nil {
			return err
		}
		network := protocol<<8 | protocol>>8
		if socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(network)); err != nil {
			return err
		}
		if err := unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: network, Ifindex: eth.Index}); err != nil {
			return errors.Join(err, unix.Close(socket))
		}
		return nil
	})
	if err != nil {
		return -1, fmt.Errorf("packet socket at worker %d: %w", worker, err)
	}
	return socket, nil
}
