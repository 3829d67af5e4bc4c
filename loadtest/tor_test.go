package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// runReport runs spill-load and reads its report, all of whose results must be right.
func runReport(t *testing.T, args ...string) Report {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{"run", "--output", "json"}, args...)...)
	cmd.Env = append(os.Environ(), asSpillLoad+"=1")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, said.String())
	}
	var r Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	if !r.Correct {
		t.Errorf("%v: wrong results %v", args, r.Wrong)
	}
	return r
}

// Sums are right to the last bit with memory for no, few and all chunks in flight, with one job and with two that
// contend for it, with and without loss; and the ToR sums what it has memory for.
func TestMemoriesOfTheTor(t *testing.T) {
	const inFlight = 128
	for _, slots := range []int{0, 1, 8, 64, inFlight} {
		for _, jobs := range []int{1, 2} {
			for _, loss := range []string{"0%", "1%"} {
				t.Run(fmt.Sprintf("%d slots, %d jobs, %s loss", slots, jobs, loss), func(t *testing.T) {
					r := runReport(t, "--workers", "3", "--size", "600kB", "--rate", "200mbit", "--iterations", "2", "--warmup", "0", "--window", fmt.Sprint(inFlight-1),
						"--tor", "soft", "--tor-slots", fmt.Sprint(slots), "--tor-partition", partitionShared, "--jobs", fmt.Sprint(jobs), "--loss", loss)
					if len(r.Jobs) != jobs {
						t.Fatalf("%d jobs in the report", len(r.Jobs))
					}
					for _, j := range r.Jobs {
						t.Logf("job %s: %.3f in the ToR, %.3f spilled, %d preempted, %d resent, %.0f ms", j.Name, *j.TorShare, *j.SpillShare, j.Preempted, j.Resent, j.JCTMS)
						if slots == 0 && *j.TorShare != 0 || slots > 0 && *j.TorShare == 0 {
							t.Errorf("job %s: %g of the contributions were summed in the ToR", j.Name, *j.TorShare)
						}
						// What was late or lost is summed elsewhere, and two jobs put each other out.
						if want := float64(slots) / inFlight; jobs == 1 && loss == "0%" && math.Abs(*j.TorShare-want) > 0.05+want/20 {
							t.Errorf("%g of the contributions were summed in the ToR, which has memory for %g", *j.TorShare, want)
						}
					}
				})
			}
		}
	}
}

// The ToR is killed in the midst of reductions, started and told again; nothing is wrong and nothing hangs.
func TestRebootsOfTheTor(t *testing.T) {
	r := runReport(t, "--workers", "3", "--size", "4MB", "--rate", "100mbit", "--iterations", "4", "--warmup", "1", "--tor", "soft", "--tor-slots", "64",
		"--tor-reboots", "3", "--tor-reboot-every", "200ms")
	if r.TorReboots != 3 {
		t.Errorf("%d reboots", r.TorReboots)
	}
	if j := r.Jobs[0]; *j.TorShare == 0 || j.TorCompleted == 0 {
		t.Errorf("nothing was summed in the ToR: %+v", j.Tor)
	}
}

// Jobs that differ in all that a description can say.
func TestJobsThatDiffer(t *testing.T) {
	r := runReport(t, "--workers", "4", "--rate", "200mbit", "--warmup", "1", "--window", "63", "--dtype", "int32", "--tor", "soft", "--tor-slots", "32", "--tor-partition", "shared",
		"--jobs", "name=early,priority=127,size=400kB,count=3,on=0-1", "--jobs", "name=late,priority=1,size=200kB,count=2,start=30ms,straggler=20ms")
	if len(r.Jobs) != 2 || r.Jobs[0].Name != "early" || r.Jobs[1].Name != "late" {
		t.Fatalf("jobs %+v", r.Jobs)
	}
	early, late := r.Jobs[0], r.Jobs[1]
	if len(early.TimesMS) != 3 || len(late.TimesMS) != 2 || len(early.Workers) != 2 || len(late.Workers) != 4 {
		t.Errorf("early: %d times, %d workers; late: %d times, %d workers", len(early.TimesMS), len(early.Workers), len(late.TimesMS), len(late.Workers))
	}
	if late.JCTMS < 40 {
		t.Errorf("a job whose last worker paused twice for 20 ms was complete after %g ms", late.JCTMS)
	}
}

// A ToR that is gone is the reason that is given, not the workers' silence.
func TestRunWhoseTorEnds(t *testing.T) {
	cmd, stderr, processes := startLongRun(t, 5, "--tor", "soft")
	ended := watch(t, processes)
	if err := unix.Kill(playing(t, processes, "tor")[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(stderr)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("ended well")
	}
	if !strings.Contains(string(said), "the ToR ended by itself") {
		t.Errorf("said %q", said)
	}
	ended()
}
