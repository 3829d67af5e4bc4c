package observe

import (
	"context"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/doctor"
)

// Snapshot is all of the appliance at about one moment, for metrics.
type Snapshot struct {
	Node *v1.GetNodeResponse
	Jobs []*v1.Job
	// Workers and Oldest, the age of the oldest chunk that waits, are by job.
	Workers  map[string][]*v1.Worker
	Oldest   map[string]time.Duration
	Levels   []*v1.Level
	Counters []*v1.Counter
	Switch   *v1.GetSwitchResponse // nil: there is no ToR, or it cannot be read
	Cluster  *doctor.Cluster       // nil: the appliance stands alone
	// Failures are what could not be read. The rest is there.
	Failures []error
}

// Snapshot reads everything once. Counters and slots are read one job after the other, while packets come.
func (o *Observer) Snapshot(ctx context.Context) *Snapshot {
	s := &Snapshot{Jobs: o.config.Jobs.List(), Workers: map[string][]*v1.Worker{}, Oldest: map[string]time.Duration{}}
	failed := func(err error) bool {
		if err != nil {
			s.Failures = append(s.Failures, err)
		}
		return err != nil
	}
	var err error
	s.Node, err = o.Node(ctx)
	failed(err)
	for _, job := range s.Jobs {
		name := job.GetSpec().GetName()
		states, err := o.slots(job)
		if failed(err) {
			continue
		}
		s.Oldest[name] = oldest(states)
		s.Workers[name], err = o.workers(job, states)
		failed(err)
	}
	if counts, err := o.count(ctx, s.Jobs, true); !failed(err) {
		failed(counts.torError)
		s.Counters, s.Levels = counts.list(), counts.levels(s.Jobs)
	}
	if o.config.Cluster != nil {
		s.Cluster = o.config.Cluster()
	}
	if o.config.Switch != nil {
		s.Switch, err = o.Switch(ctx, false)
		failed(err)
	}
	return s
}
