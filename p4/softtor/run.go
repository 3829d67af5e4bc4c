package softtor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"spillway/p4/pipeline"
	"spillway/p4/softtor/dataplane"
	"spillway/p4/softtor/server"
)

// Errors of Run that callers decide on.
var (
	// ErrNoInterface is wrapped when an interface is not there.
	ErrNoInterface = errors.New("there is no such interface")
	// ErrInUse is wrapped when somebody else listens on the address.
	ErrInUse = errors.New("the address is in use")
)

// Run is a software ToR in the network namespace of the calling thread, until ctx ends. It ends without an error then.
func Run(ctx context.Context, c Config, log *slog.Logger) (err error) {
	if err := c.Validate(); err != nil {
		return err
	}
	c = c.withDefaults()
	indices, err := c.interfaces()
	if err != nil {
		return err
	}
	listener, err := c.listen(ctx)
	if err != nil {
		return err
	}
	served := false
	defer func() {
		if !served {
			err = errors.Join(err, listener.Close())
		}
	}()
	dp, err := dataplane.Load(dataplane.Config{Slots: c.Slots, Elements: c.Elements})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dp.Close()) }()
	for n, p := range c.Ports {
		if err := dp.AttachPort(dataplane.Port(p.Port), indices[n]); err != nil {
			return fmt.Errorf("ports[%d], interface %s: %w", n, p.Interface, err)
		}
	}
	s, err := server.New(server.Config{Device: c.DeviceID, Info: pipeline.Software(), Dataplane: dp, Log: log})
	if err != nil {
		return err
	}
	log.Info("software ToR", "listen", listener.Addr().String(), "device_id", c.DeviceID, "slots", c.Slots, "elements", c.Elements, "ports", len(c.Ports))
	if c.Ready != nil {
		c.Ready(listener.Addr())
	}
	served = true
	return s.Serve(ctx, listener)
}

// interfaces are the indices of the ports' interfaces.
func (c Config) interfaces() ([]int, error) {
	indices := make([]int, len(c.Ports))
	var errs []error
	for n, p := range c.Ports {
		i, err := net.InterfaceByName(p.Interface)
		if err != nil {
			errs = append(errs, fmt.Errorf("ports[%d].interface %s: %w", n, p.Interface, ErrNoInterface))
			continue
		}
		indices[n] = i.Index
	}
	return indices, errors.Join(errs...)
}

// listen opens the listener. A socket that is left of a ToR that was killed is removed; one that answers is not.
func (c Config) listen(ctx context.Context) (net.Listener, error) {
	network, address, err := c.address()
	if err != nil {
		return nil, err
	}
	if network == "unix" {
		if err := removeStale(ctx, address); err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, network, address)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: %w", address, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if network == "unix" {
		if err := os.Chmod(address, 0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("listen: %w", err), listener.Close())
		}
	}
	return listener, nil
}

func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there, and no socket: %w", path, ErrInUse)
	}
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("%s answers: %w", path, ErrInUse), conn.Close())
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
