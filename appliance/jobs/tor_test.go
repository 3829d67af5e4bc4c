package jobs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/fabric"
	"spillway/p4/client"
	"spillway/p4/pipeline"
	"spillway/p4/softtor"
)

// roleTor makes this program a software ToR in a network namespace of its own, which reads its configuration from stdin and ends when that does.
const role, roleTor = "SPILLWAY_TEST_ROLE", "tor"

// torPorts are the switch ports of the ToR of tests: two workers and the home.
var torPorts = []uint16{1, 2, 100}

const torDevice = 7

func beTor() error {
	for _, port := range torPorts {
		name := fmt.Sprintf("port%d", port)
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, Flags: net.FlagUp}, PeerName: "peer" + name}); err != nil {
			return fmt.Errorf("port %d: %w", port, err)
		}
	}
	var config softtor.Config
	if err := json.NewDecoder(os.Stdin).Decode(&config); err != nil {
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

// softTor is a software ToR, as a process.
type softTor struct {
	t       testing.TB
	socket  string
	process *exec.Cmd
	stdin   io.Closer
}

func newSoftTor(t testing.TB) *softTor {
	t.Helper()
	directory, err := os.MkdirTemp("", "jobs") // the test's own is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	s := &softTor{t: t, socket: filepath.Join(directory, "tor.sock")}
	s.start()
	t.Cleanup(func() {
		s.kill()
		if err := os.RemoveAll(directory); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *softTor) start() {
	s.t.Helper()
	config := softtor.Config{Listen: "unix:" + s.socket, DeviceID: torDevice, Slots: 256, Elements: 64}
	for _, port := range torPorts {
		config.Ports = append(config.Ports, softtor.Port{Port: port, Interface: fmt.Sprintf("port%d", port)})
	}
	s.process = exec.Command("/proc/self/exe")
	s.process.Env = append(os.Environ(), role+"="+roleTor)
	s.process.Stderr = os.Stderr
	s.process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	stdin, err := s.process.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	stdout, err := s.process.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.stdin = stdin
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	if err := json.NewEncoder(stdin).Encode(config); err != nil {
		s.t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		s.t.Fatalf("the ToR says %q: %v", line, errors.Join(err, s.process.Wait()))
	}
}

// kill ends the process without warning: what it held is lost.
func (s *softTor) kill() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait() // it was killed
		_ = s.stdin.Close()
		s.process = nil
	}
}

// difference is that between what the ToR should have and what it has, as somebody else reads it; empty: there is none.
func (s *softTor) difference(want map[pipeline.Key]string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	c, err := client.Dial(ctx, client.Config{Target: "unix:" + s.socket, Device: torDevice, Info: pipeline.Software()})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	items, err := pipeline.ReadItems(ctx, c, pipeline.Software())
	if err != nil {
		return err.Error() // it has no pipeline yet
	}
	return cmp.Diff(want, byKey(items))
}

func byKey(items []pipeline.Item) map[pipeline.Key]string {
	out := map[pipeline.Key]string{}
	for _, item := range items {
		out[item.Key] = item.Value
	}
	return out
}

// hosts are those of the ToR of tests.
func torHosts() []pipeline.Host {
	return []pipeline.Host{
		{Addr: workerAddr(0), MAC: pipeline.MAC(workerMAC(0)), Port: 1}, {Addr: workerAddr(1), MAC: pipeline.MAC(workerMAC(1)), Port: 2},
		{Addr: homeAddr, MAC: pipeline.MAC(homeMAC), Port: 100},
	}
}

const flood = 900

// wanted is what the ToR should have for the hosts and these jobs.
func wanted(t testing.TB, jobs ...pipeline.Job) map[pipeline.Key]string {
	t.Helper()
	updates, err := pipeline.HostEntries(pipeline.Software(), flood, torHosts()...)
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
	return byKey(items)
}

// controller is a fabric that runs until it is stopped.
func (s *softTor) controller() (f *fabric.Fabric, stop func()) {
	s.t.Helper()
	program, err := fabric.Program(fabric.KindSoftware)
	if err != nil {
		s.t.Fatal(err)
	}
	f, err = fabric.New(fabric.Config{Target: "unix:" + s.socket, Device: torDevice, Program: program, Hosts: torHosts(), Flood: flood, Check: 100 * time.Millisecond})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	return f, func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	}
}

// TestRealTor leads a job through its life with a real ToR behind a real controller: it is admitted by what the ToR says that it can hold, its entries are in the
// ToR before anybody is told, it survives reboots of the ToR and restarts of the daemon, goes past a ToR that is dead, and leaves nothing.
func TestRealTor(t *testing.T) {
	tor := newSoftTor(t)
	f, stop := tor.controller()
	defer func() { stop() }()
	r := newRig(t, true, func(c *Config) { c.Switch, c.Patience = f, 2*time.Second })
	inTor := func(jobs ...pipeline.Job) string { return tor.difference(wanted(t, jobs...)) }
	settled := func(what string, jobs ...pipeline.Job) {
		t.Helper()
		var diff string
		defer func() {
			if t.Failed() {
				t.Logf("%s: (-want +got) %s", what, diff)
			}
		}()
		r.until(what, func() bool { diff = inTor(jobs...); return diff == "" })
	}
	current := func() pipeline.Job {
		r.m.mu.Lock()
		defer r.m.mu.Unlock()
		return switchJob(r.m.jobs["a"].record, torAddr)
	}
	r.until("the ToR has said what it can hold", func() bool { _, known := f.Limits(); return known })

	job := r.create("a", 2)
	if job.Spec.Elements != 64 || job.Allocation.Region.Base != 64 || job.Allocation.Region.Slots != 8 || r.m.Capacity().TorSlots.Total != 256 {
		t.Errorf("%v, %v", job, r.m.Capacity().TorSlots)
	}
	all := r.joinAll("a", 2)
	if diff := inTor(current()); diff != "" {
		t.Errorf("the workers have their parameters, and the ToR has not the job: (-want +got) %s", diff)
	}
	if p := all[0].params; p.Tor.GetBase() != 64 || p.Homes[0].Port != pipeline.FirstPort || r.get("a").Path != v1.JobPath_JOB_PATH_TOR {
		t.Errorf("%v, %v", p, r.get("a"))
	}

	tor.kill()
	tor.start()
	settled("a ToR that was rebooted has the job again", current())

	// The daemon goes and comes back; the controller of the next one finds the ToR as it is.
	r.stop()
	stop()
	f, stop = tor.controller()
	r.config.Switch = f
	r.start()
	settled("the next daemon has the job in the ToR", current())
	for i, w := range all {
		all[i] = w.resume()
		all[i].params = w.params
		all[i].begun()
	}

	tor.kill()
	r.until("the ToR is away", func() bool { state, _ := f.State(); return state == v1.SwitchState_SWITCH_STATE_AWAY })
	for _, w := range all {
		w.leave()
	}
	all = r.joinAll("a", 2)
	if job := r.get("a"); job.Path != v1.JobPath_JOB_PATH_DIRECT || !strings.Contains(job.Reason, "past the ToR") || all[0].params.Homes[0].Port != pipeline.FirstPort+pipeline.Ports {
		t.Errorf("with a dead ToR: %v, %v", job, all[0].params)
	}
	tor.start()
	settled("a ToR that comes back gets nothing of a job that goes past it")
	for _, w := range all {
		w.leave()
	}
	r.joinAll("a", 2)
	if diff := inTor(current()); diff != "" || r.get("a").Path != v1.JobPath_JOB_PATH_TOR || current().Generation != 3 {
		t.Errorf("%v: (-want +got) %s", r.get("a"), diff)
	}
	if _, err := r.m.Delete(t.Context(), "a", true); err != nil {
		t.Fatal(err)
	}
	settled("a deleted job leaves the ToR")
}

// TestHostUnknownToRealTor has a worker at no port of the ToR.
func TestHostUnknownToRealTor(t *testing.T) {
	tor := newSoftTor(t)
	f, stop := tor.controller()
	defer stop()
	r := newRig(t, true, func(c *Config) { c.Switch = f })
	r.until("the ToR has said what it can hold", func() bool { _, known := f.Limits(); return known })
	r.run("a", 3)
	if job := r.get("a"); job.Path != v1.JobPath_JOB_PATH_DIRECT || !strings.Contains(job.Reason, "rank 2 at 10.77.0.3 is not among the hosts") {
		t.Errorf("%v", job)
	}
	r.until("the ToR has the hosts and nothing else", func() bool { return tor.difference(wanted(t)) == "" })
}
