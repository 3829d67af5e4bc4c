package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/appliance/store"
)

// An elastic job is one with min_workers: its generations have from that to workers ranks. Who waits for the next one sits in waiting, as in any job, but its index is a seat
// and no rank: ranks are given out when the generation is formed, to those that were members of the one before first, in their order, and then to those that are new.
// So the ranks of a generation are dense, and rank 0 has the state of the training if anybody has.

const (
	// DefaultSettle is how long a generation of an elastic job waits for more workers, once it has min_workers.
	DefaultSettle = 5 * time.Second
	maxSettle     = time.Hour
)

// elastic reports whether the generations of a job may have fewer ranks than it has workers.
func elastic(spec *v1.JobSpec) bool { return spec.GetMinWorkers() > 0 }

// size is how many ranks the running generation has.
func size(record *store.Job) int { return len(record.Running.Members) }

// completeElastic fills in how an elastic job forms.
func (s site) completeElastic(spec *v1.JobSpec, f *fault) {
	s.completeLostAfter(spec, f)
	if !elastic(spec) {
		if spec.Settle != nil {
			f.add("settle", "only an elastic job settles: leave it out, or say min_workers")
		}
		return
	}
	if spec.MinWorkers > spec.Workers {
		f.add("min_workers", "%d: want 1 to %d, as many as the job has at most", spec.MinWorkers, spec.Workers)
	}
	if k := spec.GetQuorum().GetWorkers(); k > 0 && spec.MinWorkers <= k {
		f.add("min_workers", "%d: a generation of so few could not do without anybody for its quorum of %d: want %d at least", spec.MinWorkers, k, k+1)
	}
	completeDuration(&spec.Settle, DefaultSettle, 0, maxSettle, "settle", f)
}

// latest is the record with the generation that ran last; nil: none did, or not since the daemon was started.
func (j *job) latest() *store.Job {
	if j.record.Running != nil {
		return j.record
	}
	return j.concluded
}

// seat finds the call a place among those that wait for the next generation of an elastic job. The lock is held.
func (m *Manager) seat(j *job, c *call) error {
	if !c.anyRank {
		return refusal.New(codes.FailedPrecondition, refusal.Resized, "job %q is elastic, and gives its ranks out: join for any rank (worker.WithAnyRank, any_rank)", j.name).With("job", j.name)
	}
	c.before = j.memberOf(c)
	if c.before >= 0 {
		c.rank = uint32(c.before)
		return nil
	}
	for rank := range j.members {
		if member := &j.members[rank]; member.present() && member.call.address == c.address {
			return rankTaken(j, &call{rank: uint32(rank)}, "takes part already", member.call)
		}
	}
	for _, other := range j.waiting {
		if other != nil && other.address == c.address {
			return rankTaken(j, other, "waits already", other)
		}
	}
	free, ok := j.freeSeat(c.asked)
	if !ok {
		return refusal.New(codes.AlreadyExists, refusal.RankTaken, "job %q has its %d workers, all that it may have: wait for one to leave, or create the job for more", j.name, len(j.waiting)).
			With("job", j.name).With("workers", len(j.waiting))
	}
	c.rank = free
	return nil
}

// memberOf is the rank that the call has, by its cookie and address, in the generation that ran last; -1: none.
func (j *job) memberOf(c *call) int {
	latest := j.latest()
	if c.part == nil || latest == nil || !slices.Contains(latest.Parts(), store.Part{Generation: c.part.GetGeneration(), Cookie: c.part.GetCookie()}) ||
		int(c.asked) >= size(latest) || latest.Running.Members[c.asked].Addr != c.address {
		return -1
	}
	return int(c.asked)
}

// freeSeat is a seat that nobody waits in and no member is in: the one asked for if that is so, or else the first; one of a lost member if need be.
func (j *job) freeSeat(asked uint32) (uint32, bool) {
	free := func(allowed func(m *member) bool) []uint32 {
		return j.ranks(func(seat uint32) bool { m := j.member(seat); return j.waiting[seat] == nil && (m == nil || allowed(m)) })
	}
	for _, allowed := range []func(*member) bool{func(m *member) bool { return m.left || m.dead }, (*member).lost} {
		if seats := free(allowed); slices.Contains(seats, asked) {
			return asked, true
		} else if len(seats) > 0 {
			return seats[0], true
		}
	}
	return 0, false
}

// sit has a call that has a seat wait there. A member's part in the running generation ends with that. The lock is held.
func (m *Manager) sit(j *job, c *call) {
	now := m.config.Now()
	other := j.waiting[c.rank]
	j.waiting[c.rank] = c
	if other != nil {
		m.makeRoom(j, other, c)
	}
	j.gathered, j.settling = now, false
	if c.before >= 0 && j.members != nil {
		member := &j.members[c.before]
		if member.call != nil {
			member.call.end(nil)
		}
		if !member.moved {
			m.event(levelInfo, "worker-rejoins", j, []uint32{uint32(c.before)}, "rank %d of job %s has asked for the generation after %d", c.before, j.name, j.record.Generation)
		}
		*member = member.gone(now)
	} else {
		for rank := range j.members {
			if member := &j.members[rank]; member.lost() && !member.dead && j.record.Running.Members[rank].Addr == c.address {
				m.die(j, uint32(rank), fmt.Sprintf("another process joins from its address (%s)", c.description))
			}
		}
		if len(j.present()) > 0 {
			m.event(levelInfo, "worker-waits", j, nil, "a worker at %s (%s) waits for the next generation of job %s: it begins when all members of generation %d have joined again or left",
				c.address, c.description, j.name, j.record.Generation)
		}
	}
	m.tellResize(j)
}

// gone is the member that has asked for the next generation.
func (m member) gone(now time.Time) member {
	if !m.moved {
		m.since = now
	}
	m.call, m.left, m.moved = nil, true, true
	return m
}

// makeRoom has one who waits sit elsewhere, for one whose seat it is. The lock is held.
func (m *Manager) makeRoom(j *job, other, c *call) {
	if other.before >= 0 && other.before == c.before {
		other.end(rankTaken(j, other, "has called again", c))
		return
	}
	if free, ok := j.freeSeat(other.rank); ok {
		other.rank = free
		j.waiting[free] = other
		return
	}
	other.end(refusal.New(codes.Aborted, refusal.Resized, "job %q has its %d workers again: one that was lost has come back; wait for another to leave", j.name, len(j.waiting)).With("job", j.name))
}

// tellResize has those that take part hear that others wait. The lock is held.
func (m *Manager) tellResize(j *job) {
	for rank := range j.members {
		if c := j.members[rank].call; c != nil {
			c.resize = j.resize()
			c.poke()
		}
	}
}

// resize is the notice about those that wait for the next generation of an elastic job, with the ranks of members among them; nil: nobody waits.
func (j *job) resize() *v1.Notice {
	n := &v1.Notice{Kind: v1.NoticeKind_NOTICE_KIND_RESIZE}
	news := 0
	for _, c := range j.lineup() {
		if c.before >= 0 {
			n.Ranks = append(n.Ranks, uint32(c.before))
		} else {
			news++
		}
	}
	switch {
	case len(n.Ranks) > 0 && news > 0:
		n.Text = fmt.Sprintf("%s for the next generation, and so %s", these(n.Ranks, "has asked", "have asked"), counted(news, "does a new worker", "do %d new workers"))
	case len(n.Ranks) > 0:
		n.Text = these(n.Ranks, "has asked for the next generation", "have asked for the next generation")
	case news > 0:
		n.Text = counted(news, "a new worker waits", "%d new workers wait") + " for the next generation"
	default:
		return nil
	}
	return n
}

func counted(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(several, n)
}

// lineup are the calls that wait, by the rank that they would get now: in a job that is not elastic nil where nobody waits.
func (j *job) lineup() []*call {
	if !elastic(j.record.Spec) {
		return slices.Clone(j.waiting)
	}
	var calls []*call
	for _, c := range j.waiting {
		if c != nil {
			calls = append(calls, c)
		}
	}
	slices.SortStableFunc(calls, func(a, b *call) int { // by seat within each kind
		if new := cmp.Compare(boolean(a.before < 0), boolean(b.before < 0)); new != 0 || a.before < 0 {
			return new
		}
		return cmp.Compare(a.before, b.before)
	})
	return calls
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// holdouts are the members of the running generation that an elastic job's next one waits for: they take part, or are lost and not yet dead.
func (j *job) holdouts() []uint32 {
	return j.ranks(func(rank uint32) bool { m := j.member(rank); return m != nil && (m.present() || m.lost()) })
}

// gatheredAll reports whether an elastic job has who makes a generation: all it may have, or enough once it has settled, and no holdouts.
func (j *job) gatheredAll() bool {
	waiting := len(j.lineup())
	return len(j.holdouts()) == 0 && (waiting == len(j.waiting) || j.settling && waiting >= int(j.record.Spec.MinWorkers))
}

// settled forms a generation of an elastic job that has waited long enough for more workers. The lock is held.
func (m *Manager) settled(j *job) {
	if !elastic(j.record.Spec) || j.forming || j.settling || len(j.lineup()) < int(j.record.Spec.MinWorkers) || len(j.holdouts()) > 0 ||
		m.config.Now().Sub(j.gathered) < j.record.Spec.Settle.AsDuration() {
		return
	}
	j.settling = true
	m.form(j)
}

// assembling says what those wait for that wait for a generation of an elastic job.
func (j *job) assembling() string {
	waiting, spec := len(j.lineup()), j.record.Spec
	if waiting == 0 {
		return ""
	}
	text := fmt.Sprintf("%s for generation %d", counted(waiting, "1 worker waits", "%d workers wait"), j.record.Generation+1)
	switch holdouts := j.holdouts(); {
	case len(holdouts) > 0:
		return text + fmt.Sprintf(": %s in generation %d and must rejoin, leave, or be dead first", these(holdouts, "has a part", "have parts"), j.record.Generation)
	case waiting < int(spec.MinWorkers):
		return text + fmt.Sprintf(", and it needs %d at least", spec.MinWorkers)
	}
	return text + fmt.Sprintf(", which begins when %s has passed without another, or %d are there", spec.Settle.AsDuration(), spec.Workers)
}
