package observe

import (
	"context"
	"fmt"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/doctor"
)

// between is how far apart the two readings of the counters are that a diagnosis compares: what is dropped now shows, what was dropped long ago does not.
const between = 500 * time.Millisecond

// Diagnose looks for reasons why nothing moves, of a job or of all. It takes half a second, in which it watches the counters.
func (o *Observer) Diagnose(ctx context.Context, name string) (*v1.DiagnoseResponse, error) {
	jobs, err := o.jobs(name)
	if err != nil {
		return nil, err
	}
	before, err := o.own(ctx, jobs, name == "")
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	wait := time.NewTimer(between)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	sources := doctor.Sources{
		Now: time.Now(), Job: name, Jobs: jobs, Before: before, Between: time.Since(begun),
		Workers: map[string][]*v1.Worker{}, Slots: map[string]*v1.ListSlotsResponse{},
	}
	failed := func(err error) {
		if err != nil {
			sources.Failures = append(sources.Failures, err)
		}
	}
	sources.Counters, err = o.own(ctx, jobs, name == "")
	failed(err)
	if sources.Node, err = o.Node(ctx); err != nil {
		failed(fmt.Errorf("the appliance: %w", err))
	}
	for _, job := range jobs {
		of := job.GetSpec().GetName()
		workers, err := o.Workers(ctx, of)
		failed(err)
		sources.Workers[of] = workers.GetWorkers()
		sources.Slots[of], err = o.Slots(ctx, &v1.ListSlotsRequest{Job: of})
		failed(err)
	}
	if o.config.Switch != nil {
		sources.Switch, err = o.Switch(ctx, false)
		failed(err)
	}
	if o.config.Cluster != nil {
		sources.Cluster = o.config.Cluster()
	}
	var names []string
	for _, i := range o.config.Interfaces {
		names = append(names, i.Name)
	}
	sources.Host, err = doctor.LookAtHost(ctx, names, o.config.Pin)
	failed(err)
	return &v1.DiagnoseResponse{Findings: doctor.Diagnose(ctx, sources)}, nil
}
