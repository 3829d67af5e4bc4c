package stragglers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/events"
	"spillway/xdp"
)

// Plane is what is read of the data plane; *xdp.Aggregator is one.
type Plane interface {
	Lateness(job uint16) (xdp.JobLateness, error)
	Members(job uint16) ([]xdp.MemberState, error)
}

// Jobs is what is read of the jobs; *jobs.Manager is one.
type Jobs interface{ List() []*v1.Job }

// What a change takes, so that one slow step is no event, and no worker makes more than two a minute.
const (
	every       = time.Second      // between two looks
	slowLooks   = 2                // in a row, until it is a straggler
	fineLooks   = 5                // in a row, until it is none
	eventsApart = 30 * time.Second // of one worker
	stopped     = time.Second      // without a packet, while others ask
)

// Tracker makes an event when a worker begins to hold the others of its job up, and when it ceases to.
type Tracker struct {
	plane  Plane
	jobs   Jobs
	events *events.Log
	log    *slog.Logger
	known  map[string]*generation
}

// generation is what was seen of a job's running one.
type generation struct {
	number uint32
	read   time.Time
	ranks  []rank
}

// rank is what was seen of one worker.
type rank struct {
	lateness *v1.Lateness
	without  uint64
	slow     bool      // as of the looks
	streak   int       // looks in a row that say otherwise
	since    time.Time // it is as it is
	why      string    // in words, of a slow one
	said     bool      // the last event said that it is slow
	saidAt   time.Time
}

// New is a tracker that has seen nothing. log may be nil.
func New(plane Plane, jobs Jobs, to *events.Log, log *slog.Logger) *Tracker {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Tracker{plane: plane, jobs: jobs, events: to, log: log, known: map[string]*generation{}}
}

// Run looks every second until ctx ends.
func (t *Tracker) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			t.look(now)
		}
	}
}

// look reads all running jobs. A job that is homed elsewhere, or went away meanwhile, is not seen.
func (t *Tracker) look(now time.Time) {
	seen := map[string]bool{}
	for _, job := range t.jobs.List() {
		if job.GetId() == 0 || job.GetGeneration() == 0 || job.GetPresent() == 0 {
			continue
		}
		id, name := uint16(job.GetId()), job.GetSpec().GetName()
		late, err := t.plane.Lateness(id)
		var members []xdp.MemberState
		if err == nil {
			members, err = t.plane.Members(id)
		}
		if err != nil {
			if !errors.Is(err, xdp.ErrNoJob) {
				t.log.Warn("how late the workers of a job are cannot be read", "job", name, "error", err)
			}
			continue
		}
		seen[name] = true
		g := t.known[name]
		if g == nil || g.number != job.GetGeneration() || len(g.ranks) != len(late.Ranks) {
			g = &generation{number: job.GetGeneration(), ranks: make([]rank, len(late.Ranks))}
			t.known[name] = g
			g.take(&late, now)
			continue
		}
		t.judge(job, g, g.take(&late, now), members, now)
	}
	for name := range t.known {
		if !seen[name] {
			delete(t.known, name)
		}
	}
}

// change is what happened between two looks.
type change struct {
	over     time.Duration
	lateness []*v1.Lateness
	without  []uint64
}

// take keeps a reading, and returns what is new in it.
func (g *generation) take(late *xdp.JobLateness, now time.Time) change {
	c := change{over: now.Sub(g.read)}
	for i := range late.Ranks {
		r, reading := &g.ranks[i], Of(late, i)
		c.lateness = append(c.lateness, Since(r.lateness, reading))
		c.without = append(c.without, late.Ranks[i].Without-min(r.without, late.Ranks[i].Without))
		r.lateness, r.without = reading, late.Ranks[i].Without
	}
	g.read = now
	return c
}

// Of is a rank's histogram as the API has it.
func Of(late *xdp.JobLateness, rank int) *v1.Lateness {
	of := late.Ranks[rank]
	l := &v1.Lateness{Counts: of.Counts[:], Sum: uint64(of.Sum)}
	for _, bound := range late.Bounds() {
		l.Bounds = append(l.Bounds, uint64(bound))
	}
	return l
}

// judge says who was slow between two looks, and makes events of those who are so for longer.
func (t *Tracker) judge(job *v1.Job, g *generation, c change, members []xdp.MemberState, now time.Time) {
	spec := job.GetSpec()
	held, moved := make([]float64, len(g.ranks)), false
	for i, l := range c.lateness {
		held[i] = Held(l, spec.GetWindow(), c.over)
		moved = moved || Contributions(l) > 0
	}
	slow, silent := Slow(held), silence(members, len(g.ranks), max(stopped, 4*spec.GetMaxRto().AsDuration()))
	for i := range g.ranks {
		r := &g.ranks[i]
		without, now, why := Without(c.lateness[i], c.without[i]), now, ""
		switch {
		case silent[i] > 0:
			why = fmt.Sprintf("nothing has come of it for %v, while others ask", silent[i].Round(100*time.Millisecond))
		case spec.GetQuorum() != nil && without >= SlowShare:
			why = fmt.Sprintf("%.0f%% of the sums are released without it", 100*without)
		case spec.GetQuorum() == nil && slow[i]:
			why = fmt.Sprintf("the others stand still for it %.0f%% of the time", 100*held[i])
		case !moved && !r.slow:
			continue // nobody does anything
		}
		r.count(why, now)
		t.say(job, i, r, now)
	}
}

// silence is for how long nothing has come of a rank, if that is longer than the bound and something came of others half as long ago; else 0.
func silence(members []xdp.MemberState, ranks int, bound time.Duration) []time.Duration {
	silent, asking := make([]time.Duration, ranks), false
	for _, m := range members {
		if bits.OnesCount64(m.Bits) != 1 || m.Packets == 0 {
			continue
		}
		if m.Silent < bound/2 {
			asking = true
		}
		if rank := bits.TrailingZeros64(m.Bits); rank < ranks && m.Silent >= bound {
			silent[rank] = m.Silent
		}
	}
	if !asking {
		return make([]time.Duration, ranks)
	}
	return silent
}

// count takes one look at a worker into account; why is empty when it was not slow.
func (r *rank) count(why string, now time.Time) {
	if why != "" {
		r.why = why
	}
	if (why != "") == r.slow {
		r.streak = 0
		return
	}
	r.streak++
	if r.streak >= slowLooks && !r.slow || r.streak >= fineLooks {
		r.slow, r.streak, r.since = !r.slow, 0, now
	}
}

// say makes an event when there is one to be made.
func (t *Tracker) say(job *v1.Job, number int, r *rank, now time.Time) {
	if r.slow == r.said || !r.saidAt.IsZero() && now.Sub(r.saidAt) < eventsApart {
		return
	}
	name := job.GetSpec().GetName()
	if r.slow {
		t.events.Add(v1.EventLevel_EVENT_LEVEL_WARNING, "straggler", name, []uint32{uint32(number)}, "rank %d of job %s is a straggler: %s", number, name, r.why)
	} else {
		t.events.Add(v1.EventLevel_EVENT_LEVEL_INFO, "straggler-over", name, []uint32{uint32(number)}, "rank %d of job %s keeps up again, %v after it was said that it does not",
			number, name, now.Sub(r.saidAt).Round(time.Second))
	}
	r.said, r.saidAt = r.slow, now
}
