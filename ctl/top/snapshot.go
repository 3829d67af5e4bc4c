// Package top is the live view of an appliance: what its jobs move, what spills, what waits, and for whom. It is a model that is fed snapshots of the
// API, one an interval, and knows nothing of connections.
package top

import (
	"context"
	"fmt"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

// Snapshot is what the appliance said at one time.
type Snapshot struct {
	Time    time.Time
	Node    *v1.GetNodeResponse
	Jobs    []*v1.Job
	Levels  []*v1.Level
	Workers map[string][]*v1.Worker // by job
	Waiting map[string]Waiting      // by job
}

// Waiting says how many chunks of a job wait at the aggregator, and for how long the oldest has.
type Waiting struct {
	Chunks uint32
	Oldest time.Duration
}

// Source takes a snapshot.
type Source func(ctx context.Context) (*Snapshot, error)

// FromAPI takes snapshots from an appliance.
func FromAPI(jobs v1.JobServiceClient, node v1.NodeServiceClient, now func() time.Time) Source {
	return func(ctx context.Context) (*Snapshot, error) {
		s := &Snapshot{Workers: map[string][]*v1.Worker{}, Waiting: map[string]Waiting{}}
		var err error
		if s.Node, err = node.GetNode(ctx, &v1.GetNodeRequest{}); err != nil {
			return nil, err
		}
		list, err := jobs.ListJobs(ctx, &v1.ListJobsRequest{})
		if err != nil {
			return nil, err
		}
		s.Jobs = list.Jobs
		levels, err := node.ListLevels(ctx, &v1.ListLevelsRequest{})
		if err != nil {
			return nil, err
		}
		// Rates are differences of the levels' counters, so the time is theirs.
		s.Levels, s.Time = levels.Levels, now()
		for _, job := range s.Jobs {
			if err := s.addJob(ctx, node, job.Spec.GetName()); err != nil {
				return nil, err
			}
		}
		return s, nil
	}
}

func (s *Snapshot) addJob(ctx context.Context, node v1.NodeServiceClient, name string) error {
	workers, err := node.ListWorkers(ctx, &v1.ListWorkersRequest{Job: name})
	if gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("workers of %s: %w", name, err)
	}
	slots, err := node.ListSlots(ctx, &v1.ListSlotsRequest{Job: name, Limit: 1})
	if gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("slots of %s: %w", name, err)
	}
	s.Workers[name] = workers.Workers
	if len(slots.Slots) > 0 {
		s.Waiting[name] = Waiting{Chunks: 1 + slots.More, Oldest: slots.Slots[0].Age.AsDuration()}
	}
	return nil
}
