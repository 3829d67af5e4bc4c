package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/loadtest/rack"
	"spillway/worker/capi/library"
)

// python is Debian's, which has torch; make installs both.
const python = "/usr/bin/python3"

// libspillway builds the C library once for all tests.
var libspillway = sync.OnceValues(func() (string, error) {
	return library.Build(context.Background(), library.Options{Repository: "..", Out: builtLibrary, Version: "test"})
})

// builtLibrary is beside the test program, in the directory that go test makes and removes.
var builtLibrary = filepath.Join(filepath.Dir(os.Args[0]), "library")

// pythonPlace is the package in the sources, with the library.
func pythonPlace(t *testing.T) torchPlace {
	t.Helper()
	path, err := libspillway()
	if err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Abs("../worker/python")
	if err != nil {
		t.Fatal(err)
	}
	return torchPlace{python: python, packages: packages, library: path}
}

// TestPython: what can be tested without a job, by unittest.
func TestPython(t *testing.T) {
	place := pythonPlace(t)
	cmd := exec.Command(python, "-m", "unittest", "-v", "tests.test_buffers")
	cmd.Dir, cmd.Env = place.packages, append(os.Environ(), place.environment()...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\nOK\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPythonStyle: flake8 finds nothing.
func TestPythonStyle(t *testing.T) {
	cmd := exec.Command(python, "-m", "flake8", ".")
	cmd.Dir = pythonPlace(t).packages
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// scenario has every rank of a job in a new rack run one of tests/rank.py.
type scenario struct {
	rack      *rack.Rack
	processes []*rack.Process
}

func newScenario(t *testing.T, workers int, args ...string) *scenario {
	t.Helper()
	return newScenarioOf(t, workers, rack.Job{Silence: 3 * time.Second}, args...)
}

// newScenarioOf is newScenario with a job that says more.
func newScenarioOf(t *testing.T, workers int, job rack.Job, args ...string) *scenario {
	t.Helper()
	place := pythonPlace(t)
	s := streams{os.Stdin, os.Stdout, os.Stderr}
	config := torchRack(s, workers, 256, 0, 0)
	job.Name, job.Window = "python", 127
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
	if err := r.AddJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	invitations, err := r.Invite(job)
	if err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	if err := invitations[0].Pair.Write(files, "worker", false); err != nil {
		t.Fatal(err)
	}
	sc := &scenario{rack: r}
	for rank, invitation := range invitations {
		p, err := r.StartWorker(rank, rack.Command{
			Path: python, Args: append([]string{"-m", "tests.rank"}, args...), Family: true,
			Env: append(append(place.environment(), invitationEnvironment(invitation, files)...), torchrunEnvironment(rank, workers)...),
		})
		if err != nil {
			t.Fatal(err)
		}
		sc.processes = append(sc.processes, p)
	}
	return sc
}

// says takes the next line of each rank's process, of those that are not left out.
func says[T any](t *testing.T, sc *scenario, without ...int) []T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	all := make([]T, len(sc.processes))
	for rank, p := range sc.processes {
		if slices.Contains(without, rank) {
			continue
		}
		var text json.RawMessage
		if err := p.Receive(ctx, &text); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &all[rank]); err != nil {
			t.Fatalf("rank %d said %s: %v", rank, text, err)
		}
	}
	return all
}

// ends waits for all processes that are not left out, each of which must end well by itself.
func (sc *scenario) ends(t *testing.T, without ...int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for rank, p := range sc.processes {
		if slices.Contains(without, rank) {
			continue
		}
		var more json.RawMessage
		if err := p.Receive(ctx, &more); !errors.Is(err, rack.ErrEnded) {
			t.Errorf("rank %d did not end, but: %v %s", rank, err, more)
		}
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
}

type checks struct {
	Wrong  []string `json:"wrong"`
	Checks int      `json:"checks"`
}

// TestPythonCollectives: every collective and type with arrays and tensors, and the backend of torch.distributed.
func TestPythonCollectives(t *testing.T) {
	for name, least := range map[string]int{"collectives": 36, "backend": 13} {
		t.Run(name, func(t *testing.T) {
			sc := newScenario(t, 3, name)
			for rank, got := range says[checks](t, sc) {
				if len(got.Wrong) != 0 || got.Checks < least {
					t.Errorf("rank %d: of %d checks, these do not hold: %v", rank, got.Checks, got.Wrong)
				}
			}
			sc.ends(t)
		})
	}
}

// pythonError is an exception as a rank reports it.
type pythonError struct {
	Kind           string  `json:"kind"`
	Text           string  `json:"text"`
	Ranks          []int   `json:"ranks"`
	IsRuntimeError bool    `json:"is_runtime_error"`
	After          float64 `json:"after"` // seconds
}

// TestPythonMistakes: errors have their kind and say what to do, the job goes on after those that do not break it, and nothing works in the child of a fork.
func TestPythonMistakes(t *testing.T) {
	type mistakes struct {
		Noncontiguous, Dtype, Device, Saturated, Pickled, Disagreement pythonError
		NonFinite                                                      pythonError `json:"non_finite"`
		Forked                                                         []pythonError
		After, Afterwards                                              *pythonError
	}
	sc := newScenario(t, 2, "mistakes")
	for rank, got := range says[mistakes](t, sc) {
		for _, c := range []struct {
			got         pythonError
			kind, words string
		}{
			{got.Noncontiguous, "LayoutError", "x.contiguous()"},
			{got.Dtype, "DtypeError", "convert"},
			{got.Device, "DeviceError", "x.cpu()"},
			{got.Saturated, "SaturatedError", "int32"},
			{got.NonFinite, "NonFiniteError", "NaN"},
			{got.Pickled, "InvalidError", "join in the other"},
			{got.Disagreement, "DisagreementError", "the length: from 10 to 11 elements: the job is broken at this worker and must be joined again"},
		} {
			if c.got.Kind != c.kind || !strings.Contains(c.got.Text, c.words) {
				t.Errorf("rank %d: %s: %q, want a %s with %q", rank, c.got.Kind, c.got.Text, c.kind, c.words)
			}
		}
		if !slices.Equal(got.NonFinite.Ranks, []int{1}) {
			t.Errorf("rank %d: the NaN came from ranks %v", rank, got.NonFinite.Ranks)
		}
		if len(got.Forked) != 4 {
			t.Errorf("rank %d: the child answered %d times", rank, len(got.Forked))
		}
		for _, e := range got.Forked {
			if e.Kind != "ForkedError" {
				t.Errorf("rank %d: in the child of a fork: %s: %s", rank, e.Kind, e.Text)
			}
		}
		if got.After != nil || got.Afterwards != nil {
			t.Errorf("rank %d: the job did not go on: %v, %v", rank, got.After, got.Afterwards)
		}
	}
	sc.ends(t)
}

// TestPythonRankKilled: when a rank is killed, the others get an exception that names it within the job's silence, or lost_after, and end; also out of a backward pass.
func TestPythonRankKilled(t *testing.T) {
	const killed = 2
	missing, dead := rack.Job{Silence: 3 * time.Second}, rack.Job{Silence: time.Minute, LostAfter: time.Second}
	for _, c := range []struct {
		scenario, kind string
		job            rack.Job
		says           string
	}{
		{"endless", "MissingRanksError", missing, "missing rank 2"},
		{"endless_ddp", "MissingRanksError", missing, "missing rank 2"},
		{"endless", "DeadRanksError", dead, "rank 2 (" + rack.WorkerAddr(killed).String()},
		{"endless_ddp", "DeadRanksError", dead, "rank 2 (" + rack.WorkerAddr(killed).String()},
	} {
		t.Run(c.scenario+" "+c.kind, func(t *testing.T) {
			sc := newScenarioOf(t, 3, c.job, c.scenario)
			says[struct{ Started int }](t, sc)
			sc.processes[killed].Kill()
			for rank, got := range says[pythonError](t, sc, killed) {
				if rank == killed {
					continue
				}
				if got.Kind != c.kind || !slices.Equal(got.Ranks, []int{killed}) || !strings.Contains(got.Text, c.says) || got.After > 10 {
					t.Errorf("rank %d got a %s of ranks %v after %.1f s: %s", rank, got.Kind, got.Ranks, got.After, got.Text)
				}
			}
			sc.ends(t, killed)
		})
	}
}

// TestPythonStaysFlat: memory, descriptors and threads do not grow over 10,000 all-reduces.
func TestPythonStaysFlat(t *testing.T) {
	const count = "10000"
	type usage struct{ Memory, Descriptors, Threads int }
	sc := newScenario(t, 2, "flat", count)
	for rank, got := range says[struct {
		Before, After usage
		Seconds       float64
	}](t, sc) {
		t.Logf("rank %d: before %+v, after %s more all-reduces %+v, %.1f s", rank, got.Before, count, got.After, got.Seconds)
		if got.After.Memory > got.Before.Memory+4<<20 || got.After.Descriptors > got.Before.Descriptors || got.After.Threads > got.Before.Threads+2 {
			t.Errorf("rank %d: before %+v, after %+v", rank, got.Before, got.After)
		}
	}
	sc.ends(t)
}

// TestTorch: four ranks under torchrun train as through gloo, and as in another run to the bit; by both ways into torch. Four epochs:
// after three the accuracies were 0.83 points apart, and from five on gloo's own losses are farther apart than the check takes (docs/pytorch.md).
func TestTorch(t *testing.T) {
	place := pythonPlace(t)
	for _, through := range []string{torchHook, torchBackend} {
		cmd := exec.Command("/proc/self/exe", "torch", "--epochs", "4", "--rate", "unshaped", "--through", through, "--packages", place.packages, "--library", place.library)
		cmd.Env = append(os.Environ(), asSpillLoad+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Count(string(out), "  PASS  ") != 4 {
			t.Errorf("through %s: %v\n%s", through, err, out)
		}
	}
}

// torchrunEnvironment is what torchrun sets for a rank that is alone on its node, for a script that is started without.
func torchrunEnvironment(rank, size int) []string {
	return []string{
		"RANK=" + strconv.Itoa(rank), "WORLD_SIZE=" + strconv.Itoa(size), "LOCAL_RANK=0",
		"MASTER_ADDR=" + rack.WorkerAddr(0).String(), "MASTER_PORT=" + strconv.Itoa(torchPort),
	}
}
