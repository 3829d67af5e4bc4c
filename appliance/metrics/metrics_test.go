package metrics

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/doctor"
	"spillway/appliance/observe"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixed is a snapshot as a source.
type fixed observe.Snapshot

func (f *fixed) Snapshot(context.Context) *observe.Snapshot { return (*observe.Snapshot)(f) }

// state is an appliance with a running job, of which rank 1 is late, a waiting one, and a ToR.
func state() *fixed {
	amount := func(total, used uint64) *v1.Amount { return &v1.Amount{Total: total, Used: used} }
	return &fixed{
		Cluster: &doctor.Cluster{Leader: "rack-1", Leads: true, Write: 3 * time.Millisecond, Nodes: []*v1.ClusterNode{
			{Name: "rack-1", State: v1.NodeState_NODE_STATE_READY}, {Name: "rack-2", State: v1.NodeState_NODE_STATE_LOST},
		}},
		Node: &v1.GetNodeResponse{
			Name: "rack-1", Version: "1.2.3", Adopted: true, ProgramTag: "a0ec7eace52a4dbb", Switch: v1.SwitchState_SWITCH_STATE_IN_SYNC, Warnings: []string{"one"},
			Interfaces: []*v1.Interface{{Name: "eth1", Address: "10.0.0.1", Mtu: 1500, Mode: "native", Up: true}, {Name: "eth2", Address: "10.0.1.1"}},
			Capacity: &v1.Capacity{
				SlotClasses: []*v1.SlotClass{{Elements: 32, Slots: amount(4096, 512), LargestFree: 3584}, {Elements: 256, Slots: amount(4096, 0), LargestFree: 4096}},
				Jobs:        amount(255, 2), Groups: amount(65536, 2), TorSlots: amount(1024, 256), MemoryBytes: amount(4915200, 86016),
			},
		},
		Jobs: []*v1.Job{
			{Spec: &v1.JobSpec{Name: "resnet", Workers: 2}, Id: 1, Generation: 3, State: v1.JobState_JOB_STATE_RUNNING},
			{Spec: &v1.JobSpec{Name: "bert", Workers: 2}, Id: 2, State: v1.JobState_JOB_STATE_WAITING},
		},
		Workers: map[string][]*v1.Worker{
			"resnet": {{Rank: 0, State: v1.WorkerState_WORKER_STATE_PRESENT, Late: durationpb.New(time.Second),
				Lateness: &v1.Lateness{Bounds: []uint64{4e6, 8e6, 16e6}, Counts: []uint64{90, 8, 1, 1}, Sum: 2e8}, ReleasedWithout: 5}, {Rank: 1, State: v1.WorkerState_WORKER_STATE_LOST, Late: durationpb.New(4 * time.Second)}},
			"bert": {{Rank: 0, State: v1.WorkerState_WORKER_STATE_JOINED}, {Rank: 1, State: v1.WorkerState_WORKER_STATE_MISSING}},
		},
		Oldest: map[string]time.Duration{"resnet": 4 * time.Second, "bert": 0},
		Levels: []*v1.Level{
			{Job: "resnet", Level: observe.LevelTor, Contributions: 9000, Published: 4400, Spilled: 100, Preempted: 7, ResendEvicted: 3},
			{Job: "resnet", Level: observe.LevelAggregator, Contributions: 1000, Published: 500},
		},
		Counters: []*v1.Counter{
			{Level: observe.LevelTor, Job: "", Name: "unknown_job", Value: 5, Drop: true},
			{Level: observe.LevelTor, Job: "resnet", Name: "claimed", Value: 4500},
			{Level: observe.LevelTor, Job: "resnet", Name: "duplicate", Value: 2, Drop: true},
			{Level: observe.LevelAggregator, Job: "", Name: "claimed"},
			{Level: observe.LevelAggregator, Job: "", Name: "bad_version", Value: 1, Drop: true},
			{Level: observe.LevelAggregator, Job: "resnet", Name: "stale", Value: 6, Drop: true},
			{Level: observe.LevelAggregator, Job: "resnet", Name: "published", Value: 500},
		},
		Switch: &v1.GetSwitchResponse{
			Sessions: 2, Pushes: 1, Repairs: 4, LastCheck: timestamppb.New(time.Unix(1_790_000_000, 500_000_000)),
			Tables: []*v1.Table{{Name: "job", Entries: 1, Wanted: 1}, {Name: "member", Entries: 2, Wanted: 3}},
		},
		Failures: []error{errors.New("something")},
	}
}

// counted has had calls and joins.
func counted(t *testing.T) *Metrics {
	t.Helper()
	m := New(state())
	end := func(method string, err error) {
		h := m.Calls()
		h.HandleRPC(h.TagRPC(t.Context(), &stats.RPCTagInfo{FullMethodName: method}), &stats.End{Error: err})
	}
	end("/spillway.v1.JobService/ListJobs", nil)
	end("/spillway.v1.JobService/ListJobs", nil)
	end("/spillway.v1.WorkerService/Join", status.Error(codes.NotFound, "no such job"))
	end("/made.up/ByACaller", status.Error(codes.Unimplemented, "what?"))
	join := m.Timed(func(_ context.Context, _ *v1.JoinRequest, send func(*v1.JoinResponse) error) error {
		return errors.Join(send(&v1.JoinResponse{Update: &v1.JoinResponse_Waiting{}}), send(&v1.JoinResponse{Update: &v1.JoinResponse_Parameters{Parameters: &v1.Parameters{}}}))
	})
	for _, request := range []*v1.JoinRequest{{}, {Resume: &v1.Resume{Generation: 1}}} {
		if err := join(t.Context(), request, func(*v1.JoinResponse) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func serve(t *testing.T, m *Metrics, well func(context.Context) error) (address string) {
	t.Helper()
	s, err := Listen("127.0.0.1:0", m, well, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + s.Addr()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

// machine are the values that no state fixes: how long the join took, and which Go this is.
var machine = regexp.MustCompile(`(?m)^(spillway_join_wait_seconds_sum) .*$|go="go[^"]*"`)

func TestExposition(t *testing.T) {
	code, body := get(t, serve(t, counted(t), func(context.Context) error { return nil })+"/metrics")
	if code != http.StatusOK {
		t.Fatalf("code %d: %s", code, body)
	}
	var ours []string
	for line := range strings.Lines(body) {
		if strings.Contains(line, "spillway_") {
			ours = append(ours, line)
		}
	}
	got := machine.ReplaceAllStringFunc(strings.Join(ours, ""), func(s string) string {
		if strings.HasPrefix(s, "go=") {
			return `go="GO"`
		}
		return "spillway_join_wait_seconds_sum SECONDS"
	})
	golden(t, "testdata/metrics.golden", got)
	for _, process := range []string{"process_resident_memory_bytes", "go_goroutines"} {
		if !strings.Contains(body, "\n"+process+" ") {
			t.Errorf("%s is missing", process)
		}
	}
}

// TestDocumentation holds docs/metrics.md to the list of metrics, and the list to what is put out.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- metrics: begin -->\n", "<!-- metrics: end -->"
	before, rest, ok := strings.Cut(string(page), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("docs/metrics.md has no marks around its table")
	}
	if *update {
		if err := os.WriteFile("../../docs/metrics.md", []byte(before+begin+Table()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		table = Table()
	}
	if diff := cmp.Diff(Table(), table); diff != "" {
		t.Errorf("docs/metrics.md is not of these metrics (run the test with -update):\n%s", diff)
	}
	families, err := counted(t).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	put := map[string]bool{}
	for _, f := range families {
		put[f.GetName()] = true
		if strings.HasPrefix(f.GetName(), "spillway_") && !strings.Contains(table, "`"+f.GetName()+"`") {
			t.Errorf("%s is not documented", f.GetName())
		}
	}
	for _, m := range newSet().all {
		if !put[m.name] {
			t.Errorf("%s is documented and never put out", m.name)
		}
	}
}

// TestNothingThere: an appliance of which nothing can be read still answers.
func TestNothingThere(t *testing.T) {
	families, err := New(&fixed{Failures: []error{io.EOF, io.EOF}}).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "spillway_read_failures" && f.GetMetric()[0].GetGauge().GetValue() == 2 {
			return
		}
	}
	t.Error("the failures do not show")
}

func TestHealthz(t *testing.T) {
	var wrong error
	url := serve(t, New(state()), func(context.Context) error { return wrong })
	if code, body := get(t, url+"/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("%d %q", code, body)
	}
	wrong = errors.New("the manager of jobs does not answer")
	if code, body := get(t, url+"/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "manager") {
		t.Errorf("%d %q", code, body)
	}
	if code, _ := get(t, url+"/"); code != http.StatusNotFound {
		t.Errorf("code %d for what is not there", code)
	}
}

func TestAddressInUse(t *testing.T) {
	m := New(state())
	url := serve(t, m, nil)
	_, err := Listen(strings.TrimPrefix(url, "http://"), m, nil, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "metrics.listen") {
		t.Errorf("the same address twice: %v", err)
	}
}

// TestNames holds the names to Prometheus' own rules: units, and _total for counters.
func TestNames(t *testing.T) {
	for _, m := range newSet().all {
		if total := strings.HasSuffix(m.name, "_total"); total != (m.kind == prometheus.CounterValue) {
			t.Errorf("%s: _total is for counters, and for them only", m.name)
		}
		if !regexp.MustCompile(`^spillway_[a-z][a-z0-9_]*$`).MatchString(m.name) || m.help == "" {
			t.Errorf("%s: name or help", m.name)
		}
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, []byte(got)) {
		t.Error(fmt.Sprintf("%s (run with -update if that is meant):\n", path) + cmp.Diff(string(want), got))
	}
}
