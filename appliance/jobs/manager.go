// Package jobs admits jobs and leads them through their lives.
package jobs

import (
	"context"
	"errors"

	v1 "spillway/appliance/api/spillway/v1"
)

var errUnfinished = errors.New("jobs: not there yet")

// Manager has all jobs of an appliance.
type Manager struct{ config Config }

// New restores the jobs of the process before, in the aggregator and in the ToR too.
func New(config Config) (*Manager, error) { return &Manager{config: config}, nil }

// Run deletes the jobs that were without a worker for their grace, until ctx ends, which is no error.
func (m *Manager) Run(ctx context.Context) error { return errUnfinished }

// Close ends all calls: the workers may resume when the next process is there. Jobs stay in the store and in the data plane.
func (m *Manager) Close() error { return nil }

// Create admits a job, or only says whether it would.
func (m *Manager) Create(ctx context.Context, spec *v1.JobSpec, dryRun bool) (*v1.Job, error) {
	return nil, errUnfinished
}

// Delete takes a job away at once.
func (m *Manager) Delete(ctx context.Context, name string, force bool) (*v1.Job, error) {
	return nil, errUnfinished
}

// Drain lets no worker join any more, and deletes the job when the last has left.
func (m *Manager) Drain(ctx context.Context, name string) (*v1.Job, error) {
	return nil, errUnfinished
}

// Get returns a job.
func (m *Manager) Get(name string) (*v1.Job, error) { return nil, errUnfinished }

// List returns all jobs, by name.
func (m *Manager) List() []*v1.Job { return nil }

// Watch sends jobs as they are, and then those that change, until ctx ends, which is no error.
func (m *Manager) Watch(ctx context.Context, name string, send func(*v1.WatchJobsResponse) error) error {
	return errUnfinished
}

// Join takes part in a job as one rank. It lasts as long as the worker does. The address is set, and the caller may send from it.
func (m *Manager) Join(ctx context.Context, request *v1.JoinRequest, send func(*v1.JoinResponse) error) error {
	return errUnfinished
}

// Leave ends a rank's part in a generation in good order.
func (m *Manager) Leave(ctx context.Context, request *v1.LeaveRequest) error { return errUnfinished }

// Workers says what is known of a job's workers, by rank, without what the data plane knows.
func (m *Manager) Workers(name string) ([]*v1.Worker, error) { return nil, errUnfinished }

// Capacity is what can be given to jobs, and what is.
func (m *Manager) Capacity() *v1.Capacity { return &v1.Capacity{} }

// SwitchChanged tells the workers of jobs that go through the ToR how it stands now, and why in words when it is not in sync.
func (m *Manager) SwitchChanged(state v1.SwitchState, reason string) {}

// Info is what ties the numbers of the data plane to a job.
type Info struct {
	Job *v1.Job
	// ID is the number that packets carry, and also the job's index in the counters of the ToR.
	ID uint16
	// Generation is as packets carry it. Installed says that it is in the data plane.
	Generation uint8
	Installed  bool
}

// Job returns the job with an id.
func (m *Manager) Job(id uint16) (Info, bool) { return Info{}, false }

// All returns all jobs, by name.
func (m *Manager) All() []Info { return nil }
