package jobs

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

func TestDrain(t *testing.T) {
	r := newRig(t, false)
	r.create("empty", 2)
	if _, err := r.m.Drain(t.Context(), "empty"); err != nil {
		t.Fatal(err)
	}
	_, err := r.m.Get("empty")
	refused(t, err, codes.NotFound, refusal.NoSuchJob)

	r.create("forming", 2)
	waiting := r.join("forming", 0)
	waiting.waits(1)
	if _, err := r.m.Drain(t.Context(), "forming"); err != nil {
		t.Fatal(err)
	}
	refused(t, waiting.end(), codes.FailedPrecondition, refusal.JobDraining)
	_, err = r.m.Get("forming")
	refused(t, err, codes.NotFound, refusal.NoSuchJob)

	all := r.run("running", 2)
	job, err := r.m.Drain(t.Context(), "running")
	if err != nil || job.State != v1.JobState_JOB_STATE_DRAINING || job.Present != 2 {
		t.Fatalf("%v, %v", job, err)
	}
	all[0].notice(v1.NoticeKind_NOTICE_KIND_DRAINING)
	all[1].notice(v1.NoticeKind_NOTICE_KIND_DRAINING)
	all[0].vanish()
	refused(t, r.join("running", 0).end(), codes.FailedPrecondition, refusal.JobDraining)
	again := all[0].resume() // who takes part already may finish
	again.begun()
	again.notice(v1.NoticeKind_NOTICE_KIND_DRAINING)
	all[1].leave()
	r.get("running")
	again.leave()
	r.until("the drained job is gone", func() bool { return len(r.m.List()) == 0 })
	if len(aggregator.Jobs()) != 0 {
		t.Error("it is still in the aggregator")
	}

	// The last one vanishes instead of leaving: it may come back, until its grace is over.
	all = r.run("lost", 1)
	all[0].vanish()
	if job, err := r.m.Drain(t.Context(), "lost"); err != nil || job.State != v1.JobState_JOB_STATE_DRAINING {
		t.Fatalf("%v, %v", job, err)
	}
	r.m.sweep(t.Context())
	r.get("lost")
	r.clock.advance(DefaultGrace)
	r.m.sweep(t.Context())
	_, err = r.m.Get("lost")
	refused(t, err, codes.NotFound, refusal.NoSuchJob)
}

func TestGrace(t *testing.T) {
	r := newRig(t, false)
	spec := r.spec("short", 1)
	spec.Grace = durationpb.New(time.Minute)
	if _, err := r.m.Create(t.Context(), spec, false); err != nil {
		t.Fatal(err)
	}
	r.create("long", 1)
	gone := func(name string) bool { _, err := r.m.Get(name); return err != nil }
	r.clock.advance(time.Minute - time.Second)
	r.m.sweep(t.Context())
	if gone("short") || gone("long") {
		t.Fatal("a job was collected before its grace was over")
	}
	w := r.join("short", 0)
	w.begun()
	r.clock.advance(DefaultGrace - time.Minute)
	r.m.sweep(t.Context())
	if gone("short") || gone("long") {
		t.Fatal("a job was collected with a worker in it, or before its grace was over")
	}
	w.vanish()
	r.clock.advance(time.Second)
	r.m.sweep(t.Context())
	if gone("short") || !gone("long") {
		t.Fatal("the grace does not count from the last worker on, or the empty job was not collected")
	}
	w = w.resume()
	w.begun()
	r.clock.advance(time.Hour)
	w.leave()
	r.clock.advance(time.Minute)
	r.m.sweep(t.Context())
	if !gone("short") || len(aggregator.Jobs()) != 0 || r.m.Capacity().Jobs.Used != 0 {
		t.Fatal("a job without workers was not collected whole")
	}
	var kinds []string
	if err := r.events.Stream(t.Context(), &v1.StreamEventsRequest{Job: "short"}, func(e *v1.Event) error { kinds = append(kinds, e.Kind); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"job-created", "job-running", "worker-lost", "worker-resumed", "worker-left", "job-collected"}; !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
}

// TestRun has the sweep run by itself.
func TestRun(t *testing.T) {
	r := newRig(t, false)
	r.create("a", 1)
	r.clock.advance(DefaultGrace)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.m.Run(ctx) }()
	r.until("the job is collected", func() bool { return len(r.m.List()) == 0 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
