package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"spillway/p4/p4info"
)

// maxHeaders bounds what a server may send in metadata: the errors of a batch come there, some 200 bytes for each update
// (P4Runtime, "gRPC Metadata Maximum Size"); enough for batches of 64k.
const maxHeaders = 16 << 20

// maxMessage bounds one message of a server, a pipeline with its device configuration included.
const maxMessage = 64 << 20

// Config says which device to speak to, as whom.
type Config struct {
	// Target is a gRPC target: host:port, or unix:PATH.
	Target string
	// Device is the device's id, not 0.
	Device uint64
	// Election is this client's election id: of the clients of a role, the one with the highest is primary. A nil one can never be primary.
	Election *ElectionID
	// Role is empty for the default role, which may do everything.
	Role string
	// Info gives names to ids in errors; without one, errors have ids.
	Info *p4info.Info
	// Options are added to the dial options; credentials among them replace the default, which is none.
	Options []grpc.DialOption
}

// Client is a session with a device. Its methods may be used by several goroutines at once. It owns one goroutine, which
// ends with the session; Close waits for it.
type Client struct {
	config Config
	conn   *grpc.ClientConn
	rpc    p4v1.P4RuntimeClient
	stream p4v1.P4Runtime_StreamChannelClient

	// session is done when the stream is; its cause is why.
	session context.Context
	end     context.CancelCauseFunc
	// received is closed when the receiving goroutine has ended.
	received chan struct{}

	closing sync.Once
	sending sync.Mutex // held around stream.Send; taken before mu
	mu      sync.Mutex // guards what follows
	current Arbitration
	changed chan struct{} // closed and replaced when current changes
	asked   *ElectionID   // the last one sent
}

// ErrClosed is why a session ended that Close ended.
var ErrClosed = errors.New("the session was closed")

// Dial connects, opens the stream channel and asks for the role. It returns when the server has answered: as primary or as
// backup, see Arbitration. ctx is for that much only.
func Dial(ctx context.Context, config Config) (*Client, error) {
	if config.Device == 0 {
		return nil, errors.New("p4runtime: device id 0 is none")
	}
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	}, config.Options...)
	conn, err := grpc.NewClient(config.Target, options...)
	if err != nil {
		return nil, fmt.Errorf("p4runtime: dial %s: %w", config.Target, err)
	}
	c := &Client{config: config, conn: conn, rpc: p4v1.NewP4RuntimeClient(conn), received: make(chan struct{}), changed: make(chan struct{})}
	c.session, c.end = context.WithCancelCause(context.Background())
	detach := context.AfterFunc(ctx, func() { c.end(context.Cause(ctx)) })
	defer detach()
	if c.stream, err = c.rpc.StreamChannel(c.session); err != nil {
		close(c.received)
		return nil, errors.Join(fmt.Errorf("p4runtime: %s: %w", config.Target, c.because(err)), c.Close())
	}
	go c.receive()
	if _, err := c.Elect(ctx, config.Election); err != nil {
		return nil, errors.Join(fmt.Errorf("p4runtime: %s: %w", config.Target, err), c.Close())
	}
	if !detach() { // ctx ended at the last moment, and the session with it
		return nil, errors.Join(fmt.Errorf("p4runtime: %s: %w", config.Target, context.Cause(ctx)), c.Close())
	}
	return c, nil
}

// Close ends the session and waits for it; calls that are still pending fail with ErrClosed. A second one does nothing.
func (c *Client) Close() (err error) {
	c.end(ErrClosed)
	<-c.received
	c.closing.Do(func() { err = c.conn.Close() })
	return err
}

// Done is closed when the session has ended.
func (c *Client) Done() <-chan struct{} { return c.session.Done() }

// Err is why the session ended, nil while it lasts.
func (c *Client) Err() error { return context.Cause(c.session) }

// SessionError is the error of calls whose session has ended.
type SessionError struct{ Err error }

func (e *SessionError) Error() string { return "p4runtime: the session has ended: " + e.Err.Error() }

// Unwrap returns Err.
func (e *SessionError) Unwrap() error { return e.Err }

// during runs a call that the end of the session ends too.
func (c *Client) during(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.session, func() { cancel(c.Err()) })
	defer stop()
	if err := c.Err(); err != nil {
		return &SessionError{err}
	}
	return c.because(call(ctx))
}

// because gives the end of the session as the reason of an error, when it has ended: what a call says is only its consequence.
func (c *Client) because(err error) error {
	if cause := c.Err(); err != nil && cause != nil {
		return &SessionError{cause}
	}
	return err
}
