package worker

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
)

// appliance is a gRPC server on the loopback interface that says what a test wants: for orders of events that a real one seldom gives.
type appliance struct {
	v1.UnimplementedWorkerServiceServer
	network, address string
	calls            chan *call
	left             chan *v1.LeaveRequest
	leave            func(ctx context.Context) error // nil: takes it

	server  *grpc.Server
	serving sync.WaitGroup
}

// call is a Join that a test answers.
type call struct {
	request *v1.JoinRequest
	stream  grpc.ServerStreamingServer[v1.JoinResponse]
	end     chan error // what is sent here ends it
	ended   <-chan struct{}
}

// newAppliance serves over TCP, or on a Unix socket if there is a path.
func newAppliance(t *testing.T, socket string) *appliance {
	t.Helper()
	a := &appliance{network: "tcp", address: "127.0.0.1:0", calls: make(chan *call, 16), left: make(chan *v1.LeaveRequest, 16)}
	if socket != "" {
		a.network, a.address = "unix", socket
	}
	a.start(t)
	t.Cleanup(a.stop)
	return a
}

// target is the address for Join.
func (a *appliance) target() string {
	if a.network == "unix" {
		return "unix://" + a.address
	}
	return a.address
}

func (a *appliance) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen(a.network, a.address)
	if err != nil {
		t.Fatal(err)
	}
	a.address = listener.Addr().String()
	server := grpc.NewServer()
	v1.RegisterWorkerServiceServer(server, a)
	a.server = server
	a.serving.Go(func() {
		if err := server.Serve(listener); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

// stop ends all calls at once, as a process that is killed does.
func (a *appliance) stop() {
	a.server.Stop()
	a.serving.Wait()
}

// Join implements v1.WorkerServiceServer.
func (a *appliance) Join(request *v1.JoinRequest, stream grpc.ServerStreamingServer[v1.JoinResponse]) error {
	c := &call{request: request, stream: stream, end: make(chan error), ended: stream.Context().Done()}
	a.calls <- c
	select {
	case err := <-c.end:
		return err
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// Leave implements v1.WorkerServiceServer.
func (a *appliance) Leave(ctx context.Context, request *v1.LeaveRequest) (*v1.LeaveResponse, error) {
	if a.leave != nil {
		if err := a.leave(ctx); err != nil {
			return nil, err
		}
	}
	a.left <- request
	return &v1.LeaveResponse{}, nil
}

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

// next is the next call that comes in.
func (a *appliance) next(t *testing.T) *call {
	t.Helper()
	select {
	case c := <-a.calls:
		return c
	case <-time.After(patience):
		t.Fatal("nobody calls")
		return nil
	}
}

func (c *call) say(t *testing.T, response *v1.JoinResponse) {
	t.Helper()
	if err := c.stream.Send(response); err != nil {
		t.Fatal(err)
	}
}

func (c *call) notice(t *testing.T, kind v1.NoticeKind, text string, ranks ...uint32) {
	t.Helper()
	c.say(t, &v1.JoinResponse{Update: &v1.JoinResponse_Notice{Notice: &v1.Notice{Kind: kind, Text: text, Ranks: ranks}}})
}

func (c *call) waiting(t *testing.T, workers uint32, missing ...uint32) {
	t.Helper()
	c.say(t, &v1.JoinResponse{Update: &v1.JoinResponse_Waiting{Waiting: &v1.Waiting{Workers: workers, Missing: missing}}})
}

func (c *call) parameters(t *testing.T, p Params) {
	t.Helper()
	c.say(t, &v1.JoinResponse{Update: &v1.JoinResponse_Parameters{Parameters: said(p)}})
}

// said is what an appliance says of parameters.
func said(p Params) *v1.Parameters {
	s := &v1.Parameters{
		JobId: uint32(p.Job), Generation: uint32(p.Generation), Cookie: p.Cookie, Rank: uint32(p.Rank), Workers: uint32(p.Workers),
		Elements: uint32(p.Elements), Elastic: p.Elastic, WireBits: uint32(p.WireBits), Window: uint32(p.Window), Priority: uint32(p.Priority),
		WorkerPort: uint32(p.WorkerPort), Address: p.Addr.String(),
		MinRto: durationpb.New(p.MinRTO), MaxRto: durationpb.New(p.MaxRTO), Silence: durationpb.New(p.Silence),
	}
	if p.Group.IsValid() {
		s.Group = p.Group.String()
	}
	for _, h := range p.Homes {
		s.Homes = append(s.Homes, &v1.Home{Address: h.Addr.Addr().String(), Port: uint32(h.Addr.Port()), Ports: uint32(max(h.Ports, 1))})
	}
	if q := p.Policy; q != (Policy{}) {
		s.Quorum = &v1.Quorum{Workers: uint32(q.Quorum), After: durationpb.New(q.After), MaxLag: uint32(q.MaxLag)}
	}
	if r := p.Tor; r != nil {
		s.Tor = &v1.Region{Base: uint32(r.Base), Slots: uint32(r.Slots), Period: r.Period, Offset: uint32(r.Offset)}
	}
	return s
}
