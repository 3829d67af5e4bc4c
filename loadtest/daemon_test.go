package main

import (
	"io"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The daemon is killed in the midst of reductions and started again; nothing is wrong, nothing hangs, and hardly anything is sent again.
func TestRestartsOfTheDaemon(t *testing.T) {
	for _, tor := range [][]string{
		nil,
		{"--tor", "soft", "--tor-slots", "64"},
		{"--tor", "soft", "--tor-slots", "64", "--loss", "1%", "--tor-reboots", "2", "--tor-reboot-every", "300ms"},
	} {
		t.Run(strings.Join(tor, " "), func(t *testing.T) {
			r := runReport(t, append([]string{"--workers", "3", "--size", "4MB", "--rate", "50mbit", "--iterations", "4", "--warmup", "1",
				"--daemon-restarts", "3", "--daemon-restart-every", "200ms"}, tor...)...)
			if r.DaemonRestarts != 3 {
				t.Errorf("%d restarts", r.DaemonRestarts)
			}
			if tor != nil && *r.Jobs[0].TorShare == 0 {
				t.Errorf("nothing was summed in the ToR: %+v", r.Jobs[0].Tor)
			}
			if len(r.Unassigned) == 0 || r.Counters["published"] == 0 {
				t.Errorf("counters %v, %v: they begin anew with each daemon", r.Counters, r.Unassigned)
			}
		})
	}
}

// Who comes first to a slot keeps it where nobody may put another out, and loses it to the more urgent job where one may.
func TestPreemption(t *testing.T) {
	for preempt, want := range map[string]bool{switchOn: true, switchOff: false} {
		r := runReport(t, "--workers", "3", "--rate", "100mbit", "--warmup", "1", "--window", "15", "--tor", "soft", "--tor-slots", "8", "--tor-partition", partitionShared, "--preempt", preempt,
			"--jobs", "name=urgent,priority=127,size=400kB,count=10", "--jobs", "name=idle,priority=1,size=400kB,count=5,straggler=30ms")
		var preempted uint64
		for _, j := range r.Jobs {
			preempted += j.Preempted
		}
		if preempted > 0 != want {
			t.Errorf("preemption %s: %d partial sums were put out of their slots", preempt, preempted)
		}
	}
}

// A daemon that is gone for good is the reason that is given.
func TestRunWhoseDaemonEnds(t *testing.T) {
	cmd, stderr, processes := startLongRun(t, 4)
	ended := watch(t, processes)
	if err := unix.Kill(playing(t, processes, "spillwayd")[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(stderr)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("ended well")
	}
	if !strings.Contains(string(said), "the daemon ended by itself") {
		t.Errorf("said %q", said)
	}
	ended()
}
