package rack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"spillway/p4/client"
	"spillway/p4/v1model"
)

const (
	// torListen is where the ToR serves P4Runtime: on the loopback interface of its own namespace, which nobody else can reach.
	torListen = "127.0.0.1:9559"
	// torDevice is the id of the ToR's one device.
	torDevice = 1
	// torPatience is how long a ToR may take from its start until it is programmed.
	torPatience = 20 * time.Second
)

// connect opens a P4Runtime session with the ToR, becomes primary and pushes the pipeline.
func (t *tor) connect(ctx context.Context) (controller, error) {
	var device []byte // the target's own form of the program; the software ToR is the program
	if t.config.Kind == TorBMv2 {
		device = v1model.Program
	}
	program, err := client.NewPipeline(t.info, device)
	if err != nil {
		return nil, err
	}
	// Each session has a higher election id than the one before: the last one may not be known to have ended.
	t.election = t.election.Next()
	session, err := client.Dial(ctx, client.Config{
		Target:   "passthrough:///" + torListen,
		Device:   torDevice,
		Election: &t.election,
		Info:     t.info,
		Options: []grpc.DialOption{
			grpc.WithContextDialer(t.dial),
			grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second},
				MinConnectTimeout: time.Second,
			}),
		},
	})
	if err != nil {
		return nil, err
	}
	if err := session.WaitPrimary(ctx); err != nil {
		return nil, errors.Join(err, session.Close())
	}
	if _, err := session.EnsurePipeline(ctx, program, false); err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return session, nil
}

// dial connects to the ToR's server from inside its namespace.
func (t *tor) dial(ctx context.Context, _ string) (conn net.Conn, err error) {
	t.dialing.Lock()
	defer t.dialing.Unlock()
	if t.closed {
		return nil, fmt.Errorf("connect to %s: %w", t.namespace.name, net.ErrClosed)
	}
	err = t.namespace.do(func() (err error) {
		// Address and port are numbers, so that the dialer stays on this thread.
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp4", torListen)
		return err
	})
	return conn, err
}
