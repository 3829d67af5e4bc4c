package systemdtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// modeVariable makes the test's binary be something else: the process that has a container, or a worker.
const modeVariable = "SPILLWAY_SYSTEMDTEST"

func TestMain(m *testing.M) {
	mode, order, _ := strings.Cut(os.Getenv(modeVariable), " ")
	var err error
	switch mode {
	case "":
		os.Exit(runTests(m))
	case "machine":
		var o bootOrder
		if err = json.Unmarshal([]byte(order), &o); err == nil {
			err = holdMachine(o)
		}
	case "worker":
		var o workerOrder
		if err = json.Unmarshal([]byte(order), &o); err == nil {
			err = beWorker(o)
		}
	default:
		err = fmt.Errorf("mode %q", mode)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", mode, err)
		os.Exit(1)
	}
}

// packageDir is where the tests' packages are.
var packageDir string

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "spillway-systemdtest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	packageDir = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// machine is a booted Debian.
type machine struct {
	t       *testing.T
	dir     string
	console string
	boots   <-chan booted
	holder  int // the process that has it
	leader  int // its first process, by the id outside
}

// newMachine boots a Debian in the network's appliance namespace, and waits until systemd says that it runs.
func newMachine(t *testing.T, network *network) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir(), console: filepath.Join(t.TempDir(), "console")}
	order := bootOrder{Root: debianRoot(t), Dir: m.dir, Console: m.console, Cgroup: cgroupPrefix + strconv.Itoa(os.Getpid())}
	must(t, removeStale())
	text, err := json.Marshal(order)
	must(t, err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), modeVariable+"=machine "+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Setpgid: true}
	namespace := os.NewFile(uintptr(duplicate(t, network.appliance)), "network namespace")
	defer namespace.Close()
	cmd.ExtraFiles = []*os.File{namespace}
	var said bytes.Buffer
	cmd.Stderr = &said
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	m.holder = cmd.Process.Pid
	boots := make(chan booted)
	m.boots = boots
	go func() {
		defer close(boots)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var b booted
			if json.Unmarshal(lines.Bytes(), &b) == nil {
				boots <- b
			}
		}
	}()
	t.Cleanup(func() {
		if t.Failed() && m.leader != 0 {
			t.Logf("the service's journal:\n%s", m.journal(60))
			for _, command := range []string{"counters", "doctor", "workers train"} {
				out, err := m.try("spillctl", strings.Fields(command)...)
				t.Logf("spillctl %s: %v\n%s", command, err, out)
			}
		}
		must(t, stdin.Close())
		for range boots { // until the process has ended its output
		}
		err := cmd.Wait()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Error(err)
		}
		if t.Failed() {
			console, _ := os.ReadFile(m.console)
			t.Logf("the machine: %v\n%s\nits console:\n%s", err, said.String(), lastLines(string(console), 60))
		}
		poll(t, 20*time.Second, "the container's processes to end", func() error { return removeCgroup(order.Cgroup) })
	})
	m.await()
	return m
}

// await waits for the next boot.
func (m *machine) await() {
	m.t.Helper()
	select {
	case _, ok := <-m.boots:
		if !ok {
			m.t.Fatal("the machine did not boot")
		}
	case <-time.After(time.Minute):
		m.t.Fatal("the machine did not boot within a minute")
	}
	poll(m.t, time.Minute, "the container's first process", func() (err error) {
		m.leader, err = leaderBelow(m.holder)
		return err
	})
	poll(m.t, time.Minute, "systemd to run", func() error {
		out, err := m.try("systemctl", "is-system-running")
		if state := strings.TrimSpace(out); state != "running" && state != "degraded" {
			return fmt.Errorf("%s %v", state, err)
		}
		return nil
	})
}

// leaderBelow is the first process of the container: a grandchild that is 1 in its own process namespace.
func leaderBelow(holder int) (int, error) {
	for _, nspawn := range children(holder) {
		for _, child := range children(nspawn) {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", child)) // one that has ended is no leader
			for line := range strings.Lines(string(status)) {
				if ids, ok := strings.CutPrefix(line, "NSpid:"); ok && strings.HasSuffix(strings.TrimSpace(ids), "\t1") && len(strings.Fields(ids)) == 3 {
					return child, nil
				}
			}
		}
	}
	return 0, errors.New("there is none")
}

// children are those of a process; of one that has ended, none.
func children(pid int) (ids []int) {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is good
	for _, path := range paths {
		text, _ := os.ReadFile(path) // that thread may have ended
		for _, field := range strings.Fields(string(text)) {
			if id, err := strconv.Atoi(field); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// reboot boots again, with a new bpffs, and all else as it was on disk.
func (m *machine) reboot() {
	m.t.Helper()
	m.run("systemctl", "--no-block", "reboot")
	m.await()
}

// command is one to run in the machine, by its first process's namespaces.
func (m *machine) command(name string, args ...string) *exec.Cmd {
	enter := []string{"--target", fmt.Sprint(m.leader), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd=/", "--", name}
	cmd := exec.Command("nsenter", append(enter, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/root", "DEBIAN_FRONTEND=noninteractive", "SYSTEMD_COLORS=0", "NO_COLOR=1"}
	return cmd
}

// try runs a command in the machine and returns all that it wrote.
func (m *machine) try(name string, args ...string) (string, error) {
	out, err := m.command(name, args...).CombinedOutput()
	return string(out), err
}

// run is try where it must succeed.
func (m *machine) run(name string, args ...string) string {
	m.t.Helper()
	out, err := m.try(name, args...)
	if err != nil {
		m.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// write makes a file in the machine.
func (m *machine) write(path, text string, mode string) {
	m.t.Helper()
	cmd := m.command("sh", "-c", `mkdir -p "$(dirname "$1")" && umask 077 && cat > "$1" && chmod "$2" "$1"`, "sh", path, mode)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("write %s: %v\n%s", path, err, out)
	}
}

// put copies a file into the machine.
func (m *machine) put(from, to string) {
	m.t.Helper()
	f, err := os.Open(from)
	must(m.t, err)
	defer f.Close()
	cmd := m.command("sh", "-c", `cat > "$1"`, "sh", to)
	cmd.Stdin = io.Reader(f)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("copy %s to %s: %v\n%s", from, to, err, out)
	}
}

// poll tries until there is no error, and fails the test with the last one.
func poll(t *testing.T, patience time.Duration, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s in vain for %s: waited for %s: %v", t.Name(), patience, what, err)
		}
		<-tick.C
	}
}
