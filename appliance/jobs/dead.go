package jobs

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
)

const (
	// DefaultLostAfter is for elastic jobs: five times the longest pause between two attempts of a worker to call again, and a third of DefaultSilence.
	DefaultLostAfter = 10 * time.Second
	// minLostAfter leaves time for a worker whose call broke to make it again: the first attempt comes within 50 ms.
	minLostAfter = 200 * time.Millisecond
	maxLostAfter = 24 * time.Hour
	// elapseInterval is how often Run looks whose time is over: what death and settling are late by at most.
	elapseInterval = 50 * time.Millisecond
)

// lostAfter is how long after its call broke a worker of the job counts as dead; 0: it never does.
func (j *job) lostAfter() time.Duration { return j.record.Spec.GetLostAfter().AsDuration() }

// mayResume is how long a lost worker may resume.
func (j *job) mayResume() time.Duration {
	if after := j.lostAfter(); after > 0 && j.record.Spec.Quorum == nil {
		return min(after, j.grace())
	}
	return j.grace()
}

// elapse does what only time brings about: workers that were lost for long enough are dead, and elastic jobs that have settled form a generation.
func (m *Manager) elapse() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	for _, j := range m.jobs {
		if j.hidden || j.gone {
			continue
		}
		m.bury(j)
		m.settled(j)
	}
}

// bury declares those dead that were lost for the job's lost_after, and in an elastic job reports those that went in good order while others still need them.
// The lock is held.
func (m *Manager) bury(j *job) {
	after := j.lostAfter()
	if after == 0 || j.members == nil {
		return
	}
	now, news := m.config.Now(), false
	for rank := range j.members {
		member := &j.members[rank]
		if member.call != nil || member.dead {
			continue
		}
		deadline := member.since.Add(after)
		if restored := m.started.Add(max(after, resumeWithin)); !member.left && !member.told && deadline.Before(restored) {
			deadline = restored // it had no daemon to call
		}
		if now.Before(deadline) {
			continue
		}
		switch {
		case !member.left:
			member.dead, news = true, true
			m.event(levelError, "worker-dead", j, []uint32{uint32(rank)}, "%s of job %s is dead: its call broke %s ago and was not made again within %s",
				j.who(uint32(rank)), j.name, now.Sub(member.since).Round(time.Millisecond), after)
		case elastic(j.record.Spec):
			member.dead, news = true, true // it is gone, and says so
		}
	}
	if news {
		m.reportDead(j)
	}
}

// die declares a lost member dead before its time. The lock is held.
func (m *Manager) die(j *job, rank uint32, why string) {
	j.members[rank].dead = true
	m.event(levelError, "worker-dead", j, []uint32{rank}, "%s of job %s is dead: %s", j.who(rank), j.name, why)
	m.reportDead(j)
}

// reportDead tells all that take part who is dead. The lock is held.
func (m *Manager) reportDead(j *job) {
	for rank := range j.members {
		if c := j.members[rank].call; c != nil {
			c.deaths = j.deaths(m.config.Now())
			c.poke()
		}
	}
	m.idle(j)
	m.changed(j)
	m.form(j)
}

// dead are the members that were declared dead, or are gone for good.
func (j *job) dead() []uint32 {
	return j.ranks(func(rank uint32) bool { m := j.member(rank); return m != nil && m.dead })
}

// deaths is the notice about all that are dead; nil: nobody is.
func (j *job) deaths(now time.Time) *v1.Notice {
	dead := j.dead()
	if len(dead) == 0 {
		return nil
	}
	n := &v1.Notice{Kind: v1.NoticeKind_NOTICE_KIND_DEAD, Ranks: dead}
	var longest time.Duration
	for _, rank := range dead {
		member, text := &j.members[rank], ""
		ago := now.Sub(member.since)
		longest = max(longest, ago)
		switch {
		case member.moved:
			text = "%s has asked for the next generation %s ago"
		case member.left:
			text = "%s has left %s ago"
		default:
			text = "%s is dead: its connection broke %s ago"
		}
		if n.Text != "" {
			n.Text += "; "
		}
		n.Text += fmt.Sprintf(text, j.who(rank), ago.Round(100*time.Millisecond))
		n.Descriptions = append(n.Descriptions, j.described(rank))
	}
	n.Ago = durationpb.New(longest)
	return n
}

// described is what a member is, without its rank.
func (j *job) described(rank uint32) string {
	text := j.record.Running.Members[rank].Addr.String()
	if said := j.members[rank].description; said != "" {
		text += ", " + said
	}
	return text
}

// goesOn reports whether those that are not dead are enough for the job's quorum, so that a dead worker may still come back.
func (j *job) goesOn() bool {
	quorum := j.record.Spec.GetQuorum().GetWorkers()
	return quorum > 0 && len(j.members)-len(j.dead()) >= int(quorum)
}

// completeLostAfter chooses when workers count as dead.
func (s site) completeLostAfter(spec *v1.JobSpec, f *fault) {
	if spec.LostAfter == nil {
		chosen := s.defaults.LostAfter
		if chosen == 0 && elastic(spec) {
			chosen = DefaultLostAfter
		}
		if chosen != 0 {
			spec.LostAfter = durationpb.New(chosen)
		}
		return
	}
	if spec.LostAfter.CheckValid() == nil && spec.LostAfter.AsDuration() == 0 {
		if elastic(spec) {
			f.add("lost_after", "0 means never, and an elastic job does not go on without a worker before it counts as dead: leave it out for %v, or ask for %v at least",
				DefaultLostAfter, minLostAfter)
		}
		return
	}
	completeDuration(&spec.LostAfter, DefaultLostAfter, minLostAfter, maxLostAfter, "lost_after", f)
}
