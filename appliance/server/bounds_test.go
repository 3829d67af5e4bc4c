package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/appliance/server"
)

// follow opens a stream of events and returns when the server has sent one.
func follow(t testing.TB, r *rig, ctx context.Context, conn *grpc.ClientConn) grpc.ServerStreamingClient[v1.StreamEventsResponse] {
	t.Helper()
	r.events.Add(v1.EventLevel_EVENT_LEVEL_INFO, "test", "", nil, "an event")
	stream, err := v1.NewNodeServiceClient(conn).StreamEvents(ctx, &v1.StreamEventsRequest{Follow: true, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	return stream
}

func limited(limits server.Limits) func(*server.Config) {
	return func(config *server.Config) {
		if limits.CallsPerSecond == 0 {
			limits.CallsPerSecond = config.Limits.CallsPerSecond
		}
		limits.Leave = config.Limits.Leave
		config.Limits = limits
	}
}

func getNode(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := v1.NewNodeServiceClient(conn).GetNode(ctx, &v1.GetNodeRequest{})
	return err
}

func TestRequestTooLarge(t *testing.T) {
	r := start(t, nil)
	conn := r.overTCP(t, r.issue(t, worker("a")))
	join := &v1.JoinRequest{Job: "a", Description: strings.Repeat("x", 70_000)}
	_, err := call(within(t), conn, v1.WorkerService_Join_FullMethodName, join)
	wantRefusal(t, err, refusal.TooMany, "more than 65536", "api.limits.message")
	// gRPC itself reads no more than this, and says so in its own words.
	join.Description = strings.Repeat("x", 300_000)
	_, err = call(within(t), conn, v1.WorkerService_Join_FullMethodName, join)
	if got := refusal.Of(err); got == nil || got.Code != codes.ResourceExhausted {
		t.Errorf("%v, want RESOURCE_EXHAUSTED", err)
	}
	// Who may not call at all is told that, however much was sent.
	_, err = call(within(t), conn, v1.JobService_CreateJob_FullMethodName, join)
	wantRefusal(t, err, refusal.NotAuthorised)
}

func TestRequestThatIsNone(t *testing.T) {
	r := clustered(t)
	socket, peers := r.overSocket(t), dial(t, r.PeersAddr(), r.issue(t, appliance("agg1")))
	for method, request := range requests {
		if request.ProtoReflect().Descriptor().Fields().Len() == 0 && !strings.Contains(method, "List") {
			continue
		}
		conn := socket
		if strings.HasPrefix(method, "/spillway.v1.PeerService/") {
			conn = peers
		}
		_, err := call(within(t), conn, method, []byte{0xff, 0xff, 0xff})
		wantRefusal(t, err, refusal.BadRequest, "another version")
	}
}

func TestCallsPerSecond(t *testing.T) {
	r := start(t, limited(server.Limits{CallsPerSecond: 0.001, Burst: 3}))
	config := r.issue(t, operator())
	conn := r.overTCP(t, config)
	for n := range 3 {
		if err := getNode(within(t), conn); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
	}
	wantRefusal(t, getNode(within(t), conn), refusal.TooMany, "127.0.0.1", "api.limits.calls_per_second")
	// It is the address that counts, not the connection; and others are not held up.
	wantRefusal(t, getNode(within(t), r.overTCP(t, config)), refusal.TooMany)
	if err := getNode(within(t), r.overSocket(t)); err != nil {
		t.Errorf("over the socket: %v", err)
	}
	elsewhere := dial(t, r.Addr(), config, grpc.WithContextDialer(from("127.0.0.2")))
	if err := getNode(within(t), elsewhere); err != nil {
		t.Errorf("from another address: %v", err)
	}
	r.log.until(t, "reason=TOO_MANY")
}

// from dials from an address of this host.
func from(address string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, target string) (net.Conn, error) {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		return dialer.DialContext(ctx, "tcp", target)
	}
}

func TestCallsAtOnce(t *testing.T) {
	r := start(t, limited(server.Limits{StreamsPerIdentity: 2}))
	ofA, ofB := r.issue(t, operator()), r.overSocket(t)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	follow(t, r, ctx, r.overTCP(t, ofA))
	follow(t, r, within(t), r.overTCP(t, ofA))
	third := r.overTCP(t, ofA)
	wantRefusal(t, getNode(within(t), third), refusal.TooMany, "2 calls of spillway://operator")
	if err := getNode(within(t), ofB); err != nil {
		t.Errorf("another identity: %v", err)
	}
	cancel()
	eventually(t, "a call when one has ended", func() bool { return getNode(within(t), third) == nil })
}

func TestConnections(t *testing.T) {
	r := start(t, limited(server.Limits{Connections: 4, ConnectionsPerPeer: 2}))
	config := r.issue(t, operator())
	first := r.overTCP(t, config)
	for _, conn := range []*grpc.ClientConn{first, r.overTCP(t, config)} {
		if err := getNode(within(t), conn); err != nil {
			t.Fatal(err)
		}
	}
	third := r.overTCP(t, config)
	wantRefusal(t, getNode(within(t), third), refusal.TooMany, "more than 2 of one address", "api.limits.connections")
	for _, address := range []string{"127.0.0.2", "127.0.0.3"} {
		// The refused connection may still be there, or again, and is among the four.
		conn := dial(t, r.Addr(), config, grpc.WithContextDialer(from(address)))
		eventually(t, "a connection from "+address, func() bool { return getNode(within(t), conn) == nil })
	}
	if err := getNode(within(t), r.overSocket(t)); err != nil {
		t.Errorf("workers keep an operator out: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a connection when one has gone", func() bool { return getNode(within(t), third) == nil })
	// Those that only connect are closed when there are far too many.
	for range 40 {
		conn, err := net.Dial("tcp", r.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	r.log.until(t, "connections of 127.0.0.1 are open")
}

func TestUnaryDeadline(t *testing.T) {
	r := start(t, limited(server.Limits{Unary: 100 * time.Millisecond}))
	r.node.diagnose = func(ctx context.Context, _ string) (*v1.DiagnoseResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	client := v1.NewNodeServiceClient(r.overSocket(t))
	_, err := client.Diagnose(context.Background(), &v1.DiagnoseRequest{})
	wantRefusal(t, err, refusal.TimeOver, "Diagnose took longer than 100ms")
	_, err = client.Diagnose(within(t), &v1.DiagnoseRequest{}) // asks for longer than there is
	wantRefusal(t, err, refusal.TimeOver, "took longer than 600ms")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Diagnose(ctx, &v1.DiagnoseRequest{}); refusal.Of(err) == nil || refusal.Of(err).Code != codes.DeadlineExceeded {
		t.Errorf("the caller's own deadline: %v", err)
	}
}

func TestPanic(t *testing.T) {
	r := start(t, nil)
	r.node.diagnose = func(context.Context, string) (*v1.DiagnoseResponse, error) { panic("out of cheese") }
	conn := r.overSocket(t)
	_, err := v1.NewNodeServiceClient(conn).Diagnose(within(t), &v1.DiagnoseRequest{})
	wantRefusal(t, err, refusal.Internal, "NodeService/Diagnose ran into a bug")
	r.log.until(t, "out of cheese")
	if !strings.Contains(r.log.String(), "bounds_test.go") {
		t.Error("the log has no stack")
	}
	if err := getNode(within(t), conn); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestErrorsOfOthers: whatever a handler returns leaves as a refusal.
func TestErrorsOfOthers(t *testing.T) {
	r := start(t, nil)
	client := v1.NewNodeServiceClient(r.overSocket(t))
	for _, test := range []struct {
		err    error
		reason refusal.Reason
		code   codes.Code
		text   string
	}{
		{refusal.New(codes.FailedPrecondition, refusal.NoSwitch, "there is none; name one"), refusal.NoSwitch, codes.FailedPrecondition, "there is none; name one"},
		{errors.New("disk on fire"), refusal.Internal, codes.Internal, "disk on fire"},
		{context.DeadlineExceeded, refusal.TimeOver, codes.DeadlineExceeded, "give it longer"},
		{io.EOF, refusal.Internal, codes.Internal, "EOF"},
	} {
		r.node.diagnose = func(context.Context, string) (*v1.DiagnoseResponse, error) { return nil, test.err }
		_, err := client.Diagnose(within(t), &v1.DiagnoseRequest{})
		wantRefusal(t, err, test.reason, test.text)
		if got := refusal.Of(err); got.Code != test.code {
			t.Errorf("%v: code %s", test.err, got.Code)
		}
	}
}

// TestNoRequest: a stream is opened, and nothing comes.
func TestNoRequest(t *testing.T) {
	r := start(t, limited(server.Limits{Unary: 100 * time.Millisecond}))
	for _, method := range []string{v1.WorkerService_Join_FullMethodName, v1.NodeService_GetNode_FullMethodName, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"} {
		stream, err := r.overSocket(t).NewStream(within(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, grpc.ForceCodecV2(raw{}))
		if err != nil {
			t.Fatal(err)
		}
		var response []byte
		wantRefusal(t, stream.RecvMsg(&response), refusal.TimeOver)
	}
}

// TestSlowReader: a caller follows events and does not read.
func TestSlowReader(t *testing.T) {
	r := start(t, limited(server.Limits{Send: time.Second}))
	conn := dial(t, r.Addr(), r.issue(t, operator()), grpc.WithStaticStreamWindowSize(1<<16), grpc.WithStaticConnWindowSize(1<<16))
	stream := follow(t, r, within(t), conn)
	for range 1000 {
		r.events.Add(v1.EventLevel_EVENT_LEVEL_INFO, "test", "", nil, "%s", strings.Repeat("x", 1000))
	}
	r.log.until(t, "reason=SLOW_READER")
	// Who reads on soon hears why.
	var err error
	for err == nil {
		_, err = stream.Recv()
	}
	wantRefusal(t, err, refusal.SlowReader, "read faster")
	// Whoever does not loses the connection, and what was kept for it.
	stuck := dial(t, r.Addr(), r.issue(t, operator()), grpc.WithStaticStreamWindowSize(1<<16), grpc.WithStaticConnWindowSize(1<<16))
	follow(t, r, within(t), stuck)
	for range 1000 {
		r.events.Add(v1.EventLevel_EVENT_LEVEL_INFO, "test", "", nil, "%s", strings.Repeat("x", 1000))
	}
	begun := time.Now()
	if !stuck.WaitForStateChange(within(t), connectivity.Ready) {
		t.Error("the connection of a reader that stands still stays")
	}
	if took := time.Since(begun); took < 1900*time.Millisecond || took > 5*time.Second {
		t.Errorf("the connection ended after %v, want twice the bound of 1s", took)
	}
}

// TestVanishedClient: the other end is gone without a word, behind a wire that takes nothing any more.
func TestVanishedClient(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	wire := newWire(t, r.Addr())
	conn := dial(t, wire.address, r.issue(t, operator()))
	follow(t, r, within(t), conn)
	wire.cut()
	cut := time.Now()
	eventually(t, "the end of the call", func() bool { return strings.Contains(r.log.String(), "method=NodeService/StreamEvents") })
	if took := time.Since(cut); took > 11*time.Second {
		t.Errorf("noticed after %v", took)
	}
}

// wire carries bytes between a client and the server until it is cut; then it is silent, and closes nothing.
type wire struct {
	address string
	silent  chan struct{}
	ends    []net.Conn
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{address: listener.Addr().String(), silent: make(chan struct{})}
	ready := make(chan struct{})
	done := make(chan struct{}, 2)
	go func() {
		defer close(ready)
		near, err := listener.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		far, err := net.Dial("tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		w.ends = []net.Conn{near, far}
		for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
			go func() {
				defer func() { done <- struct{}{} }()
				w.carry(way[0], way[1])
			}()
		}
	}()
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		<-ready
		for _, end := range w.ends {
			_ = end.Close() // a test may have closed it
		}
		for range w.ends {
			<-done
		}
	})
	return w
}

func (w *wire) carry(from, to net.Conn) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		select {
		case <-w.silent:
			return
		default:
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (w *wire) cut() { close(w.silent) }

// TestSilentConnection: somebody connects and says nothing, in the clear or half way into TLS.
func TestSilentConnection(t *testing.T) {
	r := start(t, limited(server.Limits{Handshake: 100 * time.Millisecond}))
	open := start(t, func(config *server.Config) {
		plain(config)
		config.Limits.Handshake = 100 * time.Millisecond
	})
	for name, address := range map[string]string{"TLS": r.Addr(), "plain": open.Addr()} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: still open after %v", name, patience)
		} else if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("%s: still open after %v", name, patience)
		}
	}
	// TLS is done, and HTTP/2 does not begin.
	secured, err := tls.Dial("tcp", r.Addr(), r.issue(t, operator()))
	if err != nil {
		t.Fatal(err)
	}
	defer secured.Close()
	if err := secured.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, secured); err != nil {
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("after TLS: still open after %v", patience)
		}
	}
}
