package jobs

import (
	"context"
	"errors"
	"testing"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

// TestSlowWorker has workers that do not read: the others begin, hear of what happens, and leave.
func TestSlowWorker(t *testing.T) {
	r := newRig(t, false)
	r.create("a", 3)
	r.create("b", 1)
	release := make(chan struct{})
	var slow []*v1.JoinResponse
	done := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		done <- r.m.Join(ctx, &v1.JoinRequest{Job: "a", Address: workerAddr(0).String()}, func(u *v1.JoinResponse) error {
			<-release
			slow = append(slow, u)
			if u.GetNotice().GetKind() == v1.NoticeKind_NOTICE_KIND_LEFT && len(u.GetNotice().Ranks) == 1 {
				cancel()
			}
			return nil
		})
	}()
	r.until("the slow one waits", func() bool { return r.get("a").Present == 1 })
	one, two := r.join("a", 1), r.join("a", 2)
	one.begun()
	two.begun()
	r.join("b", 0).begun()
	for range 100 {
		one.vanish()
		two.notice(v1.NoticeKind_NOTICE_KIND_LOST, 1)
		params := one.params
		one = one.resume()
		one.params = params
		two.notice(v1.NoticeKind_NOTICE_KIND_RESUMED, 1)
	}
	one.leave()
	two.vanish()
	close(release)
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if len(slow) > 5 {
		t.Errorf("a worker that did not read was kept %d messages: %v", len(slow), slow)
	}
	if len(slow) < 3 || slow[len(slow)-3].GetParameters() == nil {
		t.Errorf("want parameters, what was lost and what has left: %v", slow)
	}
}

// TestSendFails has a worker's connection break at its first message.
func TestSendFails(t *testing.T) {
	r := newRig(t, false)
	r.create("a", 2)
	broken := errors.New("broken")
	err := r.m.Join(t.Context(), &v1.JoinRequest{Job: "a", Address: workerAddr(0).String()}, func(*v1.JoinResponse) error { return broken })
	if !errors.Is(err, broken) || r.get("a").Present != 0 {
		t.Errorf("%v, %v", err, r.get("a"))
	}
}

// TestNewsOfTheDead has a worker that does not read be told of one that was lost when the job of both is gone, and when the next generation runs.
func TestNewsOfTheDead(t *testing.T) {
	for name, next := range map[string]func(*rig){
		"deleted": func(r *rig) {
			if _, err := r.m.Delete(t.Context(), "a", true); err != nil {
				t.Fatal(err)
			}
		},
		"next generation": func(r *rig) {
			part := &v1.Resume{Generation: 1, Cookie: aggregator.Jobs()[0].Cookie}
			if err := r.m.Leave(t.Context(), &v1.LeaveRequest{Job: "a", Part: part}); err != nil {
				t.Fatal(err)
			}
			r.joinAll("a", 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, false)
			r.create("a", 2)
			release, reached := make(chan struct{}), make(chan struct{})
			var lost string
			done := make(chan error)
			go func() {
				done <- r.m.Join(t.Context(), &v1.JoinRequest{Job: "a", Address: workerAddr(0).String()}, func(u *v1.JoinResponse) error {
					if u.GetParameters() != nil {
						close(reached)
						<-release
					}
					if n := u.GetNotice(); n.GetKind() == v1.NoticeKind_NOTICE_KIND_LOST {
						lost = n.Text
					}
					return nil
				})
			}()
			other := r.join("a", 1)
			other.begun()
			<-reached
			other.vanish()
			next(r)
			close(release)
			if err := <-done; err != nil && refusal.Of(err).Reason != refusal.JobDeleted {
				t.Error(err)
			}
			if lost != "rank 1 (10.77.0.2, process of rank 1) lost its connection" {
				t.Errorf("told %q", lost)
			}
		})
	}
}
