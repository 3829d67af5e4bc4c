package observe

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/fabric"
	"spillway/appliance/refusal"
	"spillway/p4/pipeline"
)

// The levels of the tree, in the order in which a chunk comes to them.
const (
	LevelTor        = "tor"
	LevelAggregator = "aggregator"
)

// Counters returns every counter, of a job or, for no name, of each and of the packets of none; of a cluster these are those at all its appliances.
func (o *Observer) Counters(ctx context.Context, name string) (*v1.ListCountersResponse, error) {
	jobs, err := o.jobs(name)
	if err != nil {
		return nil, err
	}
	counts, err := o.count(ctx, jobs, name == "")
	if err != nil {
		return nil, err
	}
	if name == "" && o.config.Unknown != nil {
		if counts.aggregator[""], err = o.config.Unknown(ctx); err != nil {
			return nil, refusal.New(codes.Internal, refusal.DataPlane, "read the counters of packets of no job: %w", err)
		}
	}
	return &v1.ListCountersResponse{Counters: counts.list()}, nil
}

// own are the counters that tell what comes to this appliance: of the packets of no job, those of this host alone, which do not jump when another comes or goes.
func (o *Observer) own(ctx context.Context, jobs []*v1.Job, none bool) ([]*v1.Counter, error) {
	counts, err := o.count(ctx, jobs, none)
	if err != nil {
		return nil, err
	}
	return counts.list(), nil
}

// counts are the counters of both levels, by job; those of packets of no job are under the empty name.
type counts struct {
	aggregator map[string]map[string]uint64
	tor        map[string]fabric.Counters
	// torError is why the ToR's could not be read.
	torError error
}

// count reads the counters of jobs, with none also those of no job. A ToR that cannot be read is left out: the aggregator's are worth having by themselves.
func (o *Observer) count(ctx context.Context, jobs []*v1.Job, none bool) (*counts, error) {
	c := &counts{map[string]map[string]uint64{}, map[string]fabric.Counters{}, nil}
	for _, job := range jobs {
		c.aggregator[job.GetSpec().GetName()] = nil // nothing was counted, which is a level with zeros
		if job.GetGeneration() == 0 {
			continue // it never was in the data plane
		}
		of, err := o.config.Plane.Counters(uint16(job.GetId()))
		if err != nil {
			if absent(err) {
				continue
			}
			return nil, unreadable(job, "counters", err)
		}
		c.aggregator[job.GetSpec().GetName()] = of
	}
	if none {
		of, err := o.config.Plane.UnknownJobCounters()
		if err != nil {
			return nil, refusal.New(codes.Internal, refusal.DataPlane, "read the counters of packets of no job: %w", err)
		}
		c.aggregator[""] = of
	}
	c.torError = o.countTor(ctx, c, jobs, none)
	return c, nil
}

func (o *Observer) countTor(ctx context.Context, c *counts, jobs []*v1.Job, none bool) error {
	if o.config.Switch == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	read := func(name string, index uint8) error {
		of, err := o.config.Switch.Counters(ctx, index)
		if err != nil {
			return err
		}
		c.tor[name] = of
		return nil
	}
	for _, job := range jobs {
		if job.GetAllocation().GetRegion() == nil {
			continue // the ToR never hears of it
		}
		// A job's id is its index in the ToR's counters as well.
		if err := read(job.GetSpec().GetName(), uint8(job.GetId())); err != nil {
			return err
		}
	}
	if none {
		return read("", 0)
	}
	return nil
}

// list is the counters by level, job and name.
func (c *counts) list() []*v1.Counter {
	var all []*v1.Counter
	for job, of := range c.tor {
		add := func(name string, value uint64, drop bool) {
			all = append(all, &v1.Counter{Level: LevelTor, Job: job, Name: name, Value: value, Drop: drop})
		}
		for name, value := range of.Events {
			add(name, value, TorDrops(name))
		}
		if job != "" {
			add("preempted", of.Preempted, false)
			add("saturated", of.Saturated, false)
		}
	}
	for job, of := range c.aggregator {
		for name, value := range of {
			all = append(all, &v1.Counter{Level: LevelAggregator, Job: job, Name: name, Value: value, Drop: AggregatorDrops(name)})
		}
	}
	slices.SortFunc(all, func(a, b *v1.Counter) int {
		return cmp.Or(cmp.Compare(depth(a.GetLevel()), depth(b.GetLevel())), cmp.Compare(a.GetJob(), b.GetJob()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return all
}

func depth(level string) int {
	if level == LevelTor {
		return 0
	}
	return 1
}

// TorDrops tells whether an event of the ToR is a packet, or its elements, that ended there. A bad slot is none: such a packet goes on to its home.
func TorDrops(event string) bool {
	switch event {
	case pipeline.EventDuplicate.String(), pipeline.EventOverlap.String():
		return true
	case pipeline.EventBadSlot.String():
		return false
	}
	for e := pipeline.EventUnknownJob; e < pipeline.EventsPerJob; e++ {
		if e.Known() && e.String() == event {
			return true
		}
	}
	return false
}

// AggregatorDrops tells whether a counter of the aggregator is a reason why packets were dropped: those of enum counter (xdp/bpf/counters.h) from
// bad_length on.
func AggregatorDrops(counter string) bool {
	switch counter {
	case "bad_length", "bad_version", "bad_type", "bad_flags", "bad_op", "bad_elems", "unknown_job", "bad_generation", "bad_cookie", "not_member",
		"bad_bitmap", "stale", "mismatch", "overlap", "duplicate_result", "unsolicited", "needless", "internal", "contended":
		return true
	}
	return false
}
