// Package client is spillctl's connection to an appliance: over its Unix socket, or over TCP with an operator's certificate.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

// DefaultAddr is where a daemon listens for operators unless it is told otherwise.
const DefaultAddr = "unix:///run/spillway/spillwayd.sock"

// Options say which appliance, and who asks.
type Options struct {
	// unix:///path or host:port
	Addr string
	// PEM files, for host:port: whom to believe, and who the operator is.
	CA, Cert, Key string
	// How long a call may take; streams that follow are not bounded. 0: no bound.
	Timeout time.Duration
}

// OptionsError says which options do not go together.
type OptionsError struct{ text string }

func (e *OptionsError) Error() string { return e.text }

// UnreachableError is a call that nobody answered.
type UnreachableError struct {
	Addr string
	Err  error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no appliance answers at %s: %v; 'spillctl doctor' says why", e.Addr, e.Err)
}

// Unwrap is what the network said.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Client calls an appliance. It connects with the first call, and again when the connection is lost.
type Client struct {
	Jobs    v1.JobServiceClient
	Node    v1.NodeServiceClient
	Cluster v1.ClusterServiceClient

	options Options
	conn    *grpc.ClientConn

	mu     sync.Mutex
	dialed error // of the last attempt to connect: what gRPC says of it is longer, and no error that can be asked
}

// New makes a client. It fails for options that cannot be meant and files that cannot be read, not for an appliance that is away.
func New(options Options) (*Client, error) {
	c := &Client{options: options}
	network, address, err := Endpoint(options.Addr)
	if err != nil {
		return nil, err
	}
	transport := insecure.NewCredentials()
	if network == "tcp" {
		if transport, err = options.credentials(address); err != nil {
			return nil, err
		}
	} else if options.Cert != "" || options.Key != "" || options.CA != "" {
		return nil, &OptionsError{fmt.Sprintf("--ca, --cert and --key are for host:port; %s is a Unix socket, which needs none", options.Addr)}
	}
	c.conn, err = grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(transport),
		grpc.WithAuthority(authority(network, address)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return c.dial(ctx, network, address) }),
		grpc.WithUnaryInterceptor(c.unary),
		grpc.WithStreamInterceptor(c.stream),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largestAnswer)),
	)
	if err != nil {
		return nil, fmt.Errorf("address %s: %w", options.Addr, err)
	}
	c.Jobs, c.Node, c.Cluster = v1.NewJobServiceClient(c.conn), v1.NewNodeServiceClient(c.conn), v1.NewClusterServiceClient(c.conn)
	return c, nil
}

// largestAnswer is above what all slots of a Tofino's memory take.
const largestAnswer = 64 << 20

// Close drops the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Endpoint splits an address into the network and what is dialled there.
func Endpoint(addr string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(addr, "unix://"); ok {
		if !strings.HasPrefix(path, "/") {
			return "", "", &OptionsError{fmt.Sprintf("address %q: a socket's path begins with '/': unix:///run/spillway/spillwayd.sock", addr)}
		}
		return "unix", path, nil
	}
	if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
		return "", "", &OptionsError{fmt.Sprintf("address %q is neither unix:///PATH nor HOST:PORT", addr)}
	}
	return "tcp", addr, nil
}

// authority is the name in the HTTP/2 header; a socket's path is none.
func authority(network, address string) string {
	if network == "unix" {
		return "localhost"
	}
	return address
}

func (o *Options) credentials(address string) (credentials.TransportCredentials, error) {
	if o.CA == "" || o.Cert == "" || o.Key == "" {
		return nil, &OptionsError{fmt.Sprintf("%s is reached with an operator's certificate: --ca, --cert and --key are needed ('spillctl certs' "+
			"makes them for a lab)", address)}
	}
	authority, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("--ca: %s has no certificate in PEM form", o.CA)
	}
	pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, fmt.Errorf("--cert, --key: %w", err)
	}
	return credentials.NewTLS(&tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}), nil
}

func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialed = err
	return conn, err
}

func (c *Client) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if c.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.Timeout)
		defer cancel()
	}
	return c.explain(invoke(ctx, method, req, reply, conn, opts...))
}

func (c *Client) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, c.explain(err)
	}
	return &explained{stream, c}, nil
}

// explained is a stream whose errors are explained as those of calls are.
type explained struct {
	grpc.ClientStream
	client *Client
}

func (e *explained) RecvMsg(m any) error { return e.client.explain(e.ClientStream.RecvMsg(m)) }

// explain tells an appliance that does not answer from one that says no, and takes gRPC's own words off.
func (c *Client) explain(err error) error {
	refused := refusal.Of(err)
	switch {
	case refused == nil, refused.Reason != "":
		if refused != nil {
			return refused
		}
		return err
	case refused.Code == codes.DeadlineExceeded:
		return &UnreachableError{c.options.Addr, fmt.Errorf("no answer within %v (--timeout): %w", c.options.Timeout, context.DeadlineExceeded)}
	case refused.Code == codes.Canceled:
		return context.Canceled
	case refused.Code == codes.Unavailable:
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.dialed != nil {
			return &UnreachableError{c.options.Addr, bare(c.dialed)}
		}
		return &UnreachableError{c.options.Addr, errors.New(plain(status.Convert(err).Message()))}
	default:
		return refused
	}
}

// bare is what the kernel said, without Go's "dial unix PATH: connect:", since the address is told anyway.
func bare(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		var call *os.SyscallError
		if errors.As(op.Err, &call) {
			return call.Err
		}
		return op.Err
	}
	return err
}

// plain takes gRPC's wrapping off a failed handshake.
func plain(message string) string {
	if _, cause, ok := strings.Cut(message, `authentication handshake failed: `); ok {
		return strings.TrimSuffix(cause, `"`)
	}
	return message
}
