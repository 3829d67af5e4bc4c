package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"spillway/loadtest/quantity"
	"spillway/loadtest/rack"
)

// startCompare starts spill-load compare, with a directory of its own for what it needs while it runs.
func startCompare(t *testing.T, args ...string) (cmd *exec.Cmd, files string) {
	t.Helper()
	files = t.TempDir()
	cmd = exec.Command("/proc/self/exe", append([]string{"compare"}, args...)...)
	cmd.Env = append(os.Environ(), asSpillLoad+"=1", "TMPDIR="+files)
	return cmd, files
}

// empty fails the test if something is left in a directory.
func empty(t *testing.T, directory string) {
	t.Helper()
	left, err := os.ReadDir(directory)
	if err != nil || len(left) > 0 {
		t.Errorf("left in its directory: %v, %v", left, err)
	}
}

// All four systems on one rack, each with a right result, and a page of it.
func TestCompare(t *testing.T) {
	page := filepath.Join(t.TempDir(), "compare.html")
	cmd, files := startCompare(t, "--workers", "3", "--sizes", "4kB,1MB", "--rates", "500mbit", "--rounds", "2", "--iterations", "2", "--output", "json", "--report", page)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	empty(t, files)
	var report CompareReport
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	if !report.Correct || len(report.Wrong) > 0 || len(report.Missing) > 0 {
		t.Errorf("correct: %t, wrong: %v, missing: %v", report.Correct, report.Wrong, report.Missing)
	}
	want := []string{systemSpillway, systemGloo, systemOpenMPI, systemServer}
	if !slices.Equal(report.Systems, want) || len(report.Results) != 2*len(want) {
		t.Fatalf("systems %v, %d results", report.Systems, len(report.Results))
	}
	for i, result := range report.Results {
		t.Logf("%+v", result)
		if result.System != want[i%len(want)] || result.Workers != 3 || result.RateBPS != 500_000_000 || result.SizeBytes != []int64{4000, 1_000_000}[i/len(want)] {
			t.Errorf("result %d is %+v", i, result)
		}
		if len(result.RoundsMS) != 2 || result.P50MS <= 0 || len(result.RatioTo) != len(want)-1 {
			t.Errorf("%s: %+v", result.System, result)
		}
		if bandwidth := float64(result.SizeBytes) * 8 / (result.P50MS / 1e3) / 1e9; math.Abs(bandwidth/result.AlgBWGbps-1) > 1e-9 {
			t.Errorf("%s: %g Gbit/s, want %g", result.System, result.AlgBWGbps, bandwidth)
		}
		// A bucket lets 256 kB through at once, a quarter of the larger tensor at a worker's link.
		if result.WireShare == nil || *result.WireShare <= 0 || result.SizeBytes == 1_000_000 && *result.WireShare > 1.5 {
			t.Errorf("%s: a share of the wire limit of %v", result.System, result.WireShare)
		}
		best := math.Inf(1)
		for other := range report.Systems {
			peer := report.Results[i/len(want)*len(want)+other]
			ratios := []float64{peer.RoundsMS[0] / result.RoundsMS[0], peer.RoundsMS[1] / result.RoundsMS[1]}
			if ratio, there := result.RatioTo[peer.System]; there && math.Abs(ratio/median(ratios)-1) > 1e-9 {
				t.Errorf("%s to %s: %g, want %g", result.System, peer.System, ratio, median(ratios))
			}
			if peer.System != systemSpillway {
				best = min(best, median(ratios))
			}
		}
		if result.RatioToBestPeer > best*(1+1e-9) {
			t.Errorf("%s: %g to the best peer, and %g to one of them", result.System, result.RatioToBestPeer, best)
		}
	}
	for _, part := range []string{"torch", "mpi", "mpi4py"} {
		if report.Versions[part] == "" {
			t.Errorf("no version of %s in %v", part, report.Versions)
		}
	}
	if body := browse(t, page); strings.Count(body, "<svg") != 2 || !strings.Contains(body, "3 workers, links of 500mbit") {
		t.Error("the page does not show it")
	}
}

// Every peer's check finds an element that is not what it must be: here because something else is expected.
func TestCompareFindsWrongSums(t *testing.T) {
	o := &compareOptions{sizes: []quantity.Size{400_000}, elements: 256, wireBits: wireBits32, window: 255, rounds: 1, iterations: 2, seed: 1, python: python, streams: streams{os.Stdin, os.Stdout, os.Stderr}, files: t.TempDir()}
	if err := o.writeScript(); err != nil {
		t.Fatal(err)
	}
	config := o.rack(place{workers: 2})
	config.Daemon.Env = []string{asSpillLoad + "=1"}
	r, err := rack.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv(asSpillLoad, "1") // for the processes that are started from here on
	progress := newProgress(io.Discard)
	defer progress.Close()
	task := o.spillway(place{workers: 2}, o.sizes[0]).tasks()[0]
	tensors, err := newPeerTensors(t.Context(), &task, progress)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tensors.close(); err != nil {
			t.Error(err)
		}
	}()
	const at = 77_777
	sum, bound := tensors.sum.float64s(), tensors.bound.float64s()
	if bound[at] == 0 {
		t.Fatalf("element %d is 0 at all workers, and says little", at)
	}
	sum[at] += 3 * bound[at]
	c := &comparison{options: o, place: place{workers: 2}, rack: r, progress: progress}
	for _, name := range []string{systemGloo, systemOpenMPI, systemServer} {
		system := &contestant{name: name, streams: o.streams}
		if err := system.start(t.Context(), r, o); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := system.load(t.Context(), r, &task, tensors, progress); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := c.round(t.Context(), system, 0); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var places []int
		for _, w := range system.session.wrong {
			places = append(places, w.Element)
		}
		if want := slices.Repeat([]int{at}, 3*2); !slices.Equal(places, want) { // iterations, with the one to warm up, and ranks
			t.Errorf("%s: wrong elements %v, want %v", name, places, want)
		}
		if err := system.stop(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A size that the machine's memory does not hold is refused, with what to do.
func TestCompareWithoutMemory(t *testing.T) {
	o := &compareOptions{elements: 256, window: 255, wireBits: wireBits32}
	size := quantity.Size(maxTensor * elementSize)
	task := o.spillway(place{workers: 64}, size).tasks()[0]
	if err := enoughMemory(&task, 4); err == nil || !strings.Contains(err.Error(), "smaller --sizes") {
		t.Errorf("64 workers with %s each: %v", &size, err)
	}
	task = o.spillway(place{workers: 2}, 4000).tasks()[0]
	if err := enoughMemory(&task, 4); err != nil {
		t.Error(err)
	}
}

// descendants are all processes that a process has started, and theirs.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	var all []int
	for _, child := range children(t, pid) {
		all = append(append(all, child), descendants(t, child)...)
	}
	return all
}

// startLongCompare starts one that lasts, and returns when all systems' processes are there.
func startLongCompare(t *testing.T) (cmd *exec.Cmd, stderr *bufio.Reader, processes []int, files string) {
	t.Helper()
	cmd, files = startCompare(t, "--workers", "2", "--sizes", "8MB", "--rates", "20mbit", "--rounds", "100", "--iterations", "1")
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stderr = bufio.NewReader(pipe)
	var said strings.Builder
	for line := ""; !strings.Contains(line, "round 1 of 100: gloo"); said.WriteString(line) {
		if line, err = stderr.ReadString('\n'); err != nil {
			t.Fatalf("it ended before the second system's turn: %s", said.String())
		}
	}
	processes = descendants(t, cmd.Process.Pid)
	// Daemon, Spillway's workers, Gloo's, the server and its workers; mpirun, rank 0, the agent's daemon, rank 1.
	if len(processes) < 1+2+2+3+4 {
		t.Errorf("%d processes", len(processes))
	}
	return cmd, stderr, processes, files
}

func TestInterruptedCompareLeavesNothing(t *testing.T) {
	cmd, stderr, processes, files := startLongCompare(t)
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
		t.Errorf("ended with %v, want exit code %d: %s", err, exitFailure, said)
	}
	if !strings.Contains(string(said), unix.SIGINT.String()) {
		t.Errorf("said %q, which does not name the signal", said)
	}
	ended()
	empty(t, files)
}

func TestKilledCompareLeavesNoProcess(t *testing.T) {
	cmd, _, processes, _ := startLongCompare(t)
	ended := watch(t, processes)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("ended well")
	}
	ended()
}
