package observe

import (
	"context"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/fabric"
	"spillway/p4/pipeline"
)

// Levels says what each level of the tree did for a job, or for each.
func (o *Observer) Levels(ctx context.Context, name string) (*v1.ListLevelsResponse, error) {
	jobs, err := o.jobs(name)
	if err != nil {
		return nil, err
	}
	counts, err := o.count(ctx, jobs, false)
	if err != nil {
		return nil, err
	}
	return &v1.ListLevelsResponse{Levels: counts.levels(jobs)}, nil
}

// levels are what the counters say of each level, by job in the order given.
func (c *counts) levels(jobs []*v1.Job) []*v1.Level {
	var all []*v1.Level
	for _, job := range jobs {
		name := job.GetSpec().GetName()
		var levels []*v1.Level
		if of, ok := c.tor[name]; ok {
			levels = append(levels, torLevel(name, of))
		}
		if of, ok := c.aggregator[name]; ok {
			levels = append(levels, aggregatorLevel(name, of))
		}
		var sum uint64
		for _, l := range levels {
			sum += l.GetContributions()
		}
		for _, l := range levels {
			if sum > 0 {
				l.Share = float64(l.GetContributions()) / float64(sum)
			}
		}
		all = append(all, levels...)
	}
	return all
}

// torLevel: a contribution is summed in the ToR when it claims a slot, by preemption too, joins one, or completes one.
func torLevel(job string, of fabric.Counters) *v1.Level {
	event := func(events ...pipeline.Event) (sum uint64) {
		for _, e := range events {
			sum += of.Events[e.String()]
		}
		return sum
	}
	l := &v1.Level{
		Job: job, Level: LevelTor,
		Contributions: event(pipeline.EventClaimed, pipeline.EventMerged, pipeline.EventCompleted, pipeline.EventPreempts),
		Published:     event(pipeline.EventCompleted),
		Spilled:       event(pipeline.EventSpilled, pipeline.EventPassed, pipeline.EventMismatch, pipeline.EventBadSlot),
		Preempted:     of.Preempted,
		ResendEvicted: event(pipeline.EventResendEvicted),
	}
	for name, n := range of.Events {
		if TorDrops(name) {
			l.Dropped += n
		}
	}
	return l
}

// aggregatorLevel: a packet counts once here, one worker's or a partial sum of the ToR, when it claims a slot, is added to one, or takes its place.
func aggregatorLevel(job string, of map[string]uint64) *v1.Level {
	l := &v1.Level{
		Job: job, Level: LevelAggregator,
		Contributions: of["claimed"] + of["merged"] + of["replaced"],
		Published:     of["published"],
	}
	for name, n := range of {
		if AggregatorDrops(name) {
			l.Dropped += n
		}
	}
	return l
}
