package rack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/wire"
)

// reducerReport is what a process of the role reducer says: that it has joined, that it did so many reductions, or why it cannot go on.
type reducerReport struct {
	Done  int    `json:"done"`
	Error string `json:"error,omitempty"`
}

// reducing is a role: it takes an invitation, joins and reduces, checking every bit, until its input ends or a reduction fails. It reports after the
// join, after the first reduction, and at the end.
func reducing(in *json.Decoder, out *json.Encoder) error {
	var invitation Invitation
	if err := in.Decode(&invitation); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() { // ends with the process
		var more json.RawMessage
		for in.Decode(&more) == nil {
		}
		cancel(errors.New("the input ended"))
	}()
	w, err := invitation.Join(ctx)
	if err != nil {
		return errors.Join(out.Encode(reducerReport{Error: err.Error()}), err)
	}
	if err := out.Encode(reducerReport{}); err != nil {
		return err
	}
	const elements = 20_000
	data, n := make([]int32, elements), invitation.Workers
	for done := 1; ; done++ {
		for i := range data {
			data[i] = int32(i*(invitation.Rank+1) + done)
		}
		err := w.AllReduceInt32(ctx, data, wire.Sum)
		for i := 0; err == nil && i < elements; i++ {
			if want := int32(i*n*(n+1)/2 + n*done); data[i] != want {
				err = fmt.Errorf("reduction %d, element %d: %d, want %d", done, i, data[i], want)
			}
		}
		if ctx.Err() != nil {
			return w.Close()
		}
		if err != nil {
			return errors.Join(out.Encode(reducerReport{Done: done, Error: err.Error()}), w.Close())
		}
		if done == 1 {
			if err := out.Encode(reducerReport{Done: done}); err != nil {
				return err
			}
		}
	}
}

// startReducers admits a job and returns a process for each rank when all are reducing.
func startReducers(t *testing.T, r *Rack, job Job) []*Process {
	t.Helper()
	if err := r.AddJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	return reducers(t, r, job)
}

// reducers starts a process for each rank of a job that is there, and returns when all are reducing.
func reducers(t *testing.T, r *Rack, job Job) []*Process {
	t.Helper()
	invitations, err := r.Invite(job)
	if err != nil {
		t.Fatal(err)
	}
	var all []*Process
	for rank, host := range r.completed(job).Hosts {
		p, err := r.StartWorker(host, Command{Env: []string{"SPILLWAY_TEST_ROLE=reducer"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Send(invitations[rank]); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	for range 2 {
		for _, report := range reports(t, all) {
			if report.Error != "" {
				t.Fatal(report.Error)
			}
		}
	}
	return all
}

// reports are the next ones of all processes.
func reports(t *testing.T, all []*Process) []reducerReport {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	said := make([]reducerReport, len(all))
	var listening errgroup.Group
	for i, p := range all {
		listening.Go(func() error { return p.Receive(ctx, &said[i]) })
	}
	if err := listening.Wait(); err != nil {
		t.Fatal(err)
	}
	return said
}

// Partial sums, in the kernel and in the ToR, outlive the daemon, whether that is killed or replaced, and so does the job.
func TestSumsOutliveTheDaemon(t *testing.T) {
	for name, again := range map[string]func(*Rack, context.Context) error{"killed": (*Rack).RestartDaemon, "upgraded": (*Rack).UpgradeDaemon} {
		for _, tor := range []Tor{{}, softTor(2)} {
			t.Run(fmt.Sprintf("%s, %d slots in the ToR", name, tor.Slots), func(t *testing.T) {
				const elements = 256
				r := build(t, Config{Workers: 3, Tor: tor})
				job := Job{Name: "outlives", Window: 4}
				members := joinAll(t, r, job)
				contribution, sum := make([]int32, elements), make([]int32, elements)
				for i := range contribution {
					contribution[i], sum[i] = int32(i), int32(3*i)
				}
				const chunks = 4 // of which two have a slot in the ToR, if there is one
				for seq := range uint32(chunks) {
					members[0].send(t, seq, contribution)
				}
				for range 2 {
					if err := again(r, t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				node, err := r.home().daemon.node.GetNode(t.Context(), &v1.GetNodeRequest{})
				if err != nil || !node.GetAdopted() {
					t.Errorf("a data plane that was not taken over: %v, %v", node, err)
				}
				for seq := range uint32(chunks) {
					for _, m := range members[1:] {
						m.send(t, seq, contribution)
					}
					for rank, m := range members {
						if h, got := m.receive(t); h.Seq != seq || h.Bitmap != wire.FullBitmap(3) || !slices.Equal(got, sum) {
							t.Fatalf("rank %d got %+v, %v", rank, h, got)
						}
					}
				}
				home, counted, err := r.Counters(t.Context(), job.Name)
				if err != nil {
					t.Fatal(err)
				}
				if want := uint64(chunks - tor.Slots); home["published"] != want || counted.Events["completed"] != uint64(tor.Slots) {
					t.Errorf("the home published %d, want %d; the ToR completed %d, want %d", home["published"], want, counted.Events["completed"], tor.Slots)
				}
			})
		}
	}
}

// Real workers go on while the daemon is killed, and take part in the next life of it.
func TestWorkersResume(t *testing.T) {
	r := build(t, Config{Workers: 3, Rate: 500_000_000, Tor: softTor(32)})
	job := Job{Name: "resumes", Window: 64}
	all := startReducers(t, r, job)
	for range 3 {
		if err := r.RestartDaemon(t.Context()); err != nil {
			t.Fatal(err)
		}
		present(t, r, job.Name, 3)
	}
	for _, p := range all {
		if err := p.Stop(); err != nil {
			t.Errorf("a reducer: %v", err)
		}
	}
	got, err := r.home().daemon.jobs.GetJob(t.Context(), &v1.GetJobRequest{Name: job.Name})
	if err != nil || got.GetJob().GetGeneration() != 1 || got.GetJob().GetPresent() != 0 {
		t.Errorf("after all have left: %v, %v", got, err)
	}
}

// present waits until so many workers take part in a job.
func present(t *testing.T, r *Rack, job string, workers uint32) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		got, err := r.home().daemon.jobs.GetJob(t.Context(), &v1.GetJobRequest{Name: job})
		if err != nil {
			t.Fatal(err)
		}
		if got.GetJob().GetPresent() == workers {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d workers did not come back: %v", workers, got.GetJob())
		}
		<-look.C
	}
}

// Who takes part in a job that is deleted hears why nothing moves any more.
func TestDeletedJobIsAnErrorAtItsWorkers(t *testing.T) {
	r := build(t, Config{Workers: 2, Rate: 500_000_000})
	job := Job{Name: "deleted", Window: 64}
	all := startReducers(t, r, job)
	if err := r.RemoveJob(t.Context(), job.Name); err != nil {
		t.Fatal(err)
	}
	for rank, report := range reports(t, all) {
		if want := `job "deleted" was deleted`; !strings.Contains(report.Error, want) {
			t.Errorf("rank %d: %q, want %q", rank, report.Error, want)
		}
	}
}

// The error of those who wait for a worker that was killed says which one that was, and when it went.
func TestKilledWorkerIsNamedByTheOthers(t *testing.T) {
	r := build(t, Config{Workers: 3, Rate: 500_000_000})
	job := Job{Name: "bereaved", Window: 64, Silence: time.Second}
	all := startReducers(t, r, job)
	all[1].Kill()
	want := regexp.MustCompile(fmt.Sprintf(`missing rank 1; rank 1 \(%s, host .* pid %d\) lost its connection [0-9.]+m?s ago`, regexp.QuoteMeta(WorkerAddr(1).String()), all[1].PID()))
	for _, report := range reports(t, []*Process{all[0], all[2]}) {
		if !want.MatchString(report.Error) {
			t.Errorf("%q, want %q", report.Error, want)
		}
	}
	// Those who are left close and join again, as another in the place of the one that is gone: a new generation.
	again := reducers(t, r, job)
	got, err := r.home().daemon.jobs.GetJob(t.Context(), &v1.GetJobRequest{Name: job.Name})
	if err != nil || got.GetJob().GetGeneration() != 2 || got.GetJob().GetPresent() != 3 {
		t.Errorf("after all have joined again: %v, %v", got, err)
	}
	for _, p := range again {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// Nor is it forgotten when it goes while no daemon is there to see it.
func TestWorkerThatIsKilledInARestartIsNamed(t *testing.T) {
	r := build(t, Config{Workers: 3, Rate: 500_000_000})
	job := Job{Name: "bereaved", Window: 64, Silence: 12 * time.Second}
	all := startReducers(t, r, job)
	err := r.again(t.Context(), func(p *Process) {
		p.Kill()
		all[1].Kill()
	})
	if err != nil {
		t.Fatal(err)
	}
	present(t, r, job.Name, 2)
	for _, report := range reports(t, []*Process{all[0], all[2]}) {
		if want := fmt.Sprintf("pid %d) lost its connection", all[1].PID()); !strings.Contains(report.Error, "missing rank 1; rank 1 (") || !strings.Contains(report.Error, want) {
			t.Errorf("%q, want %q", report.Error, want)
		}
	}
}

// A worker without the job's certificate does not get in, and is told why.
func TestCertificateOfAnotherJob(t *testing.T) {
	r := build(t, Config{Workers: 1})
	for _, name := range []string{"mine", "other"} {
		if err := r.AddJob(t.Context(), Job{Name: name, Window: 4}); err != nil {
			t.Fatal(err)
		}
	}
	invitations, err := r.Invite(Job{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	invitations[0].Job = "mine"
	p, err := r.StartWorker(0, Command{Env: []string{"SPILLWAY_TEST_ROLE=reducer"}, Stderr: new(strings.Builder)})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Send(invitations[0]); err != nil {
		t.Fatal(err)
	}
	if report := reports(t, []*Process{p})[0]; !strings.Contains(report.Error, "certificate") || !strings.Contains(report.Error, "mine") {
		t.Errorf("said %q", report.Error)
	}
	p.Kill()
}

func TestDaemonThatEnds(t *testing.T) {
	r := build(t, Config{Workers: 1})
	if err := unix.Kill(r.home().daemon.process.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-r.Failed():
		if !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "the daemon ended by itself") {
			t.Errorf("failed with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("nobody noticed")
	}
}

func TestDaemonThatDoesNotStart(t *testing.T) {
	said := new(strings.Builder)
	config := Config{Workers: 1, Daemon: Command{Env: []string{"SPILLWAY_TEST_ROLE=nonsense"}, Stderr: said}}
	if _, err := New(t.Context(), config); !errors.Is(err, ErrEnded) || !strings.Contains(said.String(), "nonsense") {
		t.Errorf("built: %v; said %q", err, said)
	}
}
