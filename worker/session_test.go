package worker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

func TestWorkerResumesWhileCollectivesGoOn(t *testing.T) {
	a, l := newAppliance(t, ""), newLoopback(t, 1, 0)
	w, _ := joinOne(t, a, l.of(0))
	for range 2 {
		a.stop()
		if err := w.AllReduce(t.Context(), make([]float32, 10_000)); err != nil {
			t.Errorf("without an appliance: %v", err)
		}
		a.start(t)
		c := a.next(t)
		if r := c.request.GetResume(); r.GetGeneration() != uint32(l.params.Generation) || r.GetCookie() != l.params.Cookie || c.request.Rank != 0 {
			t.Errorf("resumes with %v", c.request)
		}
		// Refusals that pass are asked again.
		c.end <- refusal.New(codes.AlreadyExists, refusal.RankTaken, "rank 0 is present")
		a.next(t).end <- refusal.New(codes.PermissionDenied, refusal.NotAuthorised, "the certificate has expired")
		a.next(t).parameters(t, l.of(0))
		if err := w.AllReduce(t.Context(), make([]float32, 10_000)); err != nil {
			t.Errorf("resumed: %v", err)
		}
	}
}

func TestWorkerIsBrokenByTheAppliance(t *testing.T) {
	for _, c := range []struct {
		name    string
		end     error
		restart bool
	}{
		{"deleted", refusal.New(codes.Aborted, refusal.JobDeleted, "job train was deleted by an operator: create it again"), false},
		{"over", refusal.New(codes.FailedPrecondition, refusal.GenerationOver, "generation 2 is over: join without resuming"), true},
		{"unknown", refusal.New(codes.NotFound, refusal.NoSuchJob, "there is no job train"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, l := newAppliance(t, ""), newLoopback(t, 2, 0)
			w, at := joinOne(t, a, l.of(0))
			inFlight, err := w.AllReduceAsync(make([]float32, 1000)) // rank 1 never comes
			if err != nil {
				t.Fatal(err)
			}
			if c.restart {
				a.stop()
				a.start(t)
				at = a.next(t)
			}
			at.end <- c.end
			err = inFlight.Wait(t.Context())
			var refused *refusal.Error
			if !errors.Is(err, ErrBroken) || !errors.As(err, &refused) || refused.Reason != refusal.Of(c.end).Reason || !strings.Contains(err.Error(), c.end.Error()) {
				t.Errorf("in flight: %v", err)
			}
			if err := w.AllReduce(t.Context(), []float32{1}); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), c.end.Error()) {
				t.Errorf("afterwards: %v", err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if len(a.left) != 0 || len(a.calls) != 0 {
				t.Errorf("%d leaves and %d calls after the end", len(a.left), len(a.calls))
			}
		})
	}
}

func TestMissingRanksAreExplained(t *testing.T) {
	a, l := newAppliance(t, ""), newLoopback(t, 4, 0)
	l.params.Silence = 700 * time.Millisecond
	w, c := joinOne(t, a, l.of(0))
	begin := time.Now()
	c.notice(t, v1.NoticeKind_NOTICE_KIND_LOST, "ranks 2, 3 lost their connections.", 2, 3)
	c.notice(t, v1.NoticeKind_NOTICE_KIND_RESUMED, "rank 3 is back", 3, 77)
	c.notice(t, v1.NoticeKind_NOTICE_KIND_LEFT, "", 1)
	c.notice(t, v1.NoticeKind_NOTICE_KIND_SWITCH, "the ToR is away")
	var missing *MissingRanksError
	err := w.AllReduce(t.Context(), make([]float32, 100))
	if !errors.As(err, &missing) || len(missing.Ranks) != 3 || len(missing.Gone) != 2 {
		t.Fatalf("error %v", err)
	}
	lost, left := missing.Gone[0], missing.Gone[1]
	if len(lost.Ranks) != 1 || lost.Ranks[0] != 2 || lost.Since.Before(begin) || lost.For > time.Since(begin) || len(left.Ranks) != 1 || left.Ranks[0] != 1 {
		t.Errorf("gone %+v", missing.Gone)
	}
	if want := regexp.MustCompile(`missing ranks 1, 2, 3; ranks 2, 3 lost their connections [0-9.]+m?s ago; rank 1 left the job [0-9.]+m?s ago`); !want.MatchString(err.Error()) {
		t.Errorf("%v does not say %q", err, want)
	}
}

func TestDrainingIsTold(t *testing.T) {
	a, l := newAppliance(t, ""), newLoopback(t, 1, 0)
	w, c := joinOne(t, a, l.of(0))
	select {
	case <-w.Draining():
		t.Error("draining from the start")
	default:
	}
	c.notice(t, v1.NoticeKind_NOTICE_KIND_DRAINING, "the job is draining")
	c.notice(t, v1.NoticeKind_NOTICE_KIND_DRAINING, "the job is still draining")
	select {
	case <-w.Draining():
	case <-time.After(patience):
		t.Error("nobody is told")
	}
	if err := w.AllReduce(t.Context(), []float32{1}); err != nil {
		t.Errorf("while draining: %v", err)
	}
	if l.join(t, 0); (&Worker{}).Draining() != nil {
		t.Error("a worker without an appliance drains")
	}
}

func TestCloseIsBounded(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("gone=%t", gone), func(t *testing.T) {
			a, l := newAppliance(t, ""), newLoopback(t, 1, 0)
			a.leave = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
			w, _ := joinOne(t, a, l.of(0))
			if gone {
				a.stop()
			}
			begin := time.Now()
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took > leaveTimeout+time.Second {
				t.Errorf("Close took %s", took)
			}
		})
	}
}
