package rack

import (
	"context"
	"fmt"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

// Levels of the tree, as the API names them.
const (
	levelTor        = "tor"
	levelAggregator = "aggregator"
)

// TorCounters is what the ToR counted of a job, also before it was rebooted.
type TorCounters struct {
	// Events are by name, nil without a ToR.
	Events map[string]uint64
	// Preempted counts the job's partial sums that were put out of their slot.
	Preempted uint64
}

// Counters are the aggregator's of a job, and the ToR's.
func (r *Rack) Counters(ctx context.Context, job string) (home map[string]uint64, tor TorCounters, err error) {
	if r.forest != nil {
		home, err = r.levelCounters(job, r.forest.nodes)
		return home, tor, err
	}
	if r.tor != nil {
		// A daemon that was just restarted, or whose ToR was, leaves the ToR's out until it is there again.
		ctx, cancel := context.WithTimeoutCause(ctx, daemonPatience, fmt.Errorf("the ToR cannot be read for %v", daemonPatience))
		defer cancel()
		if err := r.operator().awaitSwitch(ctx, time.Time{}); err != nil {
			return nil, tor, fmt.Errorf("read the counters: %w", err)
		}
	}
	all, err := r.listCounters(ctx, job)
	if err != nil {
		return nil, tor, err
	}
	home = map[string]uint64{}
	if r.tor != nil {
		tor.Events = map[string]uint64{}
	}
	for _, c := range all {
		switch {
		case c.GetJob() != job:
		case c.GetLevel() == levelAggregator:
			home[c.GetName()] = c.GetValue()
		case c.GetLevel() == levelTor && c.GetName() == "preempted":
			tor.Preempted = c.GetValue()
		case c.GetLevel() == levelTor:
			tor.Events[c.GetName()] = c.GetValue()
		}
	}
	return home, tor, nil
}

// Unassigned are what the aggregator counted of packets that it could not assign to any job.
func (r *Rack) Unassigned(ctx context.Context) (map[string]uint64, error) {
	if r.forest != nil {
		return r.treeUnassigned()
	}
	all, err := r.listCounters(ctx, "")
	if err != nil {
		return nil, err
	}
	none := map[string]uint64{}
	for _, c := range all {
		if c.GetJob() == "" && c.GetLevel() == levelAggregator {
			none[c.GetName()] = c.GetValue()
		}
	}
	return none, nil
}

func (r *Rack) listCounters(ctx context.Context, job string) ([]*v1.Counter, error) {
	listed, err := r.operator().node.ListCounters(ctx, &v1.ListCountersRequest{Job: job})
	if err != nil {
		return nil, fmt.Errorf("read the counters: %w", said(err))
	}
	return listed.GetCounters(), nil
}

// ListWorkers says what the daemon knows of a job's workers, by rank: how late they are, among others. Nobody knows that of several racks.
func (r *Rack) ListWorkers(ctx context.Context, job string) ([]*v1.Worker, error) {
	if r.forest != nil {
		return nil, nil // there is no daemon
	}
	listed, err := r.operator().node.ListWorkers(ctx, &v1.ListWorkersRequest{Job: job})
	if err != nil {
		return nil, fmt.Errorf("read what the daemon knows of the workers: %w", said(err))
	}
	return listed.GetWorkers(), nil
}

// TorSlotsHeld is how many slots of the ToR hold a sum that is not complete.
func (r *Rack) TorSlotsHeld(ctx context.Context) (int, error) {
	if r.tor == nil {
		return 0, errNoTor
	}
	answer, err := r.operator().node.GetSwitch(ctx, &v1.GetSwitchRequest{Slots: true})
	if err != nil {
		return 0, fmt.Errorf("read the slots of the ToR: %w", said(err))
	}
	return len(answer.GetOccupied()), nil
}
