package daemon

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// newLiveness are the main parts, and how each shows that it is alive.
func (d *daemon) newLiveness() *liveness {
	l := &liveness{}
	add := func(name string, check func(context.Context) error) {
		l.parts = append(l.parts, &part{name: name, check: check})
	}
	add("the manager of jobs", func(context.Context) error {
		d.seat.List()
		d.seat.Capacity()
		return nil
	})
	add("the data plane", func(context.Context) error {
		_, err := d.plane.UnknownJobCounters()
		return err
	})
	add("the watch of interfaces", func(context.Context) error { return d.interfaces.alive() })
	if d.config.Switch != nil {
		add("the keeper of the ToR", func(context.Context) error {
			if r := d.seat.now.Load(); r != nil {
				r.fabric.State()
			}
			return nil
		})
	}
	if socket := d.config.API.Socket; socket != "" {
		add("the API", func(ctx context.Context) error { return answers(ctx, socket) })
	}
	return l
}

// answers tells whether the API answers at all: a refusal, for too many calls from operators for example, is an answer.
func answers(ctx context.Context, socket string) (err error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("a connection to %s: %w", socket, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	_, err = health.NewHealthClient(conn).Check(ctx, &health.HealthCheckRequest{})
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return err
	}
	return nil
}
