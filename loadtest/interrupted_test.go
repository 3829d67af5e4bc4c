package main

import (
	"bufio"
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

	"golang.org/x/sys/unix"
)

// startLongRun starts spill-load on a rack and returns when it is all-reducing, with as many processes as it must have started: workers, the
// daemon and, if it has one, the ToR.
func startLongRun(t *testing.T, processes int, more ...string) (cmd *exec.Cmd, stderr *bufio.Reader, workers []int) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe", "run", "--workers", "3", "--size", "4MB", "--rate", "50mbit", "--iterations", "100", "--warmup", "0")
	cmd.Args = append(cmd.Args, more...)
	cmd.Env = append(os.Environ(), asSpillLoad+"=1")
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stderr = bufio.NewReader(pipe)
	for {
		line, err := stderr.ReadString('\n')
		if err != nil {
			t.Fatalf("it ended before it was all-reducing: %v", err)
		}
		if strings.HasPrefix(line, "all-reducing") {
			break
		}
	}
	workers = children(t, cmd.Process.Pid)
	if len(workers) != processes {
		t.Fatalf("%d processes, want %d", len(workers), processes)
	}
	return cmd, stderr, workers
}

// playing is which of the processes of a run play a role: that of a hidden command.
func playing(t *testing.T, processes []int, role string) []int {
	t.Helper()
	var some []int
	for _, pid := range processes {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			t.Fatal(err)
		}
		if args := strings.Split(string(line), "\x00"); len(args) > 1 && args[1] == role {
			some = append(some, pid)
		}
	}
	if some == nil {
		t.Fatalf("no %s among the processes %v", role, processes)
	}
	return some
}

// children are the processes that a process has started.
func children(t *testing.T, pid int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		_, after, _ := strings.Cut(string(stat), ") ") // state, parent, …
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, child)
		}
	}
	return all
}

// watch returns a function that waits until all the processes have ended. Call it before they may end.
func watch(t *testing.T, pids []int) func() {
	t.Helper()
	watched := make([]unix.PollFd, len(pids))
	for i, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		watched[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		t.Cleanup(func() {
			if err := unix.Close(fd); err != nil {
				t.Error(err)
			}
		})
	}
	return func() {
		t.Helper()
		for i := range watched {
			if n, err := unix.Poll(watched[i:i+1], 10_000); n != 1 {
				t.Errorf("process %d is left (%v)", pids[i], err)
			}
		}
	}
}

func TestInterruptedRunStopsInOrder(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			cmd, stderr, workers := startLongRun(t, 5, "--tor", "soft")
			ended := watch(t, workers)
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			said, err := io.ReadAll(stderr)
			if err != nil {
				t.Fatal(err)
			}
			err = cmd.Wait()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != exitFailure {
				t.Errorf("ended with %v, want exit code %d: %s", err, exitFailure, said)
			}
			if !strings.Contains(string(said), signal.String()) {
				t.Errorf("said %q, which does not name the signal", said)
			}
			for _, pid := range workers { // they were waited for, not only told
				if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
					t.Errorf("worker %d is still there: %v", pid, err)
				}
			}
			ended()
		})
	}
}

func TestKilledRunLeavesNoWorker(t *testing.T) {
	cmd, _, workers := startLongRun(t, 5, "--tor", "soft")
	ended := watch(t, workers)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("ended well")
	}
	ended()
}

// A run ends at once when a worker dies.
func TestKilledWorkerIsNamed(t *testing.T) {
	cmd, stderr, processes := startLongRun(t, 5, "--tor", "soft")
	if err := unix.Kill(playing(t, processes, "worker")[1], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(stderr)
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailure {
		t.Errorf("ended with %v, want exit code %d", err, exitFailure)
	}
	if !strings.Contains(string(said), "signal: killed") {
		t.Errorf("said %q", said)
	}
}

// A worker that hangs is neither waited for without end nor left behind; the others name its rank.
func TestHangingWorkerIsNamed(t *testing.T) {
	cmd, stderr, processes := startLongRun(t, 4, "--silence", "500ms")
	ended := watch(t, processes)
	if err := unix.Kill(playing(t, processes, "worker")[2], unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(stderr)
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailure {
		t.Errorf("ended with %v, want exit code %d", err, exitFailure)
	}
	t.Logf("%s", said)
	for _, want := range []string{"all-reduce at rank", "missing", errNoAnswer.Error()} {
		if !strings.Contains(string(said), want) {
			t.Errorf("does not say %q", want)
		}
	}
	ended()
}

// A campaign that is interrupted says so, and leaves neither a process nor a namespace: those live in its processes' threads only.
func TestInterruptedChaosStopsInOrder(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "chaos", "uplink-cut", "--count", "10000", "--workers", "3")
	cmd.Env = append(os.Environ(), asSpillLoad+"=1")
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stderr := bufio.NewReader(pipe)
	for line := ""; !strings.Contains(line, "went on"); {
		if line, err = stderr.ReadString('\n'); err != nil {
			t.Fatalf("it ended before the first fault: %v", err)
		}
	}
	processes := children(t, cmd.Process.Pid)
	if len(processes) != 5 { // workers, daemon, ToR
		t.Errorf("%d processes", len(processes))
	}
	ended := watch(t, processes)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(stderr)
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailure {
		t.Errorf("ended with %v, want exit code %d", err, exitFailure)
	}
	if !strings.Contains(string(said), "interrupt") {
		t.Errorf("said %q, which does not name the signal", said)
	}
	ended()
}
