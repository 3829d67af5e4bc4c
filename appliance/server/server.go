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
	"log/slog"

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
	Log     *slog.Logger
}

// Server is the API on its sockets.
type Server struct {
	config Config
}

// New opens the sockets and reads the certificates. A Unix socket that a dead process left is replaced; one that somebody listens on is an error.
// Nothing is accepted before Serve, which must be called to close them.
func New(config Config) (*Server, error) {
	return nil, errors.New("server: not served")
}

// Serve serves until ctx ends, and then goes away: health says NOT_SERVING, new calls are refused, Config.Leaving is called, calls that are
// there end with a refusal, and the sockets are closed. It returns nil then, or why it could not serve.
func (s *Server) Serve(ctx context.Context) error { return errors.New("server: not served") }

// Reload reads the certificates again. On an error the old ones stay. New connections get the new ones; calls that are there go on; new calls on
// old connections are held to the new authorities.
func (s *Server) Reload() error { return errors.New("server: not served") }

// Addr is the TCP address that is listened on, for a Listen with port 0; empty: none.
func (s *Server) Addr() string { return "" }
