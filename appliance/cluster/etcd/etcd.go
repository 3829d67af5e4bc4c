package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"google.golang.org/grpc"
)

// Config says where the state is. Exactly one of Embedded and Endpoints is given.
type Config struct {
	Embedded *Embedded
	// Endpoints are host:port of an external etcd, TLS how it is spoken to; nil: in the clear.
	Endpoints []string
	TLS       *tls.Config
	Log       *slog.Logger
}

// Etcd is the way to the state. Its Client may be used by several goroutines at once.
type Etcd struct {
	Client *clientv3.Client
	server *embed.Etcd // nil: an external one
	ending atomic.Bool
	hang   sync.Once
	hung   error
}

// How soon a client notices that an endpoint of an external etcd is gone, and takes another. etcd does not like to be asked more often.
const (
	dialTimeout = 2 * time.Second
	pingAfter   = 10 * time.Second
	pingAnswer  = 2 * time.Second
)

// Open starts the member, or prepares the client. It does not wait for a quorum: calls do.
func Open(config Config) (*Etcd, error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	e := &Etcd{}
	var err error
	if config.Embedded != nil {
		if e.server, err = config.Embedded.start(config.Log, &e.ending); err != nil {
			return nil, err
		}
		e.Client = v3client.New(e.server.Server)
		return e, nil
	}
	e.Client, err = clientv3.New(clientv3.Config{
		Endpoints: config.Endpoints, TLS: config.TLS, Logger: zapTo(config.Log, &e.ending),
		DialTimeout: dialTimeout, DialKeepAliveTime: pingAfter, DialKeepAliveTimeout: pingAnswer,
		DialOptions: []grpc.DialOption{grpc.WithDisableServiceConfig()},
	})
	if err != nil {
		return nil, fmt.Errorf("etcd at %v: %w", config.Endpoints, err)
	}
	return e, nil
}

// Failed is why the member in the daemon ended by itself; it never says anything of an external etcd.
func (e *Etcd) Failed() <-chan error {
	if e.server == nil {
		return nil
	}
	return e.server.Err()
}

// Member is the name of the member in the daemon, with its part in the election of etcd's own leader; empty: there is none.
func (e *Etcd) Member() (name string, leads bool) {
	if e.server == nil {
		return "", false
	}
	return e.server.Config().Name, e.server.Server.Leader() == e.server.Server.MemberID()
}

// Close ends the client, and the member in order: it hands its part over to another first.
func (e *Etcd) Close() error {
	e.ending.Store(true)
	err := e.HangUp()
	if e.server != nil {
		e.end()
	}
	return err
}

// HangUp ends the client: whatever still waits for an answer of etcd gets none.
func (e *Etcd) HangUp() error {
	e.hang.Do(func() {
		if e.hung = e.Client.Close(); errors.Is(e.hung, context.Canceled) { // it says so of its own end
			e.hung = nil
		}
	})
	return e.hung
}

// endPatience is how long the member may take to hand its part over, and then to let go of clients that do not hang up. What it acknowledged is on the disk.
const endPatience = time.Second

// end ends the member. Where the others are gone already, etcd would wait for them for longer than a daemon has to end.
func (e *Etcd) end() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.server.Close()
	}()
	patience := time.NewTimer(endPatience)
	defer patience.Stop()
	select {
	case <-ended:
		return
	case <-patience.C:
	}
	e.server.Server.HardStop()
	patience.Reset(endPatience)
	select {
	case <-ended:
	case <-patience.C: // the connections end with the process
	}
}
