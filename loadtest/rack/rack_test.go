package rack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"spillway/appliance/command"
	"spillway/loadtest/faults"
)

// TestMain lets this program be the worker process that a test starts.
func TestMain(m *testing.M) {
	switch role := os.Getenv("SPILLWAY_TEST_ROLE"); role {
	case "":
		os.Exit(m.Run())
	default:
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// namespaces lists all network namespaces that some thread is in or some
// descriptor or mount holds, and where: a namespace that is in none of these is gone.
func namespaces(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, pattern := range []string{"/proc/[0-9]*/task/*/ns/net", "/proc/[0-9]*/fd/*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			target, err := os.Readlink(path)
			if err == nil && strings.HasPrefix(target, "net:[") {
				found[target] = path
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[3], "net:[") {
			found[fields[3]] = fields[4]
		}
	}
	return found
}

// left is where a namespace is still held, empty if nowhere. The kernel gives the inode of one that is gone to the next, so what has
// it is looked at: only cookies are never given again.
func left(t *testing.T, inode string, own uint64) string {
	t.Helper()
	path := namespaces(t)[inode]
	if path == "" {
		return ""
	}
	if cookieAt(t, path) != own {
		return ""
	}
	return path
}

// cookieAt is that of the namespace at a path, 0 when there is none any more.
func cookieAt(t *testing.T, path string) uint64 {
	t.Helper()
	at, err := netns.GetFromPath(path)
	if err != nil {
		return 0
	}
	defer at.Close()
	runtime.LockOSThread()
	back, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	if err := netns.Set(at); err != nil {
		t.Fatalf("enter %s: %v", path, err)
	}
	found, err := cookie()
	// A thread that does not come back must never run anything else; one that does is as it was.
	if err := errors.Join(err, netns.Set(back)); err != nil {
		t.Fatalf("cookie of %s: %v", path, err)
	}
	runtime.UnlockOSThread()
	return found
}

// cookie is that of this thread's network namespace.
func cookie() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
}

// cookieOf is a rack's namespace's.
func cookieOf(t *testing.T, n *namespace) (c uint64) {
	t.Helper()
	if err := n.do(func() (err error) { c, err = cookie(); return err }); err != nil {
		t.Fatal(err)
	}
	return c
}

// inode is the identity of a rack's namespace, as namespaces lists it.
func inode(t *testing.T, n *namespace) string {
	t.Helper()
	target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", int(n.handle)))
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func links(t *testing.T) []string {
	t.Helper()
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range interfaces {
		names = append(names, i.Name)
	}
	return names
}

// softTor is a software ToR whose process is this program.
func softTor(slots int) Tor {
	return Tor{Kind: TorSoft, Slots: slots, Command: Command{Env: []string{"SPILLWAY_TEST_ROLE=tor"}}}
}

// self as spillwayd.
var daemonCommand = Command{Env: []string{"SPILLWAY_TEST_ROLE=spillwayd"}}

// build makes a rack and checks at the test's end that nothing is left of it.
func build(t *testing.T, config Config) *Rack {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	config.Daemon = daemonCommand
	files, linksBefore := openFiles(t), links(t)
	r, err := New(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]uint64{}
	for _, n := range append(r.namespaces(), r.workers...) {
		own[inode(t, n)] = cookieOf(t, n)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t, leaks)
		for ns, cookie := range own {
			if at := left(t, ns, cookie); at != "" {
				t.Errorf("namespace %s is left: %s holds it", ns, at)
			}
		}
		if now := openFiles(t); now > files {
			t.Errorf("%d files are open, %d before", now, files)
		}
		if now := links(t); !slices.Equal(now, linksBefore) {
			t.Errorf("links of the host %v, %v before", now, linksBefore)
		}
	})
	return r
}

// socket opens a UDP socket in a namespace; it stays there wherever it is used.
func socket(t *testing.T, in func(func() error) error, address string) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	err := in(func() error {
		at, err := net.ResolveUDPAddr("udp4", address)
		if err != nil {
			return err
		}
		conn, err = net.ListenUDP("udp4", at)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func inWorker(r *Rack, rank int) func(func() error) error {
	return func(f func() error) error { return r.InWorker(rank, f) }
}

func TestConfigRefusals(t *testing.T) {
	for name, c := range map[string]Config{
		"no workers":    {},
		"65 workers":    {Workers: 65},
		"33 elements":   {Workers: 1, Elements: 33},
		"864 elements":  {Workers: 1, Elements: 864},
		"slow link":     {Workers: 1, Rate: 1000},
		"loss":          {Workers: 1, Faults: faults.Rates{Loss: 1.5}},
		"kind of ToR":   {Workers: 1, Tor: Tor{Kind: "hard"}},
		"ToR too big":   {Workers: 1, Tor: softTor(1<<15 + 1)},
		"slots, no ToR": {Workers: 1, Tor: Tor{Slots: 1}},
		"BMv2, E=256":   {Workers: 1, Tor: Tor{Kind: TorBMv2, Slots: 1}},
	} {
		if r, err := New(context.Background(), c); err == nil {
			t.Errorf("%s: built %v", name, r)
		}
	}
}

func TestEverybodyReachesTheHome(t *testing.T) {
	for _, elements := range []int{256, 352, 832} {
		t.Run(fmt.Sprint(elements), func(t *testing.T) {
			const workers = 5
			r := build(t, Config{Workers: workers, Elements: elements})
			home := socket(t, r.InHome, HomeAddr().String()+plainPort)
			packet := make([]byte, 28+4*elements)
			for rank := range workers {
				worker := socket(t, inWorker(r, rank), WorkerAddr(rank).String()+plainPort)
				if _, err := worker.WriteToUDP(packet, home.LocalAddr().(*net.UDPAddr)); err != nil {
					t.Fatal(err)
				}
				buffer := make([]byte, 4096)
				if err := home.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
					t.Fatal(err)
				}
				n, from, err := home.ReadFromUDP(buffer)
				if err != nil || n != len(packet) || from.String() != WorkerAddr(rank).String()+plainPort {
					t.Fatalf("rank %d: %d bytes from %v, %v", rank, n, from, err)
				}
			}
		})
	}
}

func TestCancelledBuildLeavesNothing(t *testing.T) {
	leaks, files := goleak.IgnoreCurrent(), openFiles(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("changed my mind")
	cancel(reason)
	if _, err := New(ctx, Config{Workers: 3}); !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
	goleak.VerifyNone(t, leaks)
	if now := openFiles(t); now > files {
		t.Errorf("%d files are open, %d before", now, files)
	}
}

// namespaces are all but those of the workers.
func (r *Rack) namespaces() []*namespace {
	all := []*namespace{r.sw, r.home().host}
	if r.tor != nil {
		all = append(all, r.tor.namespace)
	}
	if r.server != nil {
		all = append(all, r.server)
	}
	return all
}

// play is what the test program does when it is started as a worker or a parent.
func play(role string) error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	switch role {
	case "echo": // answers with its own address, until its stdin ends
		for {
			var question string
			if err := in.Decode(&question); err != nil {
				return nil
			}
			addrs, err := net.InterfaceAddrs()
			if err != nil {
				return err
			}
			if err := out.Encode(map[string]string{"question": question, "addresses": fmt.Sprint(addrs)}); err != nil {
				return err
			}
		}
	case "tor":
		return RunTor(context.Background(), os.Stdin, os.Stdout)
	case "elastic":
		return training(in, out)
	case "reducer":
		return reducing(in, out)
	case "spillwayd":
		os.Exit(command.Main(context.Background(), append([]string{"spillwayd"}, os.Args[1:]...), os.Stdout, os.Stderr))
	case "preflight":
		return Preflight(everything)
	case "deaf": // does not mind its stdin
		_, err := os.Stdout.WriteString("1\n")
		for err == nil {
			err = unix.Pause()
			if errors.Is(err, unix.EINTR) {
				err = nil
			}
		}
		return err
	case "parent": // builds a rack with two deaf workers, says who they are, and waits to be killed
		r, err := New(context.Background(), Config{Workers: 2, Rate: 10_000_000, Tor: softTor(4), Daemon: daemonCommand})
		if err != nil {
			return err
		}
		var said struct {
			PIDs       []int
			Namespaces []string
		}
		for _, n := range append(r.namespaces(), r.workers...) {
			ns, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", int(n.handle)))
			if err != nil {
				return err
			}
			said.Namespaces = append(said.Namespaces, ns)
		}
		for rank := range 2 {
			p, err := r.StartWorker(rank, Command{Env: []string{"SPILLWAY_TEST_ROLE=deaf"}})
			if err != nil {
				return err
			}
			var up int
			if err := p.Receive(context.Background(), &up); err != nil {
				return err
			}
			said.PIDs = append(said.PIDs, p.PID())
		}
		said.PIDs = append(said.PIDs, r.tor.process.PID(), r.home().daemon.process.PID())
		if err := out.Encode(said); err != nil {
			return err
		}
		select {}
	}
	return fmt.Errorf("unknown role %q", role)
}

// plainPort is a port that the aggregator's program lets through to sockets.
const plainPort = ":5000"
