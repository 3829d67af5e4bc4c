package rack

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWorkerProcess(t *testing.T) {
	r := build(t, Config{Workers: 2})
	for rank := range 2 {
		p, err := r.StartWorker(rank, Command{Env: []string{"SPILLWAY_TEST_ROLE=echo"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Send("where"); err != nil {
			t.Fatal(err)
		}
		var answer struct{ Question, Addresses string }
		if err := p.Receive(context.Background(), &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Question != "where" || !strings.Contains(answer.Addresses, WorkerAddr(rank).String()+"/24") {
			t.Errorf("rank %d answered %+v", rank, answer)
		}
		if rank == 0 {
			if err := p.Stop(); err != nil { // the other is left to Close
				t.Errorf("stop: %v", err)
			}
			if err := p.Receive(context.Background(), &answer); !errors.Is(err, ErrEnded) {
				t.Errorf("after stop: %v", err)
			}
		}
	}
	if _, err := r.StartWorker(2, Command{}); err == nil {
		t.Error("started a worker that the rack does not have")
	}
}

func TestWorkerThatFails(t *testing.T) {
	r := build(t, Config{Workers: 1})
	var stderr strings.Builder
	p, err := r.StartWorker(0, Command{Env: []string{"SPILLWAY_TEST_ROLE=nonsense"}, Stderr: &stderr})
	if err != nil {
		t.Fatal(err)
	}
	var answer any
	if err := p.Receive(context.Background(), &answer); !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("receive: %v", err)
	}
	if err := p.Stop(); err == nil {
		t.Error("stop reports no failure")
	}
	if !strings.Contains(stderr.String(), "nonsense") {
		t.Errorf("stderr %q", stderr.String())
	}
}

func TestKillOfTheParentLeavesNothing(t *testing.T) {
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), "SPILLWAY_TEST_ROLE=parent")
	parent.Stderr = os.Stderr
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var said struct {
		PIDs       []int
		Namespaces []string
	}
	if err := json.NewDecoder(stdout).Decode(&said); err != nil {
		t.Fatal(err)
	}
	processes := make([]unix.PollFd, len(said.PIDs))
	for i, pid := range said.PIDs {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		processes[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	held, cookies := namespaces(t), map[string]uint64{}
	for _, ns := range said.Namespaces {
		if held[ns] == "" {
			t.Errorf("namespace %s is not to be seen", ns)
			continue
		}
		cookies[ns] = cookieAt(t, held[ns])
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := parent.Wait(); err == nil {
		t.Error("the killed parent ended well")
	}
	for i := range processes { // the kernel kills the workers; a pidfd tells when one has ended
		if n, err := unix.Poll(processes[i:i+1], 10_000); n != 1 {
			t.Fatalf("worker %d outlives its parent (%v)", said.PIDs[i], err)
		}
	}
	for ns, cookie := range cookies {
		if at := left(t, ns, cookie); at != "" {
			t.Errorf("namespace %s is left: %s holds it", ns, at)
		}
	}
}
