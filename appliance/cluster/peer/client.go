package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/jobs"
	"spillway/appliance/refusal"
	"spillway/xdp"
)

// Bounds of calls whose caller gives none. A way may take a second or more to be found, where a neighbour does not answer.
const (
	callTimeout = 2 * time.Second
	pathTimeout = 5 * time.Second
	dialTimeout = 500 * time.Millisecond
)

// Client calls another appliance of the cluster. It connects with the first call, and again when the connection is lost.
type Client struct {
	// Name is that of the appliance.
	Name string
	conn *grpc.ClientConn
	api  v1.PeerServiceClient
}

// Dial prepares the calls to an appliance at an address; whoever answers there must have a certificate that says that it is this appliance.
func Dial(name, address string, identity *Identity) (*Client, error) {
	config, err := identity.client(name)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond}, MinConnectTimeout: dialTimeout,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largestAnswer)),
		grpc.WithIdleTimeout(0),
	)
	if err != nil {
		return nil, fmt.Errorf("appliance %s at %s: %w", name, address, err)
	}
	return &Client{Name: name, conn: conn, api: v1.NewPeerServiceClient(conn)}, nil
}

// largestAnswer is above what all slots of an aggregator's largest job take.
const largestAnswer = 64 << 20

// Conn is the connection, for calls of other services.
func (c *Client) Conn() *grpc.ClientConn { return c.conn }

// Close drops the connection; calls that are under way fail.
func (c *Client) Close() error { return c.conn.Close() }

// Greet asks who it is.
func (c *Client) Greet(ctx context.Context) (*v1.GreetResponse, error) {
	answer, err := c.api.Greet(ctx, &v1.GreetRequest{})
	return answer, c.explain(err)
}

// ReadJob reads what it has of a job; the error wraps xdp.ErrNoJob when it has none with the id.
func (c *Client) ReadJob(ctx context.Context, request *v1.ReadJobRequest) (Reading, error) {
	ctx, cancel := bounded(ctx, callTimeout)
	defer cancel()
	answer, err := c.api.ReadJob(ctx, request)
	if err != nil {
		return Reading{}, c.explain(err)
	}
	of, err := reading(answer)
	if err != nil {
		return of, fmt.Errorf("appliance %s: %w", c.Name, err)
	}
	return of, nil
}

// UnknownJobCounters are its counters of packets of no job.
func (c *Client) UnknownJobCounters(ctx context.Context) (map[string]uint64, error) {
	ctx, cancel := bounded(ctx, callTimeout)
	defer cancel()
	answer, err := c.api.ReadUnknown(ctx, &v1.ReadUnknownRequest{})
	return answer.GetCounters(), c.explain(err)
}

// Leader gives the appliance orders in a term.
func (c *Client) Leader(term uint64) *Leader { return &Leader{c, term} }

// Leader is an appliance as the leader of a term has it: its aggregator, and its ways to workers.
type Leader struct {
	client *Client
	term   uint64
}

// Aggregator is the appliance's.
func (l *Leader) Aggregator() jobs.Aggregator { return l }

// Paths are the appliance's.
func (l *Leader) Paths() jobs.Paths { return l }

// AddJob implements jobs.Aggregator.
func (l *Leader) AddJob(ctx context.Context, job xdp.Job) error {
	ctx, cancel := bounded(ctx, callTimeout)
	defer cancel()
	_, err := l.client.api.AddJob(ctx, &v1.AddJobRequest{Term: l.term, Job: installed(&job)})
	return l.client.explain(err)
}

// RemoveJob implements jobs.Aggregator.
func (l *Leader) RemoveJob(ctx context.Context, id uint16) error {
	ctx, cancel := bounded(ctx, callTimeout)
	defer cancel()
	_, err := l.client.api.RemoveJob(ctx, &v1.RemoveJobRequest{Term: l.term, Id: uint32(id)})
	return l.client.explain(err)
}

// Jobs implements jobs.Aggregator.
func (l *Leader) Jobs(ctx context.Context) ([]xdp.Job, error) {
	ctx, cancel := bounded(ctx, callTimeout)
	defer cancel()
	answer, err := l.client.api.ListInstalled(ctx, &v1.ListInstalledRequest{Term: l.term})
	if err != nil {
		return nil, l.client.explain(err)
	}
	var all []xdp.Job
	for _, m := range answer.GetJobs() {
		j, err := job(m)
		if err != nil {
			return nil, fmt.Errorf("appliance %s: job id %d: %w", l.client.Name, m.GetId(), err)
		}
		all = append(all, j)
	}
	return all, nil
}

// To implements jobs.Paths.
func (l *Leader) To(ctx context.Context, addr netip.Addr) (jobs.Path, error) {
	ctx, cancel := bounded(ctx, pathTimeout)
	defer cancel()
	answer, err := l.client.api.FindPath(ctx, &v1.FindPathRequest{Term: l.term, Address: addr.String()})
	if err != nil {
		return jobs.Path{}, l.client.explain(err)
	}
	home, err := netip.ParseAddr(answer.GetHome())
	if err != nil {
		return jobs.Path{}, fmt.Errorf("appliance %s: its address towards %s: %w", l.client.Name, addr, err)
	}
	return jobs.Path{Ifindex: int(answer.GetIfindex()), Interface: answer.GetInterface(), Home: home, MTU: int(answer.GetMtu()), MAC: answer.GetMac()}, nil
}

func bounded(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, most)
}

// explain makes of a call's error what those of package jobs decide on.
func (c *Client) explain(err error) error {
	if err == nil {
		return nil
	}
	refused := refusal.Of(err)
	switch {
	case refused == nil:
		return fmt.Errorf("appliance %s: %w: %w", c.Name, jobs.ErrNodeAway, err)
	case refused.Reason == refusal.JobExists:
		return fmt.Errorf("appliance %s: %w: %s", c.Name, xdp.ErrJobExists, refused.Text)
	case refused.Reason == refusal.NoSuchJob:
		return fmt.Errorf("appliance %s: %w: %s", c.Name, xdp.ErrNoJob, refused.Text)
	case refused.Reason == refusal.ShuttingDown, refused.Reason == refusal.TimeOver, refused.Reason == refusal.Cancelled, refused.Reason == refusal.OldTerm:
		return fmt.Errorf("appliance %s: %w: %w", c.Name, jobs.ErrNodeAway, refused)
	case refused.Reason != "":
		return refused
	case refused.Code == codes.Unavailable, refused.Code == codes.DeadlineExceeded, refused.Code == codes.Canceled:
		return fmt.Errorf("appliance %s: %w: %s", c.Name, jobs.ErrNodeAway, refused.Text)
	}
	return fmt.Errorf("appliance %s: %w", c.Name, errors.New(refused.Text))
}
