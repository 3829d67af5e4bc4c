package worker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// Calls that fail are made again after firstPause, and later and later up to lastPause.
	firstPause, lastPause = 50 * time.Millisecond, 2 * time.Second
	// mostMessage bounds what the appliance may send at once: what it has to say is short.
	mostMessage = 64 << 10
)

// dial prepares the connection to an appliance; it is made by the first call. Where there are others to try, not much time is
// spent on one whose host does not answer.
func dial(addr string, config *tls.Config, others bool) (*grpc.ClientConn, error) {
	patience := 5 * time.Second
	if others {
		patience = 2 * time.Second
	}
	secure := insecure.NewCredentials()
	if config != nil {
		secure = credentials.NewTLS(config)
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(secure),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 1.6, Jitter: 0.2, MaxDelay: lastPause},
			MinConnectTimeout: patience,
		}),
	}
	target := addr
	if !overSocket(addr) {
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
			return nil, fmt.Errorf("address %q is neither host:port, as in aggregator:9690, nor unix: and a path", addr)
		}
		target = "dns:///" + addr
		opts = append(opts, grpc.WithContextDialer(dialTCP))
	} else if config != nil {
		return nil, fmt.Errorf("address %q is that of a Unix socket, which has no TLS: leave WithTLS out", addr)
	}
	return grpc.NewClient(target, opts...)
}

func overSocket(addr string) bool { return strings.HasPrefix(addr, "unix:") }

// dialTCP notices within three seconds that the appliance's host is gone, which a call on which nothing is said never would. As long as a worker does
// not notice, it does not hear that its job has moved; being wrong costs a call.
func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2}}
	return d.DialContext(ctx, "tcp", addr)
}

// checkAddress says what is wrong with the address that a worker says it sends from.
func checkAddress(addr string, own netip.Addr) error {
	switch {
	case own.IsValid() && (!own.Is4() || own.IsMulticast() || own.IsUnspecified()):
		return fmt.Errorf("own address %s is not an IPv4 unicast address", own)
	case !own.IsValid() && overSocket(addr):
		return fmt.Errorf("over a Unix socket the appliance cannot see which address this worker sends from: say it with WithAddress%s", candidates())
	}
	return nil
}

// candidates are the addresses that the host has, as a hint.
func candidates() string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	var found []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			found = append(found, n.IP.String())
		}
	}
	if found == nil {
		return ""
	}
	return " (this host has " + strings.Join(found, ", ") + ")"
}

// describeProcess is what people read of this worker at the appliance.
func describeProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("host %s pid %d", host, os.Getpid())
}

// errEnded is a call that the appliance ended without saying why.
var errEnded = errors.New("the appliance ended the call")
