package jobs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/p4/pipeline"
)

// TestCreateFails fails each step of Create.
func TestCreateFails(t *testing.T) {
	r := newRig(t, true)
	r.create("other", 2)
	before := r.state()
	r.failNext("put", 1)
	_, err := r.m.Create(t.Context(), r.spec("a", 2), false)
	refused(t, err, codes.Internal, refusal.Storage, "as it was", "injected")
	r.unchanged(before, "a failure to write")
	spec := r.spec("a", 2)
	spec.TorSlots, spec.Window = 4096, 4096
	_, err = r.m.Create(t.Context(), spec, false)
	refused(t, err, codes.ResourceExhausted, refusal.NoRoom)
	r.unchanged(before, "a refusal of the ledger")
	if job := r.create("a", 2); job.Id != 2 {
		t.Errorf("after the failures: %v", job)
	}
}

// TestDeleteFails fails each step of Delete: the job stays whole, and goes when it is tried again.
func TestDeleteFails(t *testing.T) {
	for _, step := range []string{"delete", "remove"} {
		t.Run(step, func(t *testing.T) {
			r := newRig(t, true)
			all := r.run("a", 2)
			before := r.state()
			r.failNext(step, 1)
			_, err := r.m.Delete(t.Context(), "a", true)
			if refused := refusal.Of(err); refused == nil || refused.Code != codes.Internal {
				t.Fatal(err)
			}
			r.unchanged(before, "the failure")
			if job := r.get("a"); job.State != v1.JobState_JOB_STATE_RUNNING || job.Present != 2 {
				t.Errorf("%v", job)
			}
			all[1].vanish()
			all[1].resume().begun()
			if _, err := r.m.Delete(t.Context(), "a", true); err != nil {
				t.Fatal(err)
			}
			refused(t, all[0].end(), codes.Aborted, refusal.JobDeleted)
			if s := r.state(); len(s.Maps)+len(s.Tor)+len(s.Store) != 0 {
				t.Errorf("left behind: %+v", s)
			}
		})
	}
}

// TestDrainFails fails the only step of Drain: workers may still join.
func TestDrainFails(t *testing.T) {
	r := newRig(t, false)
	r.create("a", 1)
	before := r.state()
	r.failNext("put", 1)
	_, err := r.m.Drain(t.Context(), "a")
	refused(t, err, codes.Internal, refusal.Storage)
	r.unchanged(before, "the failure")
	r.join("a", 0).begun()
}

// TestActivationFails fails each step of bringing a generation into the data plane: the first one, and one in the place of another.
func TestActivationFails(t *testing.T) {
	for _, c := range []struct {
		name, step string
		nth        int
		second     bool // it is the second generation
		reason     refusal.Reason
	}{
		{"add", "add", 1, false, refusal.DataPlane},
		{"write", "put", 1, false, refusal.Storage},
		{"write that the old one is over", "put", 1, true, refusal.Storage},
		{"remove the old one", "remove", 1, true, refusal.DataPlane},
		{"add after the old one", "add", 1, true, refusal.DataPlane},
		{"write after the old one", "put", 2, true, refusal.Storage},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, true)
			r.run("other", 2)
			r.create("a", 2)
			generation := uint32(1)
			if c.second {
				for _, w := range r.joinAll("a", 2) {
					w.leave()
				}
				generation++
			}
			before := r.state()
			r.failNext(c.step, c.nth)
			first, last := r.join("a", 0), r.join("a", 1)
			refused(t, first.end(), codes.Internal, c.reason, "injected")
			refused(t, last.end(), codes.Internal, c.reason, "injected")
			r.until("it is undone", func() bool { return r.get("a").Present == 0 })
			after := r.state()
			if c.step != "put" || c.nth == 2 {
				// The old generation is over for good: nobody of it is there, and all of it had joined again.
				drop := func(lines []string, of string) []string {
					return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, of) })
				}
				if c.second && c.step != "remove" {
					before.Maps, before.Tor = drop(before.Maps, "2 "), drop(before.Tor, "2 ")
					before.Store, after.Store = drop(before.Store, `{"spec":{"name":"a"`), drop(after.Store, `{"spec":{"name":"a"`)
				}
			}
			if len(before.Maps) != len(after.Maps) || before.Account != after.Account || !slices.Equal(before.Maps, after.Maps) || !slices.Equal(before.Tor, after.Tor) || !slices.Equal(before.Store, after.Store) {
				t.Errorf("before %+v\nafter %+v", before, after)
			}
			if job := r.get("a"); job.State != v1.JobState_JOB_STATE_WAITING || job.CollectedAt == nil || !strings.Contains(job.Reason, "injected") {
				t.Errorf("%v", job)
			}
			for _, w := range r.joinAll("a", 2) {
				if w.params.Generation != generation {
					t.Errorf("retried: %v", w.params)
				}
			}
			if job := r.get("a"); job.Reason != "" || job.Path != v1.JobPath_JOB_PATH_TOR {
				t.Errorf("retried: %v", job)
			}
		})
	}
}

// TestUndoFails has the undoing fail too: the next generation makes up for it.
func TestUndoFails(t *testing.T) {
	r := newRig(t, false)
	r.create("a", 2)
	r.failNext("put", 1)
	r.failNext("remove", 1)
	first, last := r.join("a", 0), r.join("a", 1)
	refused(t, first.end(), codes.Internal, refusal.Storage, "injected: put")
	refused(t, last.end(), codes.Internal, refusal.Storage, "injected: put")
	if len(aggregator.Jobs()) != 1 {
		t.Error("the removal was to fail")
	}
	for _, w := range r.joinAll("a", 2) {
		w.leave()
	}
	if _, err := r.m.Delete(t.Context(), "a", false); err != nil || len(aggregator.Jobs()) != 0 {
		t.Errorf("%v, %v", err, aggregator.Jobs())
	}
}

// TestDirect has each reason for which a generation goes past the ToR, and the next one through it again.
func TestDirect(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		spoil, mend  func(*rig)
	}{
		{"the ToR is away", "there is no session with the ToR", func(r *rig) { r.failNext("await", 1) }, func(*rig) {}},
		{"the ToR does not answer", "the ToR does not answer", func(r *rig) { r.tor.hold = make(chan struct{}) }, func(r *rig) { close(r.tor.hold) }},
		{"a worker is unknown", "rank 1 at 10.77.0.2 is not among the hosts of the switch", func(r *rig) { r.tor.hosts = 1 }, func(r *rig) { r.tor.hosts = 2 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, true, func(c *Config) { c.Patience = 50 * time.Millisecond })
			r.create("a", 2)
			c.spoil(r)
			all := r.joinAll("a", 2)
			p := all[0].params
			if p.Homes[0].Port != pipeline.FirstPort+pipeline.Ports || p.Homes[0].Ports != 32 || p.Group != "" || p.Tor != nil {
				t.Errorf("%v", p)
			}
			job := r.get("a")
			if job.State != v1.JobState_JOB_STATE_RUNNING || job.Path != v1.JobPath_JOB_PATH_DIRECT || !strings.Contains(job.Reason, c.reason) {
				t.Errorf("%v", job)
			}
			if len(r.tor.has()) != 0 {
				t.Errorf("the ToR is to have %v", r.tor.has())
			}
			installed := aggregator.Jobs()[0]
			if installed.Group.IsValid() || len(installed.Members) != 2 || installed.Members[1].MAC.String() != workerMAC(1).String() || installed.Members[1].Ifindex != 3 {
				t.Errorf("%+v", installed)
			}
			if _, published := send(t, all[0].params, 1); published {
				t.Error("published too early")
			}
			for _, w := range all {
				w.leave()
			}
			c.mend(r)
			p = r.joinAll("a", 2)[1].params
			if p.Homes[0].Port != pipeline.FirstPort || p.Homes[0].Ports != 32 || p.Group == "" || p.Tor == nil || p.Tor.Slots != 8 || p.Tor.Period != 8 {
				t.Errorf("%v", p)
			}
			if job := r.get("a"); job.Path != v1.JobPath_JOB_PATH_TOR || job.Reason != "" {
				t.Errorf("%v", job)
			}
			told, installed := r.tor.has()[uint16(job.Id)], aggregator.Jobs()[0]
			if err := told.Validate(); err != nil {
				t.Error(err)
			}
			if tor := installed.Members[2]; tor.Addr != torAddr || tor.Bits != 3 || told.Cookie != installed.Cookie || told.Key == 0 || told.Generation != 2 {
				t.Errorf("ToR %+v, aggregator %+v", told, installed)
			}
		})
	}
}

// TestSwitchNotice holds that only workers of jobs that go through the ToR hear of it.
func TestSwitchNotice(t *testing.T) {
	r := newRig(t, true)
	through := r.run("through", 2)
	spec := r.spec("past", 2)
	spec.Publication = v1.Publication_PUBLICATION_UNICAST
	if _, err := r.m.Create(t.Context(), spec, false); err != nil {
		t.Fatal(err)
	}
	past := r.joinAll("past", 2)
	r.m.SwitchChanged(v1.SwitchState_SWITCH_STATE_AWAY, "connection refused")
	if text := through[0].notice(v1.NoticeKind_NOTICE_KIND_SWITCH); !strings.Contains(text, "connection refused") {
		t.Error(text)
	}
	if job := r.get("through"); !strings.Contains(job.Reason, "no session with the ToR") {
		t.Errorf("%v", job)
	}
	r.m.SwitchChanged(v1.SwitchState_SWITCH_STATE_IN_SYNC, "")
	through[0].notice(v1.NoticeKind_NOTICE_KIND_SWITCH)
	if job := r.get("through"); job.Reason != "" {
		t.Errorf("%v", job)
	}
	past[1].vanish()
	past[0].next("that rank 1 is lost, and nothing before", func(u *v1.JoinResponse) bool {
		if u.GetNotice().GetKind() != v1.NoticeKind_NOTICE_KIND_LOST {
			t.Errorf("%v", u)
		}
		return true
	})
}
