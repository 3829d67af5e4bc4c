// Package doctor says why nothing moves. Diagnose looks at what the daemon knows of itself, its host, its jobs and its ToR, and returns findings, each with
// what to do about it. It is a function of its Sources and of nothing else, so that a set-up that somebody once met is a table of data in a test; who
// collects them is appliance/observe, with LookAtHost for what only the kernel knows.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

// Sources are what a diagnosis is made of.
type Sources struct {
	// When the sources were read. Ages are counted from it.
	Now time.Time
	// Only findings of this job, and those that are of none; empty: all jobs.
	Job string

	Node    *v1.GetNodeResponse
	Jobs    []*v1.Job
	Workers map[string][]*v1.Worker          // by job
	Slots   map[string]*v1.ListSlotsResponse // by job, without complete ones, oldest first
	Switch  *v1.GetSwitchResponse            // nil: the configuration has no ToR
	Host    Host
	Cluster *Cluster // nil: the appliance stands alone

	// Every counter, and what they were some time before (Between): what was dropped long ago is no reason why nothing moves now.
	// Without Before, the counters count as they are.
	Counters, Before []*v1.Counter
	Between          time.Duration

	// What could not be read, one error each: a finding says so, because a check that could not be made is not a check that found nothing.
	Failures []error
}

// Diagnose makes all checks, in a fixed order: the host first, then the ToR, then each job by name. A check that finds nothing wrong says so in one finding
// of level OK.
func Diagnose(ctx context.Context, sources Sources) []*v1.Finding {
	d := &diagnosis{Sources: sources, now: index(sources.Counters), before: index(sources.Before)}
	for _, failure := range d.Failures {
		d.warn("sources", "", fmt.Sprintf("not everything could be looked at: %v", failure),
			"what is missing here may be wrong all the same; look at the daemon's log ('journalctl -u spillwayd')")
	}
	d.findings = append(d.findings, CheckHost(d.Host)...)
	d.clock()
	d.interfaces()
	d.cluster()
	d.tor()
	d.drops("")
	for _, job := range d.jobs() {
		if ctx.Err() != nil {
			break // whoever asked has gone
		}
		d.mtu(job)
		d.region(job)
		d.workers(job)
		d.lateness(job)
		d.chunks(job)
		d.multicast(job)
		d.drops(job.Spec.GetName())
	}
	return d.findings
}

// diagnosis is one in the making.
type diagnosis struct {
	Sources
	now, before map[counterKey]*v1.Counter
	findings    []*v1.Finding
}

type counterKey struct{ level, job, name string }

func index(counters []*v1.Counter) map[counterKey]*v1.Counter {
	if counters == nil {
		return nil
	}
	by := make(map[counterKey]*v1.Counter, len(counters))
	for _, c := range counters {
		by[counterKey{c.Level, c.Job, c.Name}] = c
	}
	return by
}

// value is a counter as it is now.
func (d *diagnosis) value(level, job, name string) uint64 {
	return d.now[counterKey{level, job, name}].GetValue()
}

// grown is by how much a counter grew lately; all of it when there is nothing to compare with, and when it began anew with a generation.
func (d *diagnosis) grown(level, job, name string) uint64 {
	now, before := d.value(level, job, name), d.before[counterKey{level, job, name}].GetValue()
	if before > now {
		return now
	}
	return now - before
}

// jobs are those that are asked about, by name.
func (d *diagnosis) jobs() []*v1.Job {
	var asked []*v1.Job
	for _, job := range d.Jobs {
		if d.Job == "" || d.Job == job.Spec.GetName() {
			asked = append(asked, job)
		}
	}
	slices.SortFunc(asked, func(a, b *v1.Job) int { return cmp.Compare(a.Spec.GetName(), b.Spec.GetName()) })
	return asked
}

func (d *diagnosis) fine(check, job, format string, args ...any) {
	d.add(finding(v1.FindingLevel_FINDING_LEVEL_OK, check, job, fmt.Sprintf(format, args...), ""))
}

func (d *diagnosis) warn(check, job, text, remedy string) {
	d.add(finding(v1.FindingLevel_FINDING_LEVEL_WARNING, check, job, text, remedy))
}

func (d *diagnosis) fail(check, job, text, remedy string) {
	d.add(finding(v1.FindingLevel_FINDING_LEVEL_ERROR, check, job, text, remedy))
}

func (d *diagnosis) add(f *v1.Finding) { d.findings = append(d.findings, f) }

func finding(level v1.FindingLevel, check, job, text, remedy string) *v1.Finding {
	return &v1.Finding{Check: check, Level: level, Text: text, Remedy: remedy, Job: job}
}
