package acceptance

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// found is a finding as programs read it.
type found struct {
	Check, Level, Text, Remedy, Job string
}

// doctor runs it and returns what is wrong, with the exit code.
func (l *lab) doctor(args ...string) ([]found, int) {
	l.t.Helper()
	out, code := l.spillctl(append([]string{"doctor", "--output", "json"}, args...)...)
	return wrong(l.t, out), code
}

func wrong(t *testing.T, out string) []found {
	t.Helper()
	var answer struct{ Findings []found }
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(answer.Findings) == 0 {
		t.Fatal("doctor made no check at all")
	}
	var findings []found
	for _, f := range answer.Findings {
		if f.Level != "ok" {
			findings = append(findings, f)
		}
	}
	return findings
}

// healthy fails the test if anything is wrong.
func (l *lab) healthy() {
	l.t.Helper()
	if findings, code := l.doctor(); len(findings) > 0 || code != 0 {
		l.t.Fatalf("exit code %d; a healthy set-up has findings: %+v", code, findings)
	}
}

// finds waits until doctor says what is wrong: a finding of the check and level, with words in its text and in its remedy.
func (l *lab) finds(check, level, text, remedy string) {
	l.t.Helper()
	eventually(l.t, func() error {
		findings, code := l.doctor()
		for _, f := range findings {
			if f.Check == check && f.Level == level && strings.Contains(f.Text, text) && strings.Contains(f.Remedy, remedy) {
				if want := map[string]int{"error": 1}[level]; code != want && !hasErrors(findings) {
					return fmt.Errorf("exit code %d, want %d", code, want)
				}
				return nil
			}
		}
		return fmt.Errorf("want %s %s with %q and the remedy %q; exit code %d and %+v", level, check, text, remedy, code, findings)
	})
}

func hasErrors(findings []found) bool {
	for _, f := range findings {
		if f.Level == "error" {
			return true
		}
	}
	return false
}

// TestHealthy: a running job, with a ToR and without, before its first collective, in between and after.
func TestHealthy(t *testing.T) {
	for _, tor := range []bool{false, true} {
		t.Run(fmt.Sprintf("tor=%t", tor), func(t *testing.T) {
			l := newLab(t, setup{workers: 3, tor: tor})
			l.startDaemon()
			l.heals() // the daemon does not wait for the ToR
			l.healthy()
			l.create("waits", "--workers", "2")
			l.healthy()
			workers := l.running("train")
			l.healthy()
			reduce(workers, 50_000)
			reduce(workers, 1000)
			l.healthy()
		})
	}
}

// heals waits until nothing is wrong any more.
func (l *lab) heals() {
	l.t.Helper()
	eventually(l.t, func() error {
		if findings, code := l.doctor(); len(findings) > 0 || code != 0 {
			return fmt.Errorf("exit code %d, %+v", code, findings)
		}
		return nil
	})
}

// TestWhatComesBackIsHealthy: a daemon and a ToR that were started again in mid-run leave nothing to find, and the job goes on.
func TestWhatComesBackIsHealthy(t *testing.T) {
	l := newLab(t, setup{workers: 2, tor: true})
	l.startDaemon()
	l.heals() // the ToR is reached: before that, a job that wants a part of its memory is refused
	workers := l.running("train", "--elements", "32")
	reduce(workers, 5000)
	l.must(l.daemon.stop())
	l.startDaemon()
	l.heals()
	reduce(workers, 5000)
	l.tor.kill()
	l.startTor()
	l.heals()
	reduce(workers, 5000)
	l.healthy()
}

// The set-ups that follow are broken in one way each. They are numbered as in docs/spillctl.md.

// 1: the daemon does not run.
func TestDaemonAway(t *testing.T) {
	l := newLab(t, setup{workers: 1})
	l.writeConfig()
	l.finds("socket", "error", "there is no socket "+l.socket(), "systemctl start spillwayd")
	l.finds("service", "error", "no process is a spillwayd", "start it")
	l.startDaemon()
	l.healthy()
	// It hangs.
	l.must(l.daemon.cmd.Process.Signal(syscall.SIGSTOP))
	findings, code := l.doctor("--timeout", "300ms")
	if len(findings) == 0 || findings[0].Check != "socket" || !strings.Contains(findings[0].Text, "does not answer in time") || code != 1 {
		t.Errorf("of a daemon that hangs: exit code %d, %+v", code, findings)
	}
	l.must(l.daemon.cmd.Process.Signal(syscall.SIGCONT))
	l.healthy()
	// It dies, and leaves its socket and its data plane.
	l.daemon.kill()
	l.finds("socket", "error", "nobody listens", "journalctl")
	l.finds("data-plane", "warning", "pins in "+l.pins(), "spillwayd detach")
	l.startDaemon()
	l.healthy()
	// Its configuration is spoilt, and it cannot come back.
	if err := l.daemon.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.configFile(), []byte("interfaces: [{name: eth7, address: 10.77.0.1}]\nwindow: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.finds("config", "error", l.configFile()+":2", "spillwayd check")
}

// 2: the socket is not for this user.
func TestSocketNotPermitted(t *testing.T) {
	l := newLab(t, setup{})
	l.startDaemon()
	// The user can search the directory, but is not in the socket's group.
	for dir := l.dir; len(dir) > len(os.TempDir()); dir = dir[:strings.LastIndex(dir, "/")] {
		l.must(os.Chmod(dir, 0o755))
	}
	program, err := os.Open("/proc/self/exe")
	l.must(err)
	defer program.Close()
	cmd := exec.Command("/proc/self/fd/3", "doctor", "--output", "json")
	cmd.ExtraFiles = []*os.File{program} // nobody cannot search the directory that the program is in
	cmd.Env = []string{role + "=spillctl", "SPILLCTL_ADDR=" + l.addr(), "SPILLWAYD_CONFIG=" + l.configFile(), "HOME=/"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, code := l.run(cmd)
	told := false
	for _, f := range wrong(t, out) {
		switch {
		case f.Check == "socket" && strings.Contains(f.Text, "for its owner and the group root") && strings.Contains(f.Remedy, "usermod -aG root"):
			told = true
		case f.Level == "error":
			t.Errorf("what a user may not see is no error: %+v", f)
		}
	}
	if !told || code != 1 {
		t.Errorf("exit code %d, and nothing about the group in %s", code, out)
	}
}

// 3: the driver has no native XDP.
func TestGenericXDP(t *testing.T) {
	l := newLab(t, setup{config: map[string]any{"interfaces": []map[string]any{{"name": "eth0", "address": homeAddr().String()}, {"name": "lo",
		"address": "127.0.0.1"}}}})
	l.startDaemon()
	l.finds("xdp-mode", "warning", "lo in generic mode", "native XDP")
}

// 4: the MTU became too small for the job's chunks.
func TestMTUTooSmall(t *testing.T) {
	l := newLab(t, setup{workers: 2})
	l.startDaemon()
	l.running("train", "--elements", "256")
	l.healthy()
	eth0, err := l.home.link.LinkByName("eth0")
	l.must(err)
	l.must(l.home.link.LinkSetMTU(eth0, 1000))
	l.finds("mtu", "error", "takes 1080 bytes, and the MTU of eth0 is 1000", "--elements 224")
}

// 5: the ToR is away.
func TestTorAway(t *testing.T) {
	l := newLab(t, setup{workers: 2, tor: true})
	l.startDaemon()
	l.heals() // the ToR is reached
	workers := l.running("train", "--elements", "32")
	reduce(workers, 100)
	l.healthy()
	l.tor.kill()
	l.finds("switch", "error", "no session with the ToR", "switch.target")
}

// 6: a second controller writes to the ToR.
func TestTorTampered(t *testing.T) {
	l := newLab(t, setup{workers: 2, tor: true})
	l.startDaemon()
	l.heals() // the ToR is reached
	l.running("train", "--elements", "32")
	l.healthy()
	other := start(t, l.sw, "controller", nil, l.torSocket())
	other.hear("tampered")
	l.finds("switch", "error", "another controller is the primary", "switch.election")
	other.say("go")
	other.wait()
	l.finds("switch", "warning", "somebody else writes to it", "find the other controller")
	out, _ := l.spillctl("events")
	if !strings.Contains(out, "switch") {
		t.Errorf("the events say nothing of the switch:\n%s", out)
	}
}

// 7: a rank never joins.
func TestRankNeverJoins(t *testing.T) {
	l := newLab(t, setup{workers: 3})
	l.startDaemon()
	l.create("train", "--workers", "3")
	l.join("train", 0, 2)
	l.finds("workers", "error", "rank 1 never joined; ranks 0 and 2 wait", "start the process")
}

// 8: a worker is killed in mid-run; another only stops.
func TestWorkerKilled(t *testing.T) {
	l := newLab(t, setup{workers: 3})
	l.startDaemon()
	workers := l.running("train")
	reduce(workers, 10_000)
	l.healthy()
	l.must(workers[2].cmd.Process.Signal(syscall.SIGSTOP))
	for _, p := range workers[:2] {
		p.say("reduce 10000")
	}
	l.finds("workers", "error", "rank 2 (10.77.0.12) is late", "SIGSTOP")
	l.finds("chunks", "error", "for rank 2", "spillctl workers train")
	workers[2].kill()
	l.finds("workers", "error", "rank 2 (10.77.0.12) was lost", "start all again")
}

// 9: multicast is dropped on the way: results have to be asked for one by one.
func TestMulticastDropped(t *testing.T) {
	l := newLab(t, setup{workers: 2})
	l.startDaemon()
	workers := l.running("train", "--publication", "multicast")
	reduce(workers, 1000)
	l.healthy()
	l.must(l.port.Update(dropMulticast(t)))
	reduce(workers, 20_000)
	l.finds("multicast", "error", "results do not arrive by multicast", "--publication unicast")
}

// dropMulticast is an XDP program that drops IPv4 packets to 224.0.0.0/4.
func dropMulticast(t *testing.T) *ebpf.Program {
	t.Helper()
	const ethernet, destination = 14, 16
	return xdpProgram(t, asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word), // data
		asm.LoadMem(asm.R3, asm.R1, 4, asm.Word), // data_end
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, ethernet+destination+4),
		asm.JGT.Reg(asm.R4, asm.R3, "pass"),
		asm.LoadMem(asm.R5, asm.R2, 12, asm.Half), // type
		asm.HostTo(asm.BE, asm.R5, asm.Half),
		asm.JNE.Imm(asm.R5, 0x0800, "pass"),
		asm.LoadMem(asm.R5, asm.R2, ethernet+destination, asm.Byte),
		asm.And.Imm(asm.R5, 0xf0),
		asm.JNE.Imm(asm.R5, 0xe0, "pass"),
		asm.Mov.Imm(asm.R0, xdpDrop),
		asm.Return(),
		asm.Mov.Imm(asm.R0, xdpPass).WithSymbol("pass"),
		asm.Return(),
	})
}

// 10: somebody sends in the job's name with a cookie that is not the job's, and somebody of an old generation.
func TestWrongCookie(t *testing.T) {
	l := newLab(t, setup{workers: 2})
	l.startDaemon()
	workers := l.running("train")
	reduce(workers, 1000)
	l.healthy()
	var job struct{ ID, Generation int }
	out, _ := l.spillctl("job", "show", "train", "-o", "json")
	l.must(json.Unmarshal([]byte(out), &job))
	home := homeAddr().String() + ":9696" // the job's own port, where there is no ToR
	cookie := start(t, l.workers[1], "impostor", nil, fmt.Sprint(job.ID), fmt.Sprint(job.Generation), home)
	cookie.hear("sending")
	l.finds("drops", "error", "bad_cookie", "end it")
	cookie.kill()
	stale := start(t, l.workers[1], "impostor", nil, fmt.Sprint(job.ID), fmt.Sprint(job.Generation+1), home)
	stale.hear("sending")
	l.finds("drops", "error", "bad_generation", "earlier run")
	stale.kill()
	// What was dropped before is no reason why nothing moves now.
	l.heals()
}

// 11: the home's interface is down.
func TestInterfaceDown(t *testing.T) {
	l := newLab(t, setup{workers: 1})
	l.startDaemon()
	l.healthy()
	eth0, err := l.home.link.LinkByName("eth0")
	l.must(err)
	l.must(l.home.link.LinkSetDown(eth0))
	l.finds("interface", "error", "eth0 is down", "ip link set eth0 up")
	l.must(l.home.link.LinkSetUp(eth0))
	far, err := l.sw.link.LinkByName(homePort)
	l.must(err)
	l.must(l.sw.link.LinkSetDown(far))
	l.finds("interface", "error", "no carrier", "cable")
}

// 12: somebody takes the XDP program off.
func TestDetached(t *testing.T) {
	l := newLab(t, setup{workers: 1})
	l.startDaemon()
	l.healthy()
	l.detachAll()
	l.finds("xdp", "error", "somebody took the aggregator off", "restart spillwayd")
	// What the remedy says helps.
	l.must(l.daemon.stop())
	l.startDaemon()
	l.healthy()
}

// detachAll forces every pinned XDP link off its interface, as 'bpftool link detach' does.
func (l *lab) detachAll() {
	l.t.Helper()
	detached := 0
	l.must(filepath.WalkDir(l.pins(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		at, err := link.LoadPinnedLink(path, nil)
		if err != nil {
			return nil // a map or a program
		}
		defer at.Close()
		if info, err := at.Info(); err != nil || info.XDP() == nil {
			return err
		}
		detached++
		return at.Detach()
	}))
	if detached == 0 {
		l.t.Fatal("no XDP link is pinned")
	}
}
