// Package doctor says why nothing moves. Diagnose looks at what the daemon knows of itself, its host, its jobs and its ToR, and returns findings, each with
// what to do about it. It is a function of its Sources and of nothing else, so that a set-up that somebody once met is a table of data in a test; who
// collects them is appliance/observe, with LookAtHost for what only the kernel knows.
package doctor

import (
	"context"
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
	Slots   map[string]*v1.ListSlotsResponse // by job, without complete ones
	Switch  *v1.GetSwitchResponse            // nil: the configuration has no ToR, or SwitchError says why it is not known
	Host    Host

	// Every counter, and what they were some time before (Between): what was dropped long ago is no reason why nothing moves now.
	// Without Before, the counters count as they are.
	Counters, Before []*v1.Counter
	Between          time.Duration

	// What could not be read, one error each: a finding says so, because a check that could not be made is not a check that found nothing.
	Failures []error
}

// Diagnose makes all checks, in a fixed order: the host first, then the ToR, then each job by name. A check that finds nothing wrong says so in one finding of level OK.
func Diagnose(ctx context.Context, sources Sources) []*v1.Finding {
	return nil
}
