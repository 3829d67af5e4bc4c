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

// watchdog asks the main parts whether they are alive, and tells the service manager, until ctx ends.
func (d *daemon) watchdog(ctx context.Context) (err error) {
	parts := []*part{
		{name: "the manager of jobs", check: func(context.Context) error {
			d.jobs.List()
			d.jobs.Capacity()
			return nil
		}},
		{name: "the data plane", check: func(context.Context) error {
			_, err := d.plane.UnknownJobCounters()
			return err
		}},
		{name: "the watch of interfaces", check: func(context.Context) error {
			d.interfaces.list()
			return nil
		}},
	}
	if d.fabric != nil {
		parts = append(parts, &part{name: "the keeper of the ToR", check: func(context.Context) error {
			d.fabric.State()
			return nil
		}})
	}
	if d.config.API.Socket != "" {
		conn, err := grpc.NewClient("unix://"+d.config.API.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return fmt.Errorf("a connection to the own API: %w", err)
		}
		defer func() { err = errors.Join(err, conn.Close()) }()
		parts = append(parts, &part{name: "the API", check: func(ctx context.Context) error { return answers(ctx, conn) }})
	}
	return watchdog(ctx, &liveness{parts: parts}, d.notify, d.log)
}

// answers tells whether the API answers at all: a refusal, for too many calls from operators for example, is an answer.
func answers(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := health.NewHealthClient(conn).Check(ctx, &health.HealthCheckRequest{})
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return err
	}
	return nil
}
