package top

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/appliance/stragglers"
)

// gone reports whether a job was deleted since it was listed.
func gone(err error) bool {
	refused := refusal.Of(err)
	return refused != nil && refused.Code == codes.NotFound
}

// rates are what a job did between two snapshots, a second.
type rates struct {
	known     bool    // there were two
	chunks    float64 // results that were published
	dropped   float64
	spill     float64 // part of the contributions that the aggregator summed, of a job that has slots in the ToR
	spillable bool    // it has, and contributions were summed
}

// ratesOf compares a job's levels in two snapshots. A counter that has become smaller began anew with a generation.
func ratesOf(job string, before, now *Snapshot) rates {
	if before == nil || now == nil || !now.Time.After(before.Time) {
		return rates{}
	}
	seconds := now.Time.Sub(before.Time).Seconds()
	r := rates{known: true}
	var tor, aggregator float64
	for _, level := range now.Levels {
		if level.Job != job {
			continue
		}
		was := levelOf(before, job, level.Level)
		r.chunks += grown(was.GetPublished(), level.Published) / seconds
		r.dropped += grown(was.GetDropped(), level.Dropped) / seconds
		summed := grown(was.GetContributions(), level.Contributions)
		if level.Level == "tor" {
			tor, r.spillable = summed, true
		} else {
			aggregator = summed
		}
	}
	if r.spillable = r.spillable && tor+aggregator > 0; r.spillable {
		r.spill = aggregator / (tor + aggregator)
	}
	return r
}

func levelOf(s *Snapshot, job, name string) *v1.Level {
	for _, level := range s.Levels {
		if level.Job == job && level.Level == name {
			return level
		}
	}
	return nil
}

func grown(before, now uint64) float64 {
	if now < before {
		return float64(now)
	}
	return float64(now - before)
}

// lateAfter is how long chunks wait for a worker before it is called late: shorter waits are those of every collective.
const lateAfter = 100 * time.Millisecond

func isLate(w *v1.Worker) bool { return w.WaitedFor > 0 && w.Late.AsDuration() >= lateAfter }

// lag is how a worker held the others up between two snapshots.
type lag struct {
	rank     uint32
	address  string
	lateness *v1.Lateness
	held     float64 // part of the time that they stood still for it
	without  uint64  // sums that were released without it
}

// lags are those of a job's workers that held the others up for a hundredth of the time, or whom sums were released without; the worst first.
func lags(job *v1.Job, before, now *Snapshot) []lag {
	if before == nil || now == nil || !now.Time.After(before.Time) {
		return nil
	}
	name, was := job.Spec.GetName(), map[uint32]*v1.Worker{}
	for _, w := range before.Workers[name] {
		was[w.Rank] = w
	}
	var all []lag
	for _, w := range now.Workers[name] {
		l := lag{rank: w.Rank, address: w.Address, lateness: stragglers.Since(was[w.Rank].GetLateness(), w.Lateness)}
		l.without = uint64(grown(was[w.Rank].GetReleasedWithout(), w.ReleasedWithout))
		l.held = stragglers.Held(l.lateness, job.Spec.GetWindow(), now.Time.Sub(before.Time))
		if l.held >= 0.01 || l.without > 0 {
			all = append(all, l)
		}
	}
	slices.SortStableFunc(all, func(a, b lag) int { return cmp.Or(cmp.Compare(b.without, a.without), cmp.Compare(b.held, a.held)) })
	return all
}
