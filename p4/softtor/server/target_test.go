package server_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"spillway/p4/client"
	"spillway/p4/p4info"
	"spillway/p4/pipeline"
	"spillway/p4/softtor/dataplane"
	"spillway/p4/softtor/server"
)

// Every test must end without goroutines of servers or clients.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const device = 7

// What the targets of tests can hold.
const (
	slots    = 64
	elements = 32
)

// ports are the ports of the targets of tests.
var ports = []dataplane.Port{1, 2, 3, 4, 64}

// target is a running server over a data plane in the kernel, on veths in a network namespace of its own.
type target struct {
	*dataplane.Dataplane
	listener *bufconn.Listener
	stop     func()
}

// newTarget starts a target, which ends with the test.
func newTarget(t *testing.T) *target {
	t.Helper()
	tor := &target{Dataplane: newDataplane(t), listener: bufconn.Listen(1 << 20)}
	s, err := server.New(server.Config{Device: device, Info: pipeline.Software(), Dataplane: tor.Dataplane})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, tor.listener) }()
	stopped := false
	tor.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(tor.stop)
	return tor
}

// newDataplane loads a data plane with its ports on veths, until the test ends.
func newDataplane(t testing.TB) *dataplane.Dataplane {
	t.Helper()
	dp, err := dataplane.Load(dataplane.Config{Slots: slots, Elements: elements})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() {
		if err := dp.Close(); err != nil {
			t.Error(err)
		}
	})
	attached := make(chan error)
	go func() { attached <- attach(dp) }()
	if err := <-attached; err != nil {
		t.Fatal(err)
	}
	return dp
}

// attach runs on a thread that ends with it, and with it its namespace but for what the data plane holds.
func attach(dp *dataplane.Dataplane) error {
	runtime.LockOSThread()
	ns, err := netns.New()
	if err != nil {
		return err
	}
	defer ns.Close()
	for _, port := range ports {
		name := fmt.Sprintf("port%d", port)
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "peer" + name}); err != nil {
			return err
		}
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := dp.AttachPort(port, link.Attrs().Index); err != nil {
			return err
		}
	}
	return nil
}

// deadline bounds a test, so that one that hangs says where.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func (tor *target) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return tor.listener.DialContext(ctx) })}
}

// dial opens a session with an election id (0: none) that ends with the test.
func (tor *target) dial(t *testing.T, role string, election uint64) *client.Client {
	t.Helper()
	c, err := tor.tryDial(t, role, election)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (tor *target) tryDial(t *testing.T, role string, election uint64) (*client.Client, error) {
	t.Helper()
	config := client.Config{Target: "passthrough:tor", Device: device, Role: role, Info: pipeline.Software(), Options: tor.options()}
	if election != 0 {
		config.Election = &client.ElectionID{Low: election}
	}
	c, err := client.Dial(deadline(t), config)
	if err == nil {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return c, err
}

// primary opens a session that is primary, and pushes the pipeline.
func (tor *target) primary(t *testing.T) *client.Client {
	t.Helper()
	c := tor.dial(t, "", 1)
	if now, _ := c.Arbitration(); !now.Primary() {
		t.Fatalf("the only controller is %s", now)
	}
	p, err := client.NewPipeline(pipeline.Software(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if pushed, err := c.EnsurePipeline(deadline(t), p, false); err != nil || !pushed {
		t.Fatalf("pushed %v, error %v", pushed, err)
	}
	return c
}

// raw is the generated client, for requests that the client would not make.
func (tor *target) raw(t *testing.T) p4v1.P4RuntimeClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:tor", append(tor.options(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return p4v1.NewP4RuntimeClient(conn)
}

// entry is the message of an entry.
func entry(t testing.TB, e p4info.Entry) *p4v1.TableEntry {
	t.Helper()
	m, err := pipeline.Software().Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func tableEntity(m *p4v1.TableEntry) *p4v1.Entity {
	return &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: m}}
}

func update(kind p4v1.Update_Type, e *p4v1.Entity) *p4v1.Update {
	return &p4v1.Update{Type: kind, Entity: e}
}

func call(action string, args ...any) p4info.Call {
	c := p4info.Call{Action: action}
	for n := 0; n < len(args); n += 2 {
		c.Args = append(c.Args, p4info.Arg{Param: args[n].(string), Value: uint64(args[n+1].(int))})
	}
	return c
}

// serverFor is the error of making a server for a program.
func serverFor(info *p4info.Info) error {
	_, err := server.New(server.Config{Device: device, Info: info})
	return err
}
