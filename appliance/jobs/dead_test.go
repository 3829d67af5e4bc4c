package jobs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

const lostAfter = 3 * time.Second

// mortal creates a job with lost_after and has all its ranks join.
func (r *rig) mortal(name string, workers int, change ...func(*v1.JobSpec)) []*worker {
	r.t.Helper()
	spec := r.spec(name, workers)
	spec.LostAfter = durationpb.New(lostAfter)
	for _, c := range change {
		c(spec)
	}
	if _, err := r.m.Create(r.t.Context(), spec, false); err != nil {
		r.t.Fatal(err)
	}
	if elastic(spec) {
		return r.joinAny(name, workers)
	}
	return r.joinAll(name, workers)
}

// died waits for the notice that just these ranks are dead.
func (w *worker) died(ranks ...uint32) *v1.Notice {
	w.r.t.Helper()
	return w.next("the death of others", func(u *v1.JoinResponse) bool {
		return u.GetNotice().GetKind() == v1.NoticeKind_NOTICE_KIND_DEAD && slices.Equal(u.GetNotice().GetRanks(), ranks)
	}).GetNotice()
}

// quiet fails the test when the worker was told of a death.
func (w *worker) quiet() {
	w.r.t.Helper()
	for {
		select {
		case u := <-w.updates:
			if u.GetNotice().GetKind() == v1.NoticeKind_NOTICE_KIND_DEAD {
				w.r.t.Errorf("rank %d was told of a death: %v", w.rank, u)
			}
		default:
			return
		}
	}
}

func (r *rig) workerState(job string, rank int) v1.WorkerState {
	r.t.Helper()
	workers, err := r.m.Workers(job)
	if err != nil {
		r.t.Fatal(err)
	}
	return workers[rank].State
}

func TestDeathIsReportedByName(t *testing.T) {
	r := newRig(t, false)
	w := r.mortal("train", 3)
	w[1].vanish()
	w[0].notice(v1.NoticeKind_NOTICE_KIND_LOST, 1)
	r.clock.advance(lostAfter - time.Millisecond)
	r.m.elapse()
	if state := r.workerState("train", 1); state != v1.WorkerState_WORKER_STATE_LOST {
		t.Errorf("before its time: %v", state)
	}
	r.clock.advance(time.Millisecond)
	r.m.elapse()
	for _, rank := range []int{0, 2} {
		n := w[rank].died(1)
		if n.Ago.AsDuration() != lostAfter || len(n.Descriptions) != 1 || n.Descriptions[0] != "10.77.0.2, process of rank 1" ||
			n.Text != "rank 1 (10.77.0.2, process of rank 1) is dead: its connection broke 3s ago" {
			t.Errorf("rank %d was told %v", rank, n)
		}
	}
	if state := r.workerState("train", 1); state != v1.WorkerState_WORKER_STATE_DEAD {
		t.Errorf("the dead worker is %v", state)
	}
	refused(t, w[1].resume().end(), codes.FailedPrecondition, refusal.GenerationOver, "the others were told that it is dead")
	if job := r.get("train"); !strings.Contains(job.Reason, "rank 1 is dead") {
		t.Errorf("the job says %q", job.Reason)
	}
	r.m.elapse() // it is said once
	w[0].quiet()
	var texts []string
	err := r.events.Stream(t.Context(), &v1.StreamEventsRequest{Job: "train"}, func(e *v1.Event) error {
		if e.Kind == "worker-dead" {
			texts = append(texts, e.Text)
		}
		return nil
	})
	if err != nil || len(texts) != 1 || !strings.HasPrefix(texts[0], "rank 1 (10.77.0.2, process of rank 1) of job train is dead") {
		t.Errorf("events %q, %v", texts, err)
	}
}

func TestCallThatIsMadeAgainInTimeIsNoDeath(t *testing.T) {
	r := newRig(t, false)
	w := r.mortal("train", 2)
	w[1].vanish()
	r.clock.advance(lostAfter / 2)
	r.m.elapse()
	again := w[1].resume()
	again.begun()
	r.clock.advance(lostAfter)
	r.m.elapse()
	w[0].quiet()
	again.quiet()
	if state := r.workerState("train", 1); state != v1.WorkerState_WORKER_STATE_PRESENT {
		t.Errorf("the worker is %v", state)
	}
}

func TestNobodyDiesByDefault(t *testing.T) {
	r := newRig(t, false)
	w := r.run("train", 2)
	w[1].vanish()
	r.clock.advance(time.Minute)
	r.m.elapse()
	w[0].quiet()
	w[1].resume().begun()
}

// After a restart of the daemon nobody is dead before he could call.
func TestRestartGivesTimeToResume(t *testing.T) {
	r := newRig(t, false)
	w := r.mortal("train", 3)
	r.restart()
	r.clock.advance(resumeWithin - time.Millisecond)
	r.m.elapse()
	zero, one := w[0].resume(), w[1].resume()
	zero.begun()
	one.begun()
	r.m.elapse()
	zero.quiet()
	r.clock.advance(time.Millisecond)
	r.m.elapse()
	zero.died(2)
	one.died(2)
}

func TestDeathInAQuorum(t *testing.T) {
	r := newRig(t, false)
	w := r.mortal("train", 4, func(s *v1.JobSpec) { s.Quorum = &v1.Quorum{Workers: 3} })
	w[3].vanish()
	r.clock.advance(lostAfter)
	r.m.elapse()
	w[0].died(3) // the worker knows that it need not care
	back := w[3].resume()
	back.begun()
	w[0].notice(v1.NoticeKind_NOTICE_KIND_RESUMED, 3)
	w[2].vanish()
	back.vanish()
	r.clock.advance(lostAfter)
	r.m.elapse()
	w[0].died(2, 3)
	refused(t, w[2].resume().end(), codes.FailedPrecondition, refusal.GenerationOver, "dead")
}

// Two that die one after the other are both in the last notice.
func TestDeathsAddUp(t *testing.T) {
	r := newRig(t, false)
	w := r.mortal("train", 3)
	w[1].vanish()
	r.clock.advance(lostAfter)
	r.m.elapse()
	w[0].died(1)
	w[2].vanish()
	r.clock.advance(lostAfter)
	r.m.elapse()
	if n := w[0].died(1, 2); n.Ago.AsDuration() != 2*lostAfter || !strings.Contains(n.Text, "; rank 2") {
		t.Errorf("told %v", n)
	}
}

func TestLostAfterOfSpecifications(t *testing.T) {
	for _, c := range []struct {
		name             string
		configured, want time.Duration
		spec             *v1.JobSpec
	}{
		{"nothing said", 0, 0, &v1.JobSpec{Workers: 2}},
		{"by the configuration", time.Minute, time.Minute, &v1.JobSpec{Workers: 2}},
		{"never", time.Minute, 0, &v1.JobSpec{Workers: 2, LostAfter: durationpb.New(0)}},
		{"asked for", time.Minute, time.Second, &v1.JobSpec{Workers: 2, LostAfter: durationpb.New(time.Second)}},
		{"elastic", 0, DefaultLostAfter, &v1.JobSpec{Workers: 2, MinWorkers: 1}},
		{"elastic, by the configuration", time.Minute, time.Minute, &v1.JobSpec{Workers: 2, MinWorkers: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, false, func(config *Config) { config.Defaults.LostAfter = c.configured })
			c.spec.Name = "train"
			job, err := r.m.Create(t.Context(), c.spec, true)
			if err != nil {
				t.Fatal(err)
			}
			if got := job.Spec.LostAfter.AsDuration(); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
