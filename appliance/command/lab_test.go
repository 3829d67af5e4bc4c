package command_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	v1 "spillway/appliance/api/spillway/v1"
)

// patience is how long anything may take that a test waits for.
const patience = 20 * time.Second

// lab is an aggregator's host and two workers' on a bridge, each a network namespace, and a bpffs.
type lab struct {
	*testing.T
	dir     string
	home    netns.NsHandle
	workers []netns.NsHandle
	bridge  netns.NsHandle // with a ToR, nothing
}

func workerAddress(rank int) string { return fmt.Sprintf("10.9.0.%d", 10+rank) }

const (
	homeAddress = "10.9.0.1"
	homeLink    = "data"
)

func newLab(t *testing.T) *lab {
	t.Helper()
	l := bareLab(t)
	l.bridge = l.namespace()
	at := l.handle(l.bridge)
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "rack"
	snooping := false // there is no querier
	l.must(at.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}))
	l.up(at, "rack")
	l.plug(at, "rack")
	// A veth that is sent to with XDP_TX is woken up only if it has an XDP program of its own.
	l.pass(l.bridge, "port0")
	return l
}

// bareLab is a lab without what connects the hosts.
func bareLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{T: t, dir: t.TempDir()}
	l.home = l.namespace()
	for range 2 {
		l.workers = append(l.workers, l.namespace())
	}
	l.must(os.Mkdir(l.bpffs(), 0o755))
	l.must(unix.Mount("bpf", l.bpffs(), "bpf", 0, ""))
	t.Cleanup(func() {
		if err := unix.Unmount(l.bpffs(), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return l
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *lab) bpffs() string  { return filepath.Join(l.dir, "bpf") }
func (l *lab) pin() string    { return filepath.Join(l.bpffs(), "spillway") }
func (l *lab) socket() string { return filepath.Join(l.dir, "s") }
func (l *lab) config() string { return filepath.Join(l.dir, "spillwayd.yaml") }

// configure writes the daemon's configuration, with lines added to it.
func (l *lab) configure(more ...string) {
	l.Helper()
	text := fmt.Sprintf(`name: lab
interfaces:
  - name: %s
    address: %s
aggregator:
  pin: %s
api:
  socket: %s
metrics:
  listen: 127.0.0.1:9691
state: %s
`, homeLink, homeAddress, l.pin(), l.socket(), filepath.Join(l.dir, "state.db"))
	l.write(text + strings.Join(more, "\n") + "\n")
}

func (l *lab) write(text string) {
	l.Helper()
	l.must(os.WriteFile(l.config(), []byte(text), 0o644))
}

// text is the configuration as it is.
func (l *lab) text() string {
	l.Helper()
	text, err := os.ReadFile(l.config())
	l.must(err)
	return string(text)
}

// namespace makes a network namespace with its loopback up.
func (l *lab) namespace() netns.NsHandle {
	l.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := netns.Get()
	l.must(err)
	made, err := netns.New()
	l.must(err)
	l.must(errors.Join(netns.Set(own), own.Close()))
	l.Cleanup(func() { made.Close() })
	l.up(l.handle(made), "lo")
	return made
}

func (l *lab) handle(ns netns.NsHandle) *netlink.Handle {
	l.Helper()
	h, err := netlink.NewHandleAt(ns)
	l.must(err)
	l.Cleanup(h.Close)
	return h
}

func (l *lab) up(at *netlink.Handle, name string) {
	l.Helper()
	link, err := at.LinkByName(name)
	l.must(err)
	l.must(at.LinkSetUp(link))
}

// plug connects the hosts to a switch: the aggregator's to port0, the workers' to port1 and port2, which are a bridge's ports where one is named.
func (l *lab) plug(at *netlink.Handle, bridge string) {
	l.Helper()
	l.connect(at, bridge, "port0", l.home, homeLink, homeAddress)
	for rank, worker := range l.workers {
		l.connect(at, bridge, fmt.Sprintf("port%d", rank+1), worker, "eth0", workerAddress(rank))
	}
}

func (l *lab) connect(at *netlink.Handle, bridge, port string, host netns.NsHandle, name, address string) {
	l.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = port
	l.must(at.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: name, PeerNamespace: netlink.NsFd(host)}))
	near, err := at.LinkByName(port)
	l.must(err)
	if bridge != "" {
		master, err := at.LinkByName(bridge)
		l.must(err)
		l.must(at.LinkSetMaster(near, master))
	}
	l.must(at.LinkSetUp(near))
	inside := l.handle(host)
	far, err := inside.LinkByName(name)
	l.must(err)
	parsed, err := netlink.ParseAddr(address + "/24")
	l.must(err)
	l.must(errors.Join(inside.AddrAdd(far, parsed), inside.LinkSetUp(far)))
}

// pass puts an XDP program on an interface that lets everything through.
func (l *lab) pass(ns netns.NsHandle, name string) (program uint32) {
	l.Helper()
	loaded, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "pass", Type: ebpf.XDP, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, License: "Dual MIT/GPL",
	})
	l.must(err)
	l.Cleanup(func() { loaded.Close() })
	at, err := l.handle(ns).LinkByName(name)
	l.must(err)
	l.must(l.in(ns, func() error {
		attached, err := link.AttachXDP(link.XDPOptions{Program: loaded, Interface: at.Attrs().Index, Flags: link.XDPDriverMode})
		if err == nil {
			l.Cleanup(func() { attached.Close() })
		}
		return err
	}))
	info, err := loaded.Info()
	l.must(err)
	id, _ := info.ID()
	return uint32(id)
}

// in runs f on a thread that is in a namespace: sockets and processes that it makes are.
func (l *lab) in(ns netns.NsHandle, f func() error) error {
	runtime.LockOSThread()
	own, err := netns.Get()
	if err != nil {
		return err
	}
	if err := netns.Set(ns); err != nil {
		return errors.Join(err, own.Close())
	}
	done := f()
	if err := netns.Set(own); err != nil {
		return errors.Join(done, err, own.Close()) // the thread stays locked, and dies with its goroutine
	}
	runtime.UnlockOSThread()
	return errors.Join(done, own.Close())
}

// eventually waits until a condition holds.
func (l *lab) eventually(what string, holds func() bool) {
	l.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			l.Fatalf("after %v still not: %s", patience, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// dial is a connection to the daemon's API.
func (l *lab) dial() *grpc.ClientConn {
	l.Helper()
	conn, err := grpc.NewClient("unix://"+l.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	l.must(err)
	l.Cleanup(func() { conn.Close() })
	return conn
}

// node is what the daemon says of itself.
func (l *lab) node() *v1.GetNodeResponse {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	node, err := v1.NewNodeServiceClient(l.dial()).GetNode(ctx, &v1.GetNodeRequest{})
	l.must(err)
	return node
}

// get asks the metrics' address, from the aggregator's namespace.
func (l *lab) get(path string) (int, string) {
	l.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (conn net.Conn, err error) {
		err = l.in(l.home, func() (err error) {
			conn, err = (&net.Dialer{}).DialContext(ctx, "tcp4", address)
			return err
		})
		return conn, err
	}}
	response, err := (&http.Client{Transport: transport, Timeout: patience}).Get("http://127.0.0.1:9691" + path)
	l.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	l.must(err)
	return response.StatusCode, string(body)
}

// attached is the id of the XDP program on the aggregator's interface; 0: there is none.
func (l *lab) attached() uint32 {
	l.Helper()
	link, err := l.handle(l.home).LinkByName(homeLink)
	l.must(err)
	if x := link.Attrs().Xdp; x != nil && x.Attached {
		return x.ProgId
	}
	return 0
}
