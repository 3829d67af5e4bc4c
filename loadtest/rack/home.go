package rack

import (
	"context"
	"fmt"
	"net/netip"

	"spillway/wire"
	"spillway/worker"
	"spillway/xdp"
)

// workerPorts is where the UDP ports begin that workers send from and receive on, one for each job. They must lie
// outside the block of the homes' ports, by which a ToR tells Spillway's packets.
const workerPorts = 9800

// A Job says what rack and workers must know of a job.
type Job struct {
	ID         uint16 // 1 to MaxJobs
	Generation uint8
	Cookie     uint32
	// Elements is E; 0 is the rack's.
	Elements int
	// Window is W, in chunks.
	Window int
	// Hosts are the rack's workers that it runs on, by rank of the job; nil is all of them.
	Hosts []int
	// Priority is 1 (least urgent) to 127; 0 is DefaultPriority. It decides in the ToR only.
	Priority uint8
	// Unicast publishes a copy to each worker instead of one packet to the job's
	// multicast group.
	Unicast bool
	// MinRTO, MaxRTO and Silence are the worker's timers; 0 leaves them to it.
	MinRTO, MaxRTO, Silence worker.Duration
}

// group is the job's multicast group, of the block for local use (RFC 2365).
func (j *Job) group() netip.Addr {
	if j.Unicast {
		return netip.Addr{}
	}
	return netip.AddrFrom4([4]byte{239, 77, byte(j.ID >> 8), byte(j.ID)})
}

// workerPort is the job's own.
func (j *Job) workerPort() uint16 { return workerPorts + j.ID }

// Limits of a rack's jobs.
const (
	MaxJobs         = 255
	MaxPriority     = 127
	DefaultPriority = 64
)

// startAggregator loads the XDP program and attaches it to the home's interface.
func (r *Rack) startAggregator() (err error) {
	if r.aggregator, err = xdp.Load(r.config.Aggregator); err != nil {
		return err
	}
	err = r.home.do(func() (err error) {
		r.mode, err = r.aggregator.Attach(r.homeLink.host().index)
		return err
	})
	if err != nil {
		return err
	}
	if r.mode != xdp.Native {
		r.config.Log.Warn("the aggregator runs in generic mode, which is slow: figures say little", "mode", r.mode)
	}
	return nil
}

// Mode is how the aggregator's program sits on its interface.
func (r *Rack) Mode() xdp.Mode { return r.mode }

// AddJob makes the aggregator home to a job, and tells the ToR of it, which gives it a part of its memory.
func (r *Rack) AddJob(ctx context.Context, job Job) error {
	job = r.completed(job)
	if err := r.checkJob(&job); err != nil {
		return err
	}
	j := xdp.Job{
		ID:         job.ID,
		Generation: job.Generation,
		Cookie:     job.Cookie,
		Elements:   job.Elements,
		Window:     job.Window,
		Workers:    len(job.Hosts),
		Home:       r.homeAddrPort(),
		HomePorts:  r.homePorts(),
		Group:      job.group(),
		WorkerPort: job.workerPort(),
	}
	for rank, host := range job.Hosts {
		addr := WorkerAddr(host)
		j.Members = append(j.Members, xdp.Member{Addr: addr, Bits: 1 << rank, MAC: hardwareAddr(addr), Ifindex: r.homeLink.host().index})
	}
	if r.tor != nil {
		j.Members = append(j.Members, xdp.Member{Addr: TorAddr(), Bits: wire.FullBitmap(len(job.Hosts))})
	}
	if err := r.aggregator.AddJob(j); err != nil {
		return err
	}
	if r.tor == nil {
		return nil
	}
	return r.addTorJob(ctx, job)
}

// checkJob says what of a job the rack cannot have.
func (r *Rack) checkJob(job *Job) error {
	if job.ID < 1 || job.ID > MaxJobs {
		return fmt.Errorf("job %d: want an id from 1 to %d", job.ID, MaxJobs)
	}
	if job.Priority > MaxPriority {
		return fmt.Errorf("job %d: priority %d, want 1 to %d", job.ID, job.Priority, MaxPriority)
	}
	if job.Unicast && r.tor != nil {
		return fmt.Errorf("job %d: a ToR publishes to a multicast group, and the job has none", job.ID)
	}
	for _, host := range job.Hosts {
		if host < 0 || host >= len(r.workers) {
			return fmt.Errorf("job %d: the rack has no worker %d", job.ID, host)
		}
	}
	return nil
}

// RemoveJob takes a job out of the aggregator. Its place in the ToR it keeps: nothing comes there any more.
func (r *Rack) RemoveJob(id uint16) error { return r.aggregator.RemoveJob(id) }

// Params are what the worker of this rank needs to join a job that was added.
func (r *Rack) Params(job Job, rank int) worker.Params {
	job = r.completed(job)
	p := worker.Params{
		Job:        job.ID,
		Generation: job.Generation,
		Cookie:     job.Cookie,
		Rank:       rank,
		Workers:    len(job.Hosts),
		Elements:   job.Elements,
		Window:     job.Window,
		Priority:   job.Priority,
		Home:       r.homeAddrPort(),
		HomePorts:  r.homePorts(),
		Group:      job.group(),
		WorkerPort: job.workerPort(),
		Addr:       WorkerAddr(job.Hosts[rank]),
		MinRTO:     job.MinRTO,
		MaxRTO:     job.MaxRTO,
		Silence:    job.Silence,
	}
	if r.tor != nil {
		p.Tor = r.tor.params(job.ID)
	}
	return p
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

func (r *Rack) homePorts() uint16 { return max(r.config.Aggregator.Ports, 1) }

func (r *Rack) homeAddrPort() netip.AddrPort {
	port := r.config.Aggregator.FirstPort
	if port == 0 {
		port = wire.BasePort
	}
	return netip.AddrPortFrom(HomeAddr(), port)
}

// Counters are the aggregator's of a job, with those of packets that it could
// not assign to any job.
func (r *Rack) Counters(job uint16) (ofJob, ofNone map[string]uint64, err error) {
	ofJob, err = r.aggregator.Counters(job)
	if err != nil {
		return nil, nil, err
	}
	ofNone, err = r.aggregator.UnknownJobCounters()
	return ofJob, ofNone, err
}
