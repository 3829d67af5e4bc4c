package doctor

import (
	"fmt"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/stragglers"
)

// enoughContributions are so many that a few late ones at the start of a job say nothing.
const enoughContributions = 1000

// lateness says who holds the others up though it does take part: by how late its contributions came since the generation began.
func (d *diagnosis) lateness(job *v1.Job) {
	const check = "lateness"
	name, spec := job.Spec.GetName(), job.Spec
	workers := d.Workers[name]
	var over time.Duration
	if job.Since != nil && job.State == v1.JobState_JOB_STATE_RUNNING {
		over = d.Now.Sub(job.Since.AsTime())
	}
	held, measured := make([]float64, len(workers)), false
	for i, w := range workers {
		held[i] = stragglers.Held(w.Lateness, spec.GetWindow(), over)
		measured = measured || stragglers.Contributions(w.Lateness) >= enoughContributions
	}
	if !measured {
		return // nothing to judge by: a job that just began, or whose sums are the ToR's
	}
	slow, found := stragglers.Slow(held), false
	for i, w := range workers {
		without := stragglers.Without(w.Lateness, w.ReleasedWithout)
		who := fmt.Sprintf("rank %d", w.Rank)
		if w.Address != "" {
			who += " (" + w.Address + ")"
		}
		half, _ := stragglers.Quantile(w.Lateness, 0.5)
		most, _ := stragglers.Quantile(w.Lateness, 0.99)
		came := fmt.Sprintf("half of its contributions came within %s of the first, 99%% within %s", span(half), span(most))
		const look = "see what its process and host do that the others' do not: it computes longer, has fewer cores or another job's, reads its data slowly, or its link is slower " +
			"or loses packets ('spillctl workers', 'spillctl counters')"
		switch {
		case spec.GetQuorum() != nil && without >= stragglers.SlowShare:
			found = true
			d.warn(check, name, fmt.Sprintf("%s is late: %d sums (%.0f%%) were released without it; %s", who, w.ReleasedWithout, 100*without, came), look+"; if it is only a "+
				"little late, a longer --after of the job lets it in")
		case spec.GetQuorum() == nil && slow[i]:
			found = true
			d.warn(check, name, fmt.Sprintf("%s holds the others up: they stood still for it %.0f%% of the time since the generation began; %s", who, 100*held[i], came), look+
				"; or let the job go on without stragglers ('spillctl job create --quorum')")
		}
	}
	if !found {
		d.fine(check, name, "no rank holds the others up by coming late")
	}
}
