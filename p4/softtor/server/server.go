package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"spillway/p4/p4info"
)

// Version is that of the P4Runtime specification the server follows.
const Version = "1.5.0"

// What a server bears.
const (
	maxConnections  = 64
	maxCalls        = 128     // at a time in a connection
	maxMessage      = 8 << 20 // the specification wants 4 MiB at least
	maxBatch        = 16384   // updates or requests in one call
	maxReads        = 4       // at a time; others wait
	maxFound        = 1 << 19 // entities in the answer to one read: all registers of 65,535 slots
	maxEntitiesSent = 1024    // in one message of it
	stopWithin      = 2 * time.Second
)

// Config says what a server serves.
type Config struct {
	// Device is the device id that controllers must name, not 0.
	Device uint64
	// Info is the P4Info of the pipeline that the data plane has built in.
	Info      *p4info.Info
	Dataplane Dataplane
	Log       *slog.Logger
}

// Server is a P4Runtime server. It begins without a pipeline, and wipes the data plane when it is given one.
type Server struct {
	p4v1.UnimplementedP4RuntimeServer
	config   Config
	log      *slog.Logger
	arbiter  *arbiter
	watching sync.WaitGroup // goroutines that receive from streams
	reading  chan struct{}  // has an element for each read

	mu sync.RWMutex // guards what follows, and is held while data plane and tables change
	// committed is what the data plane runs, nil before there was any; saved is what waits to be committed.
	committed, saved *configured
}

// configured is a forwarding pipeline configuration with the state that was written for it.
type configured struct {
	config *p4v1.ForwardingPipelineConfig
	state  *state
}

// New makes a server.
func New(config Config) (*Server, error) {
	if config.Device == 0 {
		return nil, errors.New("device id 0 is none")
	}
	s := &Server{config: config, log: config.Log, reading: make(chan struct{}, maxReads)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.arbiter = newArbiter(config.Device, s.log, s.finishWrites)
	if _, err := newState(config.Info, config.Dataplane); err != nil {
		return nil, err
	}
	return s, nil
}

// finishWrites waits for the writes that have begun.
func (s *Server) finishWrites() {
	s.mu.Lock()
	//lint:ignore SA2001 whoever had the lock is done, that is all
	s.mu.Unlock()
}

// Serve answers on a listener until ctx ends, then ends all sessions with UNAVAILABLE and finishes what has begun; when it returns
// none of the server's goroutines is left. It closes the listener. A server serves once.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	g := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxCalls),
		// A controller that died without a word must not be primary for ever.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	)
	p4v1.RegisterP4RuntimeServer(g, s)
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		s.arbiter.close(status.Error(codes.Unavailable, "the server is stopping"))
		force := time.AfterFunc(stopWithin, g.Stop)
		defer force.Stop()
		g.GracefulStop()
	})
	err := g.Serve(netutil.LimitListener(listener, maxConnections))
	if !stop() {
		<-stopped
		err = nil
	} else {
		s.arbiter.close(status.Error(codes.Unavailable, "the server is stopping"))
		g.Stop()
	}
	s.watching.Wait()
	if err != nil {
		return fmt.Errorf("serve P4Runtime on %s: %w", listener.Addr(), err)
	}
	return nil
}

// checkDevice wants this server's device.
func (s *Server) checkDevice(id uint64) error {
	if id != s.config.Device {
		return status.Errorf(codes.NotFound, "device_id: there is no device %d, this is %d", id, s.config.Device)
	}
	return nil
}

// current is the pipeline that reads and writes are about. The caller holds mu.
func (s *Server) current() (*configured, error) {
	switch {
	case s.saved != nil:
		return s.saved, nil
	case s.committed != nil:
		return s.committed, nil
	}
	return nil, status.Error(codes.FailedPrecondition, "no forwarding pipeline config has been set")
}

// Capabilities says which P4Runtime this is.
func (s *Server) Capabilities(_ context.Context, request *p4v1.CapabilitiesRequest) (*p4v1.CapabilitiesResponse, error) {
	if id := request.GetDeviceId(); id != 0 {
		if err := s.checkDevice(id); err != nil {
			return nil, err
		}
	}
	return &p4v1.CapabilitiesResponse{P4RuntimeApiVersion: Version}, nil
}
