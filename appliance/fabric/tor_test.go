package fabric_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"spillway/p4/client"
	"spillway/p4/pipeline"
	"spillway/p4/softtor"
	"spillway/p4/vectors"
	"spillway/wire"
)

// roleTor makes this program a software ToR, which reads its configuration from stdin and ends when that does.
const role, roleTor = "SPILLWAY_TEST_ROLE", "tor"

// TestMain lets this program be the ToR that a test starts. Every test must end without goroutines of its fabrics.
func TestMain(m *testing.M) {
	if os.Getenv(role) == roleTor {
		if err := beTor(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func beTor() error {
	var config softtor.Config
	orders := json.NewDecoder(os.Stdin)
	if err := orders.Decode(&config); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is all that counts
	}()
	config.Ready = func(net.Addr) { fmt.Println("ready") }
	return softtor.Run(ctx, config, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
}

// What the ToRs of tests are.
const (
	device   = 7
	slots    = 64
	elements = 32
	homePort = 64
	flood    = 900
)

var ports = []uint16{1, 2, 3, 4, 5, 6, 7, 8, homePort}

// tor is a software ToR, as a process in a namespace with a veth for each port.
type tor struct {
	t       testing.TB
	socket  string
	calls   chan func() // run on the thread that is in the namespace
	process *exec.Cmd
	stdin   io.Closer
}

// newTor starts a ToR that ends with the test.
func newTor(t testing.TB) *tor {
	t.Helper()
	directory, err := os.MkdirTemp("", "fabric") // the test's own is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(directory); err != nil {
			t.Error(err)
		}
	})
	r := &tor{t: t, socket: filepath.Join(directory, "tor.sock"), calls: make(chan func())}
	ready := make(chan error)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // for good: the thread ends with the goroutine, and with it the namespace
		err := layPorts()
		ready <- err
		if err != nil {
			return
		}
		for call := range r.calls {
			call()
		}
	}()
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(r.calls)
		<-ended
	})
	r.start()
	t.Cleanup(r.kill)
	return r
}

// layPorts moves the thread into a new namespace and makes the interfaces of all ports there.
func layPorts() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	for _, port := range ports {
		name := fmt.Sprintf("port%d", port)
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "peer" + name}); err != nil {
			return err
		}
		for _, end := range []string{name, "peer" + name} {
			link, err := netlink.LinkByName(end)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetUp(link); err != nil {
				return err
			}
		}
	}
	return nil
}

// start starts the process and waits until it listens.
func (r *tor) start() {
	r.t.Helper()
	if err := r.launch(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *tor) launch() error {
	config := softtor.Config{Listen: "unix:" + r.socket, DeviceID: device, Slots: slots, Elements: elements}
	for _, port := range ports {
		config.Ports = append(config.Ports, softtor.Port{Port: port, Interface: fmt.Sprintf("port%d", port)})
	}
	r.process = exec.Command("/proc/self/exe")
	r.process.Env = append(os.Environ(), role+"="+roleTor)
	r.process.Stderr = os.Stderr
	r.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := r.process.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := r.process.StdoutPipe()
	if err != nil {
		return err
	}
	r.stdin = stdin
	started := make(chan error)
	r.calls <- func() { started <- r.process.Start() }
	if err := <-started; err != nil {
		return err
	}
	if err := json.NewEncoder(stdin).Encode(config); err != nil {
		return err
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		return fmt.Errorf("the ToR says %q: %w", line, errors.Join(err, r.process.Wait()))
	}
	return nil
}

// kill ends the process without warning; what it held is lost.
func (r *tor) kill() {
	if r.process == nil {
		return
	}
	_ = r.process.Process.Kill()
	_ = r.process.Wait() // it was killed
	_ = r.stdin.Close()
	r.process = nil
}

func (r *tor) target() string { return "unix:" + r.socket }

// controller opens a session of another controller; without an election id it can only read.
func (r *tor) controller(id *client.ElectionID) *client.Client {
	r.t.Helper()
	c, err := client.Dial(deadline(r.t), client.Config{Target: r.target(), Device: device, Election: id, Info: pipeline.Software()})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() }) // a ToR that is dead ends it too
	return c
}

// content is what the ToR has, by keys, as an independent client reads it.
func (r *tor) content() map[pipeline.Key]string {
	r.t.Helper()
	c := r.controller(nil)
	defer c.Close()
	items, err := pipeline.ReadItems(deadline(r.t), c, pipeline.Software())
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[pipeline.Key]string{}
	for _, i := range items {
		out[i.Key] = i.Value
	}
	return out
}

// send sends a frame into a port.
func (r *tor) send(port uint16, frame []byte) {
	r.t.Helper()
	sent := make(chan error)
	r.calls <- func() { sent <- sendFrame(fmt.Sprintf("peerport%d", port), frame) }
	if err := <-sent; err != nil {
		r.t.Fatal(err)
	}
}

func sendFrame(by string, frame []byte) error {
	link, err := netlink.LinkByName(by)
	if err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // to send only
	if err != nil {
		return err
	}
	return errors.Join(unix.Sendto(socket, frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index}), unix.Close(socket))
}

// contribution is what a worker of a job sends for a chunk that rests in the first slot of the job's region and so many on.
func contribution(j pipeline.Job, rank int, seq uint32) []byte {
	f := vectors.Frame{
		EthDst: vectors.MAC(homeMAC), EthSrc: vectors.MAC{2, 0, 0, 0, 0, byte(rank + 1)}, EtherType: 0x0800,
		TTL: 64, Protocol: 17, Src: workerAddr(rank), Dst: homeAddr, SrcPort: j.WorkerPort, DstPort: j.Home.Port(), Checksum: vectors.Full,
		Header: &wire.Header{
			Version: wire.Version, Type: wire.Data, Op: wire.Sum, Job: j.ID, Generation: j.Generation, Priority: 64, Cookie: j.Cookie,
			Seq: seq, Bitmap: 1 << rank, Elems: elements, Slot: j.Region.Base + uint16(seq)%j.Region.Slots,
		},
		Elements: make([]int32, elements),
	}
	return f.Bytes()
}

// meddle writes in the name of the primary, behind its back.
func (r *tor) meddle(as client.ElectionID, updates ...*p4v1.Update) {
	r.t.Helper()
	conn, err := grpc.NewClient(r.target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	_, err = p4v1.NewP4RuntimeClient(conn).Write(deadline(r.t), &p4v1.WriteRequest{
		DeviceId: device, ElectionId: &p4v1.Uint128{High: as.High, Low: as.Low}, Updates: updates,
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// push pushes a pipeline in the name of the primary.
func (r *tor) push(as client.ElectionID, action p4v1.SetForwardingPipelineConfigRequest_Action, p client.Pipeline) {
	r.t.Helper()
	conn, err := grpc.NewClient(r.target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	_, err = p4v1.NewP4RuntimeClient(conn).SetForwardingPipelineConfig(deadline(r.t), &p4v1.SetForwardingPipelineConfigRequest{
		DeviceId: device, ElectionId: &p4v1.Uint128{High: as.High, Low: as.Low},
		Action: action,
		Config: &p4v1.ForwardingPipelineConfig{P4Info: p.Info.Message(), Cookie: &p4v1.ForwardingPipelineConfig_Cookie{Cookie: p.Cookie}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// deadline bounds a test, so that one that hangs says where.
func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func workerAddr(rank int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, byte(rank + 1)}) }

var (
	homeAddr = netip.MustParseAddr("10.77.0.254")
	homeMAC  = pipeline.MAC{2, 0, 0, 0, 0, homePort}
)

// hosts are a worker at each port, and the home.
func hosts() []pipeline.Host {
	all := []pipeline.Host{{Addr: homeAddr, MAC: homeMAC, Port: homePort}}
	for rank := range len(ports) - 1 {
		all = append(all, pipeline.Host{Addr: workerAddr(rank), MAC: pipeline.MAC{2, 0, 0, 0, 0, byte(rank + 1)}, Port: uint16(rank + 1)})
	}
	return all
}

// newJob is a job of all workers, with 8 slots of its own.
func newJob(id uint16, generation uint8) pipeline.Job {
	j := pipeline.Job{
		ID: id, Generation: generation, Index: uint8(id), Cookie: uint32(id)<<16 | uint32(generation), Key: uint32(id)*0x9e3779b1 + uint32(generation),
		Home: netip.AddrPortFrom(homeAddr, 9696), HomePorts: 4, HomePort: homePort, HomeMAC: homeMAC,
		TorAddr: netip.MustParseAddr("10.77.0.253"), Group: netip.AddrFrom4([4]byte{239, 77, byte(id >> 8), byte(id)}), MulticastGroup: id, WorkerPort: 9800,
		Region: &pipeline.Region{Base: id * 8 % slots, Slots: 8, Mode: pipeline.ModePrivate},
	}
	for rank := range len(ports) - 1 {
		j.Workers = append(j.Workers, pipeline.Worker{Addr: workerAddr(rank), Port: uint16(rank + 1), Bits: 1 << rank})
	}
	return j
}

// entries are what the ToR should have for hosts and jobs.
func entries(t testing.TB, jobs ...pipeline.Job) map[pipeline.Key]string {
	t.Helper()
	updates, err := pipeline.HostEntries(pipeline.Software(), flood, hosts()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		more, err := pipeline.Entries(pipeline.Software(), j)
		if err != nil {
			t.Fatal(err)
		}
		updates = append(updates, more...)
	}
	items, err := pipeline.Items(pipeline.Software(), updates)
	if err != nil {
		t.Fatal(err)
	}
	out := map[pipeline.Key]string{}
	for _, i := range items {
		out[i.Key] = i.Value
	}
	return out
}
