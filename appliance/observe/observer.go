package observe

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/doctor"
	"spillway/appliance/fabric"
	"spillway/appliance/refusal"
	"spillway/xdp"
)

// Patience is how long the ToR may take to answer; after that an answer goes without it.
const Patience = 2 * time.Second

// Plane is what is read of the data plane; *xdp.Aggregator is one.
type Plane interface {
	Adopted() bool
	Tag() string
	Attachments() []xdp.Attachment
	Slots(job uint16) ([]xdp.SlotState, error)
	Members(job uint16) ([]xdp.MemberState, error)
	Lateness(job uint16) (xdp.JobLateness, error)
	Counters(job uint16) (map[string]uint64, error)
	UnknownJobCounters() (map[string]uint64, error)
}

// Jobs is what is read of the jobs; *jobs.Manager is one.
type Jobs interface {
	List() []*v1.Job
	Get(name string) (*v1.Job, error)
	Workers(name string) ([]*v1.Worker, error)
	Capacity() *v1.Capacity
}

// Switch is what is read of the ToR; *fabric.Fabric is one.
type Switch interface {
	State() (v1.SwitchState, string)
	Describe(ctx context.Context, slots bool) (*v1.GetSwitchResponse, error)
	Counters(ctx context.Context, index uint8) (fabric.Counters, error)
}

// Interface is one that the aggregator should sit on.
type Interface struct {
	Name, Address string
}

// Config is where an Observer looks.
type Config struct {
	Name, Version string
	Started       time.Time
	Plane         Plane
	Jobs          Jobs
	Switch        Switch // nil: there is no ToR
	Interfaces    []Interface
	// Unknown reads the counters of packets of no job at all appliances that this one leads; nil: it leads none.
	Unknown func(context.Context) (map[string]uint64, error)
	// Pin is the directory of the data plane's pins.
	Pin string
	// Warnings are what the daemon itself finds wrong right now; nil: nothing.
	Warnings func() []string
	// Cluster is how the appliance stands with others; nil: it stands alone.
	Cluster func() *doctor.Cluster
	Log     *slog.Logger
}

// Observer answers what the API, the metrics and the doctor ask.
type Observer struct{ config Config }

// New is an observer.
func New(config Config) *Observer {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Observer{config}
}

// jobs are the job of a name, or all of them for none.
func (o *Observer) jobs(name string) ([]*v1.Job, error) {
	if name == "" {
		return o.config.Jobs.List(), nil
	}
	job, err := o.config.Jobs.Get(name)
	if err != nil {
		return nil, err
	}
	return []*v1.Job{job}, nil
}

// job is the job of a name, which must be given.
func (o *Observer) job(name string) (*v1.Job, error) {
	if name == "" {
		return nil, refusal.New(codes.InvalidArgument, refusal.BadRequest, "no job is named: say which")
	}
	return o.config.Jobs.Get(name)
}

// absent tells whether the data plane has no such job, as it has not while the job waits for its workers: then there is nothing to read.
func absent(err error) bool { return errors.Is(err, xdp.ErrNoJob) }

func unreadable(job *v1.Job, what string, err error) error {
	return refusal.New(codes.Internal, refusal.DataPlane, "job %s: read its %s from the data plane: %w", job.GetSpec().GetName(), what, err)
}
