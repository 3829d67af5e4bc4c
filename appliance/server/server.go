// Package server is the appliance's API on its sockets: who may call what, how much and for how long. What a call does is decided by the
// manager of jobs and by the node.
//
// Every method of every service goes through one gate (gate.go), which knows who may call it from one table (table.go). What
// the table does not know is refused. Operators call over a Unix socket, whose mode says who they are, or over TCP with a certificate; workers call
// over TCP, with a certificate that names their jobs, or over plain TCP where the configuration says so.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"

	v1 "spillway/appliance/api/spillway/v1"
)

// Jobs is what the services need of jobs.Manager.
type Jobs interface {
	Create(ctx context.Context, spec *v1.JobSpec, dryRun bool) (*v1.Job, error)
	Delete(ctx context.Context, name string, force bool) (*v1.Job, error)
	Drain(ctx context.Context, name string) (*v1.Job, error)
	Get(name string) (*v1.Job, error)
	List() []*v1.Job
	Watch(ctx context.Context, name string, send func(*v1.WatchJobsResponse) error) error
	Join(ctx context.Context, request *v1.JoinRequest, send func(*v1.JoinResponse) error) error
	Leave(ctx context.Context, request *v1.LeaveRequest) error
}

// Node is what the appliance says of itself and of its data plane.
type Node interface {
	Node(ctx context.Context) (*v1.GetNodeResponse, error)
	Workers(ctx context.Context, job string) (*v1.ListWorkersResponse, error)
	Slots(ctx context.Context, request *v1.ListSlotsRequest) (*v1.ListSlotsResponse, error)
	Levels(ctx context.Context, job string) (*v1.ListLevelsResponse, error)
	Counters(ctx context.Context, job string) (*v1.ListCountersResponse, error)
	Switch(ctx context.Context, slots bool) (*v1.GetSwitchResponse, error)
	Diagnose(ctx context.Context, job string) (*v1.DiagnoseResponse, error)
}

// Cluster is what ClusterService needs.
type Cluster interface {
	ListNodes(ctx context.Context) (*v1.ListNodesResponse, error)
	DrainNode(ctx context.Context, name string) (*v1.DrainNodeResponse, error)
	UndrainNode(ctx context.Context, name string) (*v1.UndrainNodeResponse, error)
	ForgetNode(ctx context.Context, name string) (*v1.ForgetNodeResponse, error)
}

// Peers is the door of the other appliances of a cluster: an address of its own, and certificates of their own.
type Peers struct {
	Listen  string
	TLS     TLS
	Service v1.PeerServiceServer
}

// Events is what StreamEvents needs of events.Log.
type Events interface {
	Stream(ctx context.Context, request *v1.StreamEventsRequest, send func(*v1.Event) error) error
}

// TLS names the files, in PEM, of mutual TLS: the appliance's certificate and key, and the authorities that issue to callers.
type TLS struct {
	Certificate, Key, Authorities string
}

// Config says what is served, where, and to whom.
type Config struct {
	Jobs   Jobs
	Node   Node
	Events Events
	// Cluster is that of an appliance that stands alone too.
	Cluster Cluster
	// Peers is nil for one that stands alone. Leader is the connection to the one that leads, over which operators' calls are passed on; nil and no error: this one
	// leads.
	Peers  *Peers
	Leader func() (*grpc.ClientConn, error)

	// Socket is the path of the operators' Unix socket, mode 0660; empty: none. Group owns it; empty: the process's own.
	Socket string
	Group  string
	// Listen is the TCP address of workers and of operators with a certificate; empty: none.
	Listen string
	// TLS is needed with Listen, unless Plaintext lets anyone who reaches the port call WorkerService.
	TLS       *TLS
	Plaintext bool

	Limits Limits
	// Leaving is called when the server goes away: health says so and new calls are refused, but those that are there go on. Here jobs.Manager.Close
	// ends its streams in its own words. Nil: nothing to do.
	Leaving func()
	// Calls is told of every call, the refused ones too. Nil: nobody is.
	Calls stats.Handler
	Log   *slog.Logger
}

// told makes gRPC tell Calls.
func (c Config) told() grpc.ServerOption {
	if c.Calls == nil {
		return grpc.EmptyServerOption{}
	}
	return grpc.StatsHandler(c.Calls)
}

// Server is the API on its sockets.
type Server struct {
	config  Config
	trust   atomic.Pointer[trust]
	peers   atomic.Pointer[trust]
	gate    *gate
	health  *health.Server
	doors   []door
	address string
}

// door is one listener and the gRPC server behind it.
type door struct {
	listener *listener
	server   *grpc.Server
}

// served are the services that health is asked for, by name.
var served = []string{v1.JobService_ServiceDesc.ServiceName, v1.NodeService_ServiceDesc.ServiceName, v1.WorkerService_ServiceDesc.ServiceName, v1.ClusterService_ServiceDesc.ServiceName}

func isServed(name string) bool { return slices.Contains(served, name) }

// Keepalive: a peer that says nothing for pingAfter is asked, and given up when it does not answer within pingAnswer. Callers may
// ask themselves every callerPings.
const (
	pingAfter   = 5 * time.Second
	pingAnswer  = 5 * time.Second
	callerPings = 5 * time.Second
	// idle is how long a connection without a call is kept.
	idle = 15 * time.Minute
	// maxHeaders bounds a call's metadata, in bytes.
	maxHeaders = 16 << 10
	// hardMessage is by how much a request may be above Limits.Message and still be refused in our words; gRPC reads no more than that.
	hardMessage = 4
)

// New opens the sockets and reads the certificates. A Unix socket that a dead process left is replaced; one that somebody listens on is an error.
// Nothing is accepted before Serve, which must be called to close them.
func New(config Config) (_ *Server, err error) {
	config.Limits = config.Limits.withDefaults()
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s := &Server{config: config, health: health.NewServer()}
	if config.TLS != nil {
		trust, err := loadTrust(*config.TLS)
		if err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
		if over := trust.over(time.Now()); over != nil {
			// The data plane and the operators' socket should not be down for it.
			config.Log.Error("TLS", "error", over)
		}
		s.trust.Store(trust)
	}
	if config.Peers != nil {
		trust, err := loadTrust(config.Peers.TLS)
		if err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
		s.peers.Store(trust)
	}
	s.gate = newGate(config, &s.trust, &s.peers)
	for _, name := range served {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.shut())
		}
	}()
	if config.Socket != "" {
		bound, err := listenSocket(config.Socket, config.Group)
		if err != nil {
			return nil, err
		}
		s.open(bound, overSocket)
	}
	if config.Listen != "" {
		bound, err := listenTCP(config.Listen)
		if err != nil {
			return nil, fmt.Errorf("server: listen on %s (api.listen): %w", config.Listen, err)
		}
		s.address = bound.Addr().String()
		if config.Plaintext {
			s.open(bound, overPlainTCP)
		} else {
			s.open(bound, overTLS)
		}
	}
	if config.Peers != nil {
		bound, err := listenTCP(config.Peers.Listen)
		if err != nil {
			return nil, fmt.Errorf("server: listen on %s (cluster.listen): %w", config.Peers.Listen, err)
		}
		s.open(bound, overPeers)
	}
	return s, nil
}

func (c Config) check() error {
	switch {
	case c.Jobs == nil || c.Node == nil || c.Events == nil || c.Cluster == nil:
		return errors.New("nothing to serve: Jobs, Node, Events and Cluster are needed")
	case c.Socket == "" && c.Listen == "":
		return errors.New("nowhere to serve; give api.socket or api.listen")
	case c.Listen == "" && (c.TLS != nil || c.Plaintext):
		return errors.New("TLS or plain TCP without an address; give api.listen")
	case c.Listen != "" && c.TLS != nil && c.Plaintext:
		return errors.New("both TLS and plain TCP; take api.tls or api.plaintext away")
	case c.Listen != "" && c.TLS == nil && !c.Plaintext:
		return errors.New("a TCP address without TLS; give api.tls, or say with api.plaintext that anyone who reaches the port may join")
	}
	return nil
}

// open puts a gRPC server behind a listener, with the same services behind the same gate whichever it is.
func (s *Server) open(inner net.Listener, way way) {
	limits := s.config.Limits
	shake := &handshake{way: way, trust: &s.trust, log: s.config.Log, lines: rate.NewLimiter(10, 20)}
	switch {
	case way == overPeers:
		shake.trust, shake.files = &s.peers, s.config.Peers.TLS
	case s.config.TLS != nil:
		shake.files = *s.config.TLS
	}
	server := grpc.NewServer(
		grpc.Creds(shake),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.UnknownServiceHandler(s.gate.unknown),
		grpc.MaxRecvMsgSize(hardMessage*limits.Message),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(uint32(limits.StreamsPerConnection)),
		grpc.ConnectionTimeout(limits.Handshake),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingAnswer, MaxConnectionIdle: idle}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: callerPings, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
		s.config.told(),
	)
	gated := registrar{Server: server, gate: s.gate}
	v1.RegisterJobServiceServer(gated, jobService{jobs: s.config.Jobs})
	v1.RegisterWorkerServiceServer(gated, workerService{jobs: s.config.Jobs})
	v1.RegisterNodeServiceServer(gated, nodeService{node: s.config.Node, events: s.config.Events})
	v1.RegisterClusterServiceServer(gated, clusterService{cluster: s.config.Cluster})
	if way == overPeers {
		v1.RegisterPeerServiceServer(gated, s.config.Peers.Service)
	}
	healthpb.RegisterHealthServer(gated, s.health)
	reflection.Register(gated)
	s.doors = append(s.doors, door{listener: newListener(inner, limits, s.config.Log), server: server})
}

// shut closes what New opened when Serve will not.
func (s *Server) shut() error {
	var err error
	for _, door := range s.doors {
		err = errors.Join(err, door.listener.Close())
		door.server.Stop()
	}
	return err
}

// Serve serves until ctx ends, and then goes away: health says NOT_SERVING, new calls are refused, Config.Leaving is called, calls that are
// there end with a refusal, and the sockets are closed. It returns nil then, or why it could not serve.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, len(s.doors))
	var serving sync.WaitGroup
	for _, door := range s.doors {
		serving.Go(func() {
			if err := door.server.Serve(door.listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				failed <- fmt.Errorf("server: %s: %w", door.listener.Addr(), err)
			}
		})
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.leave()
	serving.Wait()
	s.gate.sends.Wait()
	return err
}

// leave ends what is there, in order.
func (s *Server) leave() {
	s.gate.leaving.Store(true)
	s.health.Shutdown()
	s.gate.closed.Store(true)
	if s.config.Leaving != nil {
		s.config.Leaving()
	}
	s.gate.endAll(shuttingDown())
	var stopping sync.WaitGroup
	for _, door := range s.doors {
		stopping.Go(door.server.GracefulStop)
	}
	for _, door := range s.doors {
		door.listener.closeMute()
	}
	stopped := make(chan struct{})
	go func() {
		stopping.Wait()
		close(stopped)
	}()
	bound := time.NewTimer(s.config.Limits.Leave)
	defer bound.Stop()
	select {
	case <-stopped:
	case <-bound.C:
		s.config.Log.Warn("calls did not end in time, and are cut off", "bound", s.config.Limits.Leave)
		s.gate.endWatches(shuttingDown())
		for _, door := range s.doors {
			door.server.Stop()
		}
		<-stopped
	}
	s.gate.endWatches(shuttingDown())
}

// Reload reads the certificates again. On an error the old ones stay. New connections get the new ones; calls that are there go on; new calls on
// old connections are held to the new authorities.
func (s *Server) Reload() error {
	fresh := map[*atomic.Pointer[trust]]*trust{}
	files := map[*atomic.Pointer[trust]]*TLS{&s.trust: s.config.TLS}
	if s.config.Peers != nil {
		files[&s.peers] = &s.config.Peers.TLS
	}
	for of, from := range files {
		if from == nil {
			continue
		}
		trust, err := loadTrust(*from)
		if err != nil {
			return fmt.Errorf("server: the certificates stay as they were: %w", err)
		}
		if err := trust.over(time.Now()); err != nil {
			return fmt.Errorf("server: the certificates stay as they were: %w", err)
		}
		fresh[of] = trust
	}
	for of, trust := range fresh {
		of.Store(trust)
	}
	return nil
}

// CertificateEnds is when callers will begin to refuse the appliance's certificate. It is false without TLS.
func (s *Server) CertificateEnds() (time.Time, bool) {
	trust := s.trust.Load()
	if trust == nil {
		return time.Time{}, false
	}
	return trust.own.NotAfter, true
}

// Addr is the TCP address that is listened on, for a Listen with port 0; empty: none.
func (s *Server) Addr() string { return s.address }
