package worker

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/netip"
	"time"
)

// Option changes how Join or JoinWith sets a worker up.
type Option func(*options)

type options struct {
	logger    *slog.Logger
	noOffload bool
	transport Transport
	busyPoll  time.Duration
	anyRank   bool
	tls       *tls.Config
	address   netip.Addr
	progress  func(Waiting)
	patience  time.Duration
	wrong     error // what the environment says that cannot be meant
}

func newOptions(opts []Option) options {
	o := options{logger: slog.Default(), patience: DefaultPatience, busyPoll: -1}
	for _, opt := range opts {
		opt(&o)
	}
	o.wrong = o.fromEnvironment()
	return o
}

// WithLogger says where to report what degrades the transport, who is waited for, and what the appliance has to say; slog.Default otherwise.
func WithLogger(logger *slog.Logger) Option { return func(o *options) { o.logger = logger } }

// WithoutOffload sends and receives plain datagrams, without UDP segmentation and receive offload.
func WithoutOffload() Option { return func(o *options) { o.noOffload = true } }

// WithTLS secures the connection to the appliance, which asks for a certificate of the job. Without it the connection is plain, which most
// appliances refuse over TCP. The name to verify is the host of the address unless the configuration has one.
func WithTLS(config *tls.Config) Option { return func(o *options) { o.tls = config } }

// WithAddress is the IPv4 address that this worker sends from. Without it, it is the one that the connection to the appliance comes from;
// over a Unix socket it must be given. Another than the connection's must be in the worker's certificate.
func WithAddress(addr netip.Addr) Option { return func(o *options) { o.address = addr } }

// WithProgress is told how Join stands: at each change, and every few seconds. It is called by Join, which goes on when it returns.
// Without it Join logs from the third second on.
func WithProgress(progress func(Waiting)) Option { return func(o *options) { o.progress = progress } }

// WithPatience is how long Join goes on trying while no appliance that leads can be reached; DefaultPatience otherwise. Waiting for ranks
// is bounded by Join's context only.
func WithPatience(patience time.Duration) Option { return func(o *options) { o.patience = patience } }

// DefaultPatience is longer than an appliance takes to be restarted.
const DefaultPatience = 10 * time.Second

// Join takes part in a job as one rank: it asks the appliance at addr, which is host:port, or unix: and the path of a socket, and waits until all ranks
// have joined. Where there are several appliances, addr is a list of them with commas: the one that leads is found, by the word of another or by
// trying all in turn, now and whenever the call to it is lost. The sockets are made in the network namespace of the calling thread. When ctx ends first, the error says who was missing; afterwards
// ctx does not matter. Nothing is sent to the home before the first collective. The worker must be closed.
//
// What the appliance refuses is a *refusal.Error in the chain of the error, with the appliance's text.
//
// As long as the worker lives, it keeps its call to the appliance and makes it again when it is lost; collectives go on without. On that call it hears when the
// job goes on at other homes, because one died or was drained: collectives in flight go on there, after a pause, with what each worker has.
func Join(ctx context.Context, addr, job string, rank int, opts ...Option) (*Worker, error) {
	w, err := join(ctx, addr, job, rank, newOptions(opts))
	if err != nil {
		return nil, fmt.Errorf("join job %q as rank %d: %w", job, rank, err)
	}
	return w, nil
}

func join(ctx context.Context, addr, job string, rank int, o options) (*Worker, error) {
	if o.wrong != nil {
		return nil, o.wrong
	}
	s, err := newSession(addr, job, rank, o)
	if err != nil {
		return nil, err
	}
	params, err := s.join(ctx)
	if err != nil {
		s.close()
		return nil, err
	}
	w, err := open(params, o, s)
	if err != nil {
		s.leave()
		s.close()
		return nil, err
	}
	s.keeping.Go(func() { s.keep(w) })
	return w, nil
}

// JoinWith takes part in a job whose parameters are known already, without an appliance: for tests, and where something else has set
// the aggregator up.
func JoinWith(params Params, opts ...Option) (*Worker, error) {
	w, err := open(params, newOptions(opts), nil)
	if err != nil {
		return nil, fmt.Errorf("join job %d as rank %d: %w", params.Job, params.Rank, err)
	}
	return w, nil
}
