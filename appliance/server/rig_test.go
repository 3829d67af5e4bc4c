package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/certs"
	"spillway/appliance/events"
	"spillway/appliance/jobs"
	"spillway/appliance/refusal"
	"spillway/appliance/server"
	"spillway/xdp"
)

// TestMain fails when goroutines or files are left at the end.
func TestMain(m *testing.M) {
	before := openFiles()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for deadline := time.Now().Add(patience); openFiles() > before && time.Now().Before(deadline); {
			<-time.After(5 * time.Millisecond)
		}
		if left := openFiles(); left > before && code == 0 {
			fmt.Fprintf(os.Stderr, "%d files are open, %d were before the tests\n", left, before)
			code = 1
		}
		os.Exit(code)
	}))
}

// patience is how long a test waits for what must come.
const patience = 15 * time.Second

// rig is a server on real sockets, with a manager of jobs and an aggregator behind it.
type rig struct {
	*server.Server
	config     server.Config
	events     *events.Log
	node       *node
	jobs       *jobs.Manager
	aggregator *xdp.Aggregator
	dir        string
	lab        *certs.Authority
	log        *record

	stop    context.CancelFunc
	stopped chan error
}

// record is what the server logged.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(line)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// until waits for something to be in the log.
func (r *record) until(t *testing.T, words string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%q in the log", words), func() bool { return strings.Contains(r.String(), words) })
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %v: %s", patience, what)
		case <-tick.C:
		}
	}
}

// start serves with TLS until the test ends, or stop is called; change changes the configuration.
func start(t testing.TB, change func(*server.Config)) *rig {
	t.Helper()
	return startWith(t, func(r *rig) {
		if change != nil {
			change(&r.config)
		}
	})
}

// startWith is start where the change needs the rig.
func startWith(t testing.TB, change func(*rig)) *rig {
	t.Helper()
	// Not t.TempDir: the name of a test makes the path too long for a socket.
	dir, err := os.MkdirTemp("", "spillway")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	lab, err := certs.NewAuthority("lab", 0)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{dir: dir, lab: lab, log: &record{}, events: events.New(0), node: &node{}}
	r.issueOwn(t, lab)
	if err := lab.Write(dir, false); err != nil {
		t.Fatal(err)
	}
	manager, aggregator := newManager(t, dir, r.events)
	r.node.manager, r.jobs, r.aggregator = manager, manager, aggregator
	r.config = server.Config{
		Jobs: manager, Node: r.node, Cluster: r.node, Events: r.events,
		Socket: filepath.Join(dir, "s"), Listen: "127.0.0.1:0",
		TLS:    &server.TLS{Certificate: filepath.Join(dir, "own.crt"), Key: filepath.Join(dir, "own.key"), Authorities: filepath.Join(dir, "ca.crt")},
		Limits: server.Limits{CallsPerSecond: 1e6, Leave: 2 * time.Second},
		Log:    slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	change(r)
	if r.Server, err = server.New(r.config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop, r.stopped = cancel, make(chan error, 1)
	go func() { r.stopped <- r.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		r.gone(t)
		if t.Failed() {
			t.Logf("log:\n%s", r.log)
		}
	})
	return r
}

// gone waits until Serve has returned.
func (r *rig) gone(t testing.TB) {
	t.Helper()
	select {
	case err := <-r.stopped:
		if err != nil {
			t.Errorf("serve: %v", err)
		}
		r.stopped <- nil
	case <-time.After(patience):
		t.Error("the server does not go away")
	}
}

func (r *rig) issueOwn(t testing.TB, by *certs.Authority) {
	t.Helper()
	own, err := by.Issue(certs.Request{Name: "appliance", Server: true, Addresses: []netip.Addr{loopback}})
	if err == nil {
		own.Authority = nil
		err = own.Write(r.dir, "own", true)
	}
	if err != nil {
		t.Fatal(err)
	}
}

var loopback = netip.MustParseAddr("127.0.0.1")

func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	return len(entries)
}

// issue makes a caller's TLS configuration.
func (r *rig) issue(t testing.TB, request certs.Request) *tls.Config {
	t.Helper()
	return issueBy(t, r.lab, r.lab, request)
}

func issueBy(t testing.TB, by, knows *certs.Authority, request certs.Request) *tls.Config {
	t.Helper()
	if request.Name == "" {
		request.Name = "caller"
	}
	pair, err := by.Issue(request)
	if err != nil {
		t.Fatal(err)
	}
	pair.Authority = knows.PEM()
	config, err := pair.ClientTLS()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func operator() certs.Request {
	return certs.Request{Name: "op", Identity: certs.Identity{Operator: true}}
}

func worker(jobs ...string) certs.Request {
	return certs.Request{Name: "worker", Identity: certs.Identity{Jobs: jobs}}
}

// overSocket and overTCP are connections that end with the test. A nil configuration is plain TCP.
func (r *rig) overSocket(t testing.TB) *grpc.ClientConn { return dial(t, "unix:"+r.config.Socket, nil) }

func (r *rig) overTCP(t testing.TB, config *tls.Config) *grpc.ClientConn {
	return dial(t, r.Addr(), config)
}

func dial(t testing.TB, target string, config *tls.Config, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	secure := insecure.NewCredentials()
	if config != nil {
		secure = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(secure))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil && status.Code(err) != codes.Canceled { // closed already
			t.Error(err)
		}
	})
	return conn
}

// within is a context for what must come soon.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// call calls any method, with any message or bytes, and returns the first response, or the refusal. A stream is ended after it.
func call(ctx context.Context, conn *grpc.ClientConn, method string, request any) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, grpc.ForceCodecV2(raw{}))
	if err != nil {
		return nil, err
	}
	if message, ok := request.(proto.Message); ok {
		if request, err = proto.Marshal(message); err != nil {
			return nil, err
		}
	}
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) { // EOF: RecvMsg knows why
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	var response []byte
	err = stream.RecvMsg(&response)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return response, err
}

// wantRefusal fails unless an error is a refusal with a reason, and with words in its text.
func wantRefusal(t testing.TB, err error, reason refusal.Reason, words ...string) {
	t.Helper()
	refused := refusal.Of(err)
	if refused == nil || refused.Reason != reason {
		t.Errorf("%v, want a refusal with %s", err, reason)
		return
	}
	for _, word := range words {
		if !strings.Contains(refused.Text, word) {
			t.Errorf("%q does not say %q", refused.Text, word)
		}
	}
}

// node answers with what the manager of jobs has, and with what a test sets.
type node struct {
	manager  *jobs.Manager
	diagnose func(ctx context.Context, job string) (*v1.DiagnoseResponse, error)
}

func (n *node) ListNodes(context.Context) (*v1.ListNodesResponse, error) {
	return &v1.ListNodesResponse{Nodes: n.manager.Nodes()}, nil
}
func (n *node) DrainNode(ctx context.Context, name string) (*v1.DrainNodeResponse, error) {
	moved, err := n.manager.DrainNode(ctx, name)
	return &v1.DrainNodeResponse{Moved: moved}, err
}
func (n *node) UndrainNode(_ context.Context, name string) (*v1.UndrainNodeResponse, error) {
	return &v1.UndrainNodeResponse{}, n.manager.UndrainNode(name)
}
func (n *node) ForgetNode(_ context.Context, name string) (*v1.ForgetNodeResponse, error) {
	return &v1.ForgetNodeResponse{}, n.manager.ForgetNode(name)
}
func (n *node) Node(context.Context) (*v1.GetNodeResponse, error) {
	return &v1.GetNodeResponse{Name: "agg0", Capacity: n.manager.Capacity()}, nil
}
func (n *node) Workers(_ context.Context, job string) (*v1.ListWorkersResponse, error) {
	workers, err := n.manager.Workers(job)
	return &v1.ListWorkersResponse{Workers: workers}, err
}
func (n *node) Slots(context.Context, *v1.ListSlotsRequest) (*v1.ListSlotsResponse, error) {
	return &v1.ListSlotsResponse{}, nil
}
func (n *node) Levels(context.Context, string) (*v1.ListLevelsResponse, error) {
	return &v1.ListLevelsResponse{}, nil
}
func (n *node) Counters(context.Context, string) (*v1.ListCountersResponse, error) {
	return &v1.ListCountersResponse{}, nil
}
func (n *node) Switch(context.Context, bool) (*v1.GetSwitchResponse, error) {
	return &v1.GetSwitchResponse{}, nil
}
func (n *node) Diagnose(ctx context.Context, job string) (*v1.DiagnoseResponse, error) {
	if n.diagnose != nil {
		return n.diagnose(ctx, job)
	}
	return &v1.DiagnoseResponse{}, nil
}
