package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"spillway/p4/softtor"
)

// setup says what a lab is made of.
type setup struct {
	workers int
	tor     bool
	mtu     int // 0: 1500
	// keys of the daemon's configuration that differ, by their path
	config map[string]any
	tls    bool // serve TCP, with certificates of 'spillctl certs'
}

// lab is an appliance and workers, each in a namespace, joined by a bridge or a software ToR. Nothing runs in it yet but the ToR.
type lab struct {
	t       *testing.T
	setup   setup
	dir     string
	sw      *namespace
	home    *namespace
	workers []*namespace
	daemon  *process
	tor     *process
	port    link.Link // the XDP program on the bridge's port of the home
}

func homeAddr() netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, 1}) }

func workerAddr(rank int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, byte(10 + rank)}) }

func torAddr() netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, 254}) }

const (
	homePort   = "home"
	torHome    = 64 // number of the home's port
	apiAddress = "10.77.0.1:9690"
)

func newLab(t *testing.T, s setup) *lab {
	t.Helper()
	if s.mtu == 0 {
		s.mtu = 1500
	}
	l := &lab{t: t, setup: s, dir: t.TempDir(), sw: newNamespace(t), home: newNamespace(t)}
	var bridge netlink.Link
	if !s.tor {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = "bridge", s.mtu
		snooping := false
		bridge = &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
		l.must(l.sw.link.LinkAdd(bridge))
		l.must(l.sw.link.LinkSetUp(bridge))
	}
	l.must(plug(l.home, homeAddr(), l.sw, homePort, bridge, s.mtu))
	if bridge != nil {
		l.receive()
	}
	for rank := range s.workers {
		w := newNamespace(t)
		l.workers = append(l.workers, w)
		l.must(plug(w, workerAddr(rank), l.sw, fmt.Sprintf("w%d", rank), bridge, s.mtu))
		l.must(w.introduce(homeAddr()))
		l.must(l.home.introduce(workerAddr(rank)))
	}
	l.mountPins()
	if s.tor {
		l.startTor()
	}
	if s.tls {
		l.certificates()
	}
	return l
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// receive puts an XDP program on the bridge's port of the home that passes everything on: a veth that is sent to with XDP_TX wakes up only if it has one.
func (l *lab) receive() {
	program := xdpProgram(l.t, asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()})
	at, err := l.sw.link.LinkByName(homePort)
	l.must(err)
	l.must(l.sw.do(func() (err error) {
		l.port, err = link.AttachXDP(link.XDPOptions{Program: program, Interface: at.Attrs().Index, Flags: link.XDPDriverMode})
		return err
	}))
	l.t.Cleanup(func() {
		if err := l.port.Close(); err != nil {
			l.t.Error(err)
		}
	})
}

// Verdicts of linux/bpf.h.
const xdpDrop, xdpPass = 1, 2

func xdpProgram(t *testing.T, instructions asm.Instructions) *ebpf.Program {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "Dual MIT/GPL", Instructions: instructions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return program
}

// mountPins gives the lab a bpffs of its own.
func (l *lab) mountPins() {
	bpf := filepath.Join(l.dir, "bpf")
	l.must(os.Mkdir(bpf, 0o700))
	l.must(unix.Mount("bpf", bpf, "bpf", 0, ""))
	l.t.Cleanup(func() {
		if err := unix.Unmount(bpf, unix.MNT_DETACH); err != nil {
			l.t.Error(err)
		}
	})
}

func (l *lab) torSocket() string { return "unix:" + filepath.Join(l.dir, "tor.sock") }

func (l *lab) startTor() {
	config := softtor.Config{Listen: l.torSocket(), DeviceID: torDevice, Slots: 256, Elements: 256, Ports: []softtor.Port{{Port: torHome, Interface: homePort}}}
	for rank := range l.workers {
		config.Ports = append(config.Ports, softtor.Port{Port: uint16(rank + 1), Interface: fmt.Sprintf("w%d", rank)})
	}
	text, err := json.Marshal(config)
	l.must(err)
	l.tor = start(l.t, l.sw, "tor", nil, string(text))
	l.tor.hear("ready")
}

func (l *lab) socket() string { return filepath.Join(l.dir, "spillwayd.sock") }

func (l *lab) addr() string { return "unix://" + l.socket() }

func (l *lab) configFile() string { return filepath.Join(l.dir, "spillwayd.yaml") }

func (l *lab) pins() string { return filepath.Join(l.dir, "bpf", "spillway") }

// writeConfig writes the daemon's configuration, as an operator would.
func (l *lab) writeConfig() {
	type keys = map[string]any
	file := keys{
		"name":       "lab",
		"interfaces": []keys{{"name": "eth0", "address": homeAddr().String()}},
		"aggregator": keys{"pin": l.pins(), "slots": keys{"32": 512, "64": 512, "256": 1024, "832": 512}},
		"jobs":       keys{"window": 63},
		"api":        keys{"socket": l.socket()},
		"metrics":    keys{"listen": "off"},
		"state":      filepath.Join(l.dir, "state.db"),
		"log":        keys{"level": "info"},
	}
	if l.setup.tor {
		var hosts []keys
		for rank := range l.workers {
			hosts = append(hosts, keys{"address": workerAddr(rank).String(), "mac": macOf(workerAddr(rank)).String(), "port": rank + 1})
		}
		file["switch"] = keys{"target": l.torSocket(), "device": torDevice, "program": "software", "address": torAddr().String(),
			"home_port": torHome, "check": "1s", "hosts": hosts}
	}
	if l.setup.tls {
		file["api"] = keys{"socket": l.socket(), "listen": apiAddress, "tls": keys{"certificate": filepath.Join(l.dir, "server.crt"),
			"key": filepath.Join(l.dir, "server.key"), "ca": filepath.Join(l.dir, "ca.crt")}}
	}
	for path, value := range l.setup.config {
		at := file
		parts := strings.Split(path, ".")
		for _, part := range parts[:len(parts)-1] {
			at = at[part].(keys)
		}
		at[parts[len(parts)-1]] = value
	}
	text, err := yaml.Marshal(file)
	l.must(err)
	l.must(os.WriteFile(l.configFile(), text, 0o600))
}

// certificates makes those of the lab with the command that operators have.
func (l *lab) certificates() {
	for _, args := range [][]string{{"ca"}, {"server", "--ip", homeAddr().String()}, {"operator"}, {"worker", "--job", "train"}} {
		if out, code := l.spillctl(append([]string{"certs"}, append(args, "--dir", l.dir)...)...); code != 0 {
			l.t.Fatalf("certs %v: %s", args, out)
		}
	}
}

// startDaemon starts spillwayd and waits until it answers.
func (l *lab) startDaemon() {
	l.t.Helper()
	l.writeConfig()
	l.daemon = start(l.t, l.home, "spillwayd", nil, "run", "--config", l.configFile())
	eventually(l.t, func() error {
		select {
		case <-l.daemon.done:
			l.t.Fatalf("the daemon ended: %v: %s", l.daemon.err, l.daemon.stderr())
		default:
		}
		if out, code := l.spillctl("status"); code != 0 {
			return errors.New(out)
		}
		return nil
	})
}

// spillctl runs a command of it against the lab's daemon, and returns what it wrote and its exit code.
func (l *lab) spillctl(args ...string) (string, int) {
	l.t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), role+"=spillctl", "SPILLCTL_ADDR="+l.addr(), "SPILLWAYD_CONFIG="+l.configFile())
	return l.run(cmd)
}

// run runs a command in the home's namespace.
func (l *lab) run(cmd *exec.Cmd) (string, int) {
	l.t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	l.must(l.home.do(cmd.Start))
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		l.t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// create admits a job.
func (l *lab) create(args ...string) {
	l.t.Helper()
	if out, code := l.spillctl(append([]string{"job", "create"}, args...)...); code != 0 {
		l.t.Fatalf("job create %v: %s", args, out)
	}
}

// join starts the workers of a job with these ranks.
func (l *lab) join(job string, ranks ...int) []*process {
	l.t.Helper()
	var all []*process
	for _, rank := range ranks {
		p := start(l.t, l.workers[rank], "worker", nil, l.addr(), job, fmt.Sprint(rank), workerAddr(rank).String())
		p.explain = func() { l.explain(job) }
		all = append(all, p)
	}
	return all
}

// explain logs what spillctl knows of a job: it is its task to say why nothing moves.
func (l *lab) explain(job string) {
	for _, args := range [][]string{{"doctor", "--verbose"}, {"job", "show", job}, {"workers", job}, {"slots", job}, {"counters"}} {
		out, _ := l.spillctl(args...)
		l.t.Logf("spillctl %s\n%s", strings.Join(args, " "), out)
	}
}

// running admits a job for all workers, starts them, and waits until all take part.
func (l *lab) running(job string, args ...string) []*process {
	l.t.Helper()
	l.create(append([]string{job, "--workers", fmt.Sprint(len(l.workers))}, args...)...)
	var ranks []int
	for rank := range l.workers {
		ranks = append(ranks, rank)
	}
	all := l.join(job, ranks...)
	for _, p := range all {
		p.hear("joined")
	}
	return all
}

// reduce has all workers reduce N numbers and waits for the sums.
func reduce(workers []*process, n int) {
	for _, p := range workers {
		p.t.Helper()
		p.say("reduce %d", n)
	}
	for _, p := range workers {
		p.hear("reduced")
	}
}
