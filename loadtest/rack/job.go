package rack

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/certs"
	"spillway/appliance/refusal"
	"spillway/worker"
)

// workerPorts is where the UDP ports begin that workers send from and receive on, one for each job. They must lie
// outside the block of the homes' ports, by which a ToR tells Spillway's packets.
const workerPorts = 9800

// A Job says what rack and workers must know of a job.
type Job struct {
	// Name is what the API calls it: small letters, digits and '-'.
	Name string
	// Elements is E; 0 is the rack's.
	Elements int
	// Window is W, in chunks.
	Window int
	// WireBits is 16 or 32, of an element of a sum of floats; 0 leaves it to the appliance.
	WireBits int
	// Hosts are the rack's workers that it runs on, by rank of the job; nil is all of them.
	Hosts []int
	// Priority is 1 (least urgent) to 127; 0 is DefaultPriority. It decides in the ToR only.
	Priority int
	// Unicast publishes a copy to each worker instead of one packet to the job's
	// multicast group.
	Unicast bool
	// MinRTO, MaxRTO and Silence are the worker's timers; 0 leaves them to the appliance.
	MinRTO, MaxRTO, Silence time.Duration
	// Quorum releases sums of so many workers without the others, After the first contribution; 0 waits for all. After and MaxLag, in chunks, are the
	// appliance's choice where they are 0.
	Quorum int
	After  time.Duration
	MaxLag int
	// MinWorkers makes the job elastic, and Settle and LostAfter say how it forms and when workers are dead; 0 leaves these to the appliance.
	MinWorkers        int
	Settle, LostAfter time.Duration
}

// Limits of a rack's jobs.
const (
	MaxJobs         = 255
	MaxPriority     = 127
	DefaultPriority = 64
)

// AddJob has the daemon admit a job.
func (r *Rack) AddJob(ctx context.Context, job Job) error {
	if r.forest != nil {
		return r.addTreeJob(job)
	}
	spec, err := r.spec(job)
	if err != nil {
		return err
	}
	if _, err := r.operator().jobs.CreateJob(ctx, &v1.CreateJobRequest{Spec: spec}); err != nil {
		return said(err)
	}
	return nil
}

// said takes an error of a call for the daemon's refusal, in its words.
func said(err error) error {
	if refused := refusal.Of(err); refused != nil {
		return refused
	}
	return err
}

// spec is what the daemon is asked for.
func (r *Rack) spec(job Job) (*v1.JobSpec, error) {
	job = r.completed(job)
	for _, host := range job.Hosts {
		if host < 0 || host >= len(r.workers) {
			return nil, fmt.Errorf("job %s: the rack has no worker %d", job.Name, host)
		}
	}
	spec := &v1.JobSpec{
		Name:        job.Name,
		Workers:     uint32(len(job.Hosts)),
		Elements:    uint32(job.Elements),
		Window:      uint32(job.Window),
		Priority:    uint32(job.Priority),
		MinWorkers:  uint32(job.MinWorkers),
		WireBits:    uint32(job.WireBits),
		Publication: v1.Publication_PUBLICATION_MULTICAST,
	}
	if job.Unicast {
		spec.Publication = v1.Publication_PUBLICATION_UNICAST
	}
	for _, t := range []struct {
		to   **durationpb.Duration
		from time.Duration
	}{{&spec.MinRto, job.MinRTO}, {&spec.MaxRto, job.MaxRTO}, {&spec.Silence, job.Silence}, {&spec.Settle, job.Settle}, {&spec.LostAfter, job.LostAfter}} {
		if t.from != 0 {
			*t.to = durationpb.New(t.from)
		}
	}
	if job.Quorum != 0 {
		spec.Quorum = &v1.Quorum{Workers: uint32(job.Quorum), MaxLag: uint32(job.MaxLag)}
		if job.After != 0 {
			spec.Quorum.After = durationpb.New(job.After)
		}
	}
	spec.Tor = v1.TorUse_TOR_USE_NONE
	if r.tor != nil {
		r.config.Tor.ask(spec)
	}
	return spec, nil
}

// completed fills in what a job leaves to the rack.
func (r *Rack) completed(job Job) Job {
	if job.Elements == 0 {
		job.Elements = r.config.Elements
	}
	if job.Priority == 0 {
		job.Priority = DefaultPriority
	}
	if job.Hosts == nil {
		for host := range r.workers {
			job.Hosts = append(job.Hosts, host)
		}
	}
	return job
}

// RemoveJob has the daemon take a job away, whoever takes part in it.
func (r *Rack) RemoveJob(ctx context.Context, name string) error {
	if _, err := r.operator().jobs.DeleteJob(ctx, &v1.DeleteJobRequest{Name: name, Force: true}); err != nil {
		return said(err)
	}
	return nil
}

// An Invitation is what a worker process needs to join a job.
type Invitation struct {
	// Appliance is the address of the API; of several appliances, all, with commas between.
	Appliance string     `json:"appliance"`
	Job       string     `json:"job"`
	Rank      int        `json:"rank"`
	Workers   int        `json:"workers"`
	Pair      certs.Pair `json:"pair"`
	// Params are what an appliance would say, where there is none: in several racks.
	Params *worker.Params `json:"params,omitempty"`
}

// Invite makes the invitations of a job's workers, by rank, with a certificate of the job.
func (r *Rack) Invite(job Job) ([]Invitation, error) {
	if r.forest != nil {
		return r.inviteTree(job)
	}
	job = r.completed(job)
	pair, err := r.authority.Issue(certs.Request{Name: "workers of " + job.Name, Identity: certs.Identity{Jobs: []string{job.Name}}})
	if err != nil {
		return nil, err
	}
	var appliances []string
	for index := range r.appliances {
		appliances = append(appliances, netip.AddrPortFrom(ApplianceAddr(index), homeAPI).String())
	}
	all := make([]Invitation, len(job.Hosts))
	for rank := range all {
		all[rank] = Invitation{Appliance: strings.Join(appliances, ","), Job: job.Name, Rank: rank, Workers: len(job.Hosts), Pair: pair}
	}
	return all, nil
}

// Join accepts the invitation, in the namespace of the worker's host. What matters of its messages goes to stderr, unless an option says otherwise.
func (i Invitation) Join(ctx context.Context, opts ...worker.Option) (*worker.Worker, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if i.Params != nil {
		return worker.JoinWith(*i.Params, append([]worker.Option{worker.WithLogger(log)}, opts...)...)
	}
	config, err := i.Pair.ClientTLS()
	if err != nil {
		return nil, err
	}
	return worker.Join(ctx, i.Appliance, i.Job, i.Rank, append([]worker.Option{worker.WithTLS(config), worker.WithLogger(log)}, opts...)...)
}
