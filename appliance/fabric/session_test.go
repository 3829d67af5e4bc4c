package fabric_test

import (
	"strings"
	"testing"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"spillway/appliance/fabric"
	"spillway/appliance/refusal"
	"spillway/p4/client"
	"spillway/p4/pipeline"
)

// A ToR that reboots is told everything again, soon.
func TestReboot(t *testing.T) {
	tor := newTor(t)
	s := run(t, tor.target(), nil)
	job := newJob(4, 2)
	s.SetJob(job)
	s.settled(4, 2)
	for reboot := 1; reboot <= 3; reboot++ {
		tor.kill()
		s.wait(away)
		err := s.Await(deadline(t), 4, 2)
		wantRefusal(t, err, refusal.SwitchAway, "no session with the ToR at "+tor.target())
		if refusal.Of(err).Code != codes.Unavailable {
			t.Error(err)
		}
		if _, ok := s.Limits(); !ok {
			t.Error("what the ToR can hold is forgotten")
		}
		tor.start()
		begin := time.Now()
		// That it was in before the reboot counts for nothing.
		for changed := s.Changed(); s.Await(deadline(t), 4, 2) != nil; changed = s.Changed() {
			<-changed
		}
		tor.has(job)
		s.wait(inSync)
		took := time.Since(begin)
		t.Logf("in sync %v after it listens", took)
		if took > time.Second {
			t.Errorf("a rebooted ToR is in sync after %v", took)
		}
		s.settled(4, 2)
		tor.has(job)
		if n := s.events.of("pipeline-pushed"); n != reboot+1 {
			t.Errorf("%d pushes after reboot %d", n, reboot)
		}
	}
	if s.events.of("switch-away") != 3 || s.events.of("switch-back") != 3 || s.events.of("switch-repaired") != 0 {
		t.Errorf("events: %s", s.events)
	}
}

// A daemon that starts before its ToR says that it is away, and finds it when it is there.
func TestStartWithoutTor(t *testing.T) {
	tor := newTor(t)
	tor.kill()
	s := run(t, tor.target(), nil)
	s.SetJob(newJob(1, 1))
	wantRefusal(t, s.Await(deadline(t), 1, 1), refusal.SwitchAway)
	if _, ok := s.Limits(); ok {
		t.Error("limits of a ToR that was never there")
	}
	if _, err := s.Counters(deadline(t), 1); err == nil {
		t.Error("counters of a ToR that was never there")
	}
	if d, err := s.Describe(deadline(t), true); err != nil || d.GetState() != away || d.GetReason() == "" || d.GetSessions() != 0 {
		t.Errorf("%v, %v", d, err)
	}
	tor.start()
	s.wait(inSync)
	tor.has(newJob(1, 1))
}

// The pipeline of a ToR whose session lasts can go too: another controller may push one.
func TestPipelineGone(t *testing.T) {
	tor := newTor(t)
	s := run(t, tor.target(), nil)
	job := newJob(4, 2)
	s.SetJob(job)
	s.settled(4, 2)
	id := s.election()
	// Written in the name of the primary: it keeps its session, and notices by the cookie.
	program, err := fabric.Program(fabric.KindSoftware)
	if err != nil {
		t.Fatal(err)
	}
	program.Cookie++
	s.traffic.reset()
	tor.push(id, p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT, program) // which empties it
	s.events.wait(t, "pipeline-pushed", 2)
	s.events.wait(t, "switch-in-sync", 2)
	s.settled(4, 2)
	tor.has(job)
	if got := s.traffic.count(); got.pushes != 1 || got.updates != len(entries(t, job)) {
		t.Errorf("%+v", got)
	}
	s.traffic.reset()
	tor.push(id, p4v1.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT, program) // which keeps all, and so does the way back
	s.events.wait(t, "pipeline-pushed", 3)
	s.events.wait(t, "switch-in-sync", 3)
	s.settled(4, 2)
	tor.has(job)
	if got := s.traffic.count(); got.pushes != 1 || got.updates != 0 {
		t.Errorf("%+v", got)
	}
	if s.events.of("switch-away") != 0 {
		t.Errorf("events: %s", s.events)
	}
}

// A controller with a higher election id takes over; when it leaves, this one is primary again and undoes what it did.
func TestTakeover(t *testing.T) {
	tor := newTor(t)
	s := run(t, tor.target(), nil)
	job := newJob(1, 1)
	s.SetJob(job)
	s.settled(1, 1)

	other := tor.controller(&client.ElectionID{Low: 1000})
	s.wait(backup)
	if _, reason := s.State(); !strings.Contains(reason, "election id 1000") {
		t.Error(reason)
	}
	second := newJob(2, 1)
	s.SetJob(second)
	wantRefusal(t, s.Await(deadline(t), 2, 1), refusal.SwitchAway, "election id 1000")
	if d, err := s.Describe(deadline(t), false); err != nil || d.GetPrimary() || d.GetState() != backup {
		t.Errorf("%v, %v", d, err)
	}
	removal, err := pipeline.Removal(pipeline.Software(), job)
	if err != nil {
		t.Fatal(err)
	}
	err = other.Write(deadline(t), removal[0], &p4v1.Update{Type: p4v1.Update_INSERT, Entity: pipeline.Multicast(77, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s.traffic.reset()
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	s.wait(inSync)
	s.settled(1, 1)
	s.settled(2, 1)
	tor.has(job, second)
	if got := s.traffic.count(); got.pushes != 0 || got.updates != 2+len(entries(t, second))-len(entries(t)) {
		t.Errorf("%+v", got)
	}
	if text := s.events.wait(t, "switch-repaired", 1); !strings.Contains(text, "1 missing, 1 foreign") {
		t.Error(text)
	}
	if id := s.election(); id.Low <= 1000 {
		t.Errorf("primary with %v", id)
	}
	if s.events.of("switch-backup") == 0 || s.events.of("switch-away") != 0 {
		t.Errorf("events: %s", s.events)
	}
}

// Two appliances with a ToR: the one that comes second waits, and goes on where the first one ended. Its election id is known to be too low.
func TestTwoAppliances(t *testing.T) {
	tor := newTor(t)
	jobs := []pipeline.Job{newJob(1, 1), newJob(2, 1)}
	start := func(id uint64) *subject {
		s := prepare(t, tor.target(), func(c *fabric.Config) { c.Election.Low = id })
		for _, j := range jobs {
			s.SetJob(j)
		}
		s.begin()
		return s
	}
	first := start(50)
	first.wait(inSync)
	second := start(10)
	second.wait(backup)
	first.stop()
	second.wait(inSync)
	if got := second.traffic.count(); got.pushes != 0 || got.batches != 0 {
		t.Errorf("%+v", got)
	}
	third := start(20)
	third.wait(backup)
	second.stop()
	third.wait(inSync)
	third.stop()
	fourth := start(1) // the predecessor has crashed, and the ToR knows its id
	fourth.wait(inSync)
	tor.has(jobs...)
}

// Two appliances with one election id are a mistake: the second one takes nothing away from the first, says why, and gets its turn when that one goes.
func TestSameElectionID(t *testing.T) {
	tor := newTor(t)
	first := run(t, tor.target(), nil)
	first.wait(inSync)
	second := run(t, tor.target(), nil)
	if text := second.events.wait(t, "switch-away", 1); !strings.Contains(text, "election_id: low:1 is another controller's") {
		t.Error(text)
	}
	if state, reason := first.State(); state != inSync {
		t.Errorf("%s: %s", state, reason)
	}
	first.stop()
	second.wait(inSync)
	tor.has()
}

// A broken connection is no reboot: nothing is pushed, and only what was wanted meanwhile is written.
func TestConnectionCut(t *testing.T) {
	tor := newTor(t)
	cable := newProxy(t, tor.socket)
	s := run(t, cable.target(), nil)
	job := newJob(1, 1)
	s.SetJob(job)
	s.settled(1, 1)
	for n := range 3 {
		cable.pull()
		s.wait(away)
		more := newJob(uint16(2+n), 1)
		s.SetJob(more)
		wantRefusal(t, s.Await(deadline(t), more.ID, 1), refusal.SwitchAway)
		s.traffic.reset()
		cable.plug()
		s.wait(inSync)
		s.settled(more.ID, 1)
		if got := s.traffic.count(); got.pushes != 0 || got.updates != len(entries(t, more))-len(entries(t)) {
			t.Errorf("%+v", got)
		}
	}
	tor.has(job, newJob(2, 1), newJob(3, 1), newJob(4, 1))
	if d, err := s.Describe(deadline(t), false); err != nil || d.GetSessions() < 4 || d.GetPushes() != 1 || d.GetRepairs() != 0 {
		t.Errorf("%v, %v", d, err)
	}
}

// A ToR that falls silent is noticed within two seconds and some.
func TestSilence(t *testing.T) {
	tor := newTor(t)
	cable := newProxy(t, tor.socket)
	s := run(t, cable.target(), nil)
	s.SetJob(newJob(1, 1))
	s.settled(1, 1)
	begin := time.Now()
	cable.hold(true)
	s.wait(away)
	took := time.Since(begin)
	t.Logf("noticed after %v", took)
	if took > 4*time.Second { // with room for a machine that is busy
		t.Errorf("noticed after %v", took)
	}
	if text := s.events.wait(t, "switch-away", 1); !strings.Contains(text, "no answer within") {
		t.Error(text)
	}
	cable.plug()
	s.wait(inSync)
	tor.has(newJob(1, 1))
	if s.events.of("pipeline-pushed") != 1 {
		t.Errorf("events: %s", s.events)
	}
}

// The ToR has not noticed that the last session ended: its primary is this very appliance, which has a higher election id the next time.
func TestOldSessionLingers(t *testing.T) {
	tor := newTor(t)
	cable := newProxy(t, tor.socket)
	s := run(t, cable.target(), nil)
	s.SetJob(newJob(1, 1))
	s.settled(1, 1)
	before := s.election()
	cable.hold(false)
	s.events.wait(t, "switch-back", 1)
	s.wait(inSync)
	if now := s.election(); now.Compare(before) <= 0 {
		t.Errorf("the session after that with %v has %v", before, now)
	}
	s.SetJob(newJob(2, 1))
	s.settled(2, 1)
	tor.has(newJob(1, 1), newJob(2, 1))
	if s.events.of("pipeline-pushed") != 1 || s.events.of("switch-backup") != 0 {
		t.Errorf("events: %s", s.events)
	}
}
