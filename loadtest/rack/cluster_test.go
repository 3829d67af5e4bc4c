package rack

import (
	"fmt"
	"testing"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

// published is how many chunks all levels published in the running generation of a job, as whichever appliance is asked says.
func published(t *testing.T, r *Rack, job string) (sum uint64) {
	t.Helper()
	err := r.ask(t.Context(), "what the levels did", func(d *daemon) (bool, error) {
		answer, err := d.node.ListLevels(t.Context(), &v1.ListLevelsRequest{Job: job})
		sum = 0
		for _, l := range answer.GetLevels() {
			sum += l.GetPublished()
		}
		return true, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// goesOn waits until a job's chunks are published, and then more of them.
func goesOn(t *testing.T, r *Rack, job string) {
	t.Helper()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	before := published(t, r, job)
	for deadline := time.Now().Add(daemonPatience); ; <-look.C {
		if now := published(t, r, job); now > before+100 || now < before && now > 100 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the job does not go on")
		}
	}
}

// Four reduce without a pause at three appliances. The home is killed, then the leader, then the home is drained: no worker has an error, and every sum is the right one.
func TestClusterOfThree(t *testing.T) {
	for _, tor := range []Tor{{}, softTor(16)} {
		t.Run(fmt.Sprintf("%d slots in the ToR", tor.Slots), func(t *testing.T) {
			r := build(t, Config{Workers: 4, Appliances: 3, Rate: 200_000_000, Tor: tor})
			job := Job{Name: "train", Window: 64}
			workers := startReducers(t, r, job)
			home := func(but int) int {
				t.Helper()
				at, err := r.Home(t.Context(), job.Name, but)
				if err != nil {
					t.Fatal(err)
				}
				return at
			}
			again := func(index int) {
				t.Helper()
				if err := r.StartDaemon(t.Context(), index); err != nil {
					t.Fatal(err)
				}
				if err := r.AwaitNode(t.Context(), index); err != nil {
					t.Fatal(err)
				}
			}
			goesOn(t, r, job.Name)

			first := home(-1)
			if err := r.KillDaemon(first); err != nil {
				t.Fatal(err)
			}
			home(first)
			goesOn(t, r, job.Name)
			again(first)

			leader, err := r.Leader(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := r.KillDaemon(leader); err != nil {
				t.Fatal(err)
			}
			home(leader)
			goesOn(t, r, job.Name)
			again(leader)
			if now, err := r.Leader(t.Context()); err != nil || now == leader {
				t.Errorf("after its end %d leads, as before, or %v", now, err)
			}

			drained := home(-1)
			if moved, err := r.DrainNode(t.Context(), drained); err != nil || moved != 1 {
				t.Errorf("%d jobs moved, %v", moved, err)
			}
			home(drained)
			goesOn(t, r, job.Name)
			if err := r.UndrainNode(t.Context(), drained); err != nil {
				t.Error(err)
			}
			for _, p := range workers {
				if err := p.Stop(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A worker that calls an appliance which does not lead is told which does, and an operator is served by any.
func TestFollower(t *testing.T) {
	r := build(t, Config{Workers: 2, Appliances: 2})
	leader, err := r.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	follower := r.appliances[1-leader].daemon
	if _, err := follower.jobs.CreateJob(t.Context(), &v1.CreateJobRequest{Spec: &v1.JobSpec{Name: "train", Workers: 2, Window: 8, Tor: v1.TorUse_TOR_USE_NONE}}); err != nil {
		t.Fatal(err)
	}
	for _, a := range r.appliances {
		if got, err := a.daemon.jobs.GetJob(t.Context(), &v1.GetJobRequest{Name: "train"}); err != nil || got.GetJob().GetState() != v1.JobState_JOB_STATE_WAITING {
			t.Errorf("appliance %d: %v, %v", a.index, got, err)
		}
		if found, err := a.daemon.node.Diagnose(t.Context(), &v1.DiagnoseRequest{}); err != nil || len(found.GetFindings()) == 0 {
			t.Errorf("appliance %d finds %v, %v", a.index, found, err)
		}
		if node, err := a.daemon.node.GetNode(t.Context(), &v1.GetNodeRequest{}); err != nil || node.GetName() != ApplianceName(a.index) {
			t.Errorf("appliance %d is %v, %v", a.index, node, err)
		}
	}
	call, err := v1.NewWorkerServiceClient(follower.conn).Join(t.Context(), &v1.JoinRequest{Job: "train", Address: WorkerAddr(0).String()})
	if err == nil {
		_, err = call.Recv()
	}
	if refused := refusal.Of(err); refused == nil || refused.Reason != refusal.NotLeader || refused.Metadata["leader"] != fmt.Sprintf("%s:%d", ApplianceAddr(leader), homeAPI) {
		t.Errorf("a worker at the follower: %v", err)
	}
	reducers(t, r, Job{Name: "train"})
}
