package rack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"spillway/wire"
	"spillway/worker"
	"spillway/xdp"
)

// workerPort is the UDP port that workers send from and receive on.
const workerPort = 9701

// A Job says what rack and workers must know of a job of all the rack's workers.
type Job struct {
	ID         uint16
	Generation uint8
	Cookie     uint32
	// Elements is E; 0 is the rack's.
	Elements int
	// Window is W, in chunks.
	Window int
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

// startAggregator loads the XDP program and attaches it to the home's interface.
func (r *Rack) startAggregator() (err error) {
	if r.aggregator, err = xdp.Load(r.config.Aggregator); err != nil {
		return err
	}
	inside, err := r.home.link.LinkByName(hostInterface)
	if err != nil {
		return fmt.Errorf("find the interface of %s: %w", r.home.name, err)
	}
	r.homeIndex = inside.Attrs().Index
	err = r.home.do(func() (err error) {
		r.mode, err = r.aggregator.Attach(r.homeIndex)
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

// AddJob makes the aggregator home to a job of all workers: rank i is the
// worker of that rank of the rack.
func (r *Rack) AddJob(job Job) error {
	job = r.completed(job)
	j := xdp.Job{
		ID:         job.ID,
		Generation: job.Generation,
		Cookie:     job.Cookie,
		Elements:   job.Elements,
		Window:     job.Window,
		Workers:    len(r.workers),
		Home:       r.homeAddrPort(),
		HomePorts:  r.homePorts(),
		Group:      job.group(),
		WorkerPort: workerPort,
	}
	for rank := range r.workers {
		j.Members = append(j.Members, xdp.Member{
			Addr:    WorkerAddr(rank),
			Bits:    1 << rank,
			MAC:     hardwareAddr(WorkerAddr(rank)),
			Ifindex: r.homeIndex,
		})
	}
	return r.aggregator.AddJob(j)
}

// RemoveJob takes a job out of the aggregator.
func (r *Rack) RemoveJob(id uint16) error { return r.aggregator.RemoveJob(id) }

// Params are what the worker of this rank needs to join the job.
func (r *Rack) Params(job Job, rank int) worker.Params {
	job = r.completed(job)
	return worker.Params{
		Job:        job.ID,
		Generation: job.Generation,
		Cookie:     job.Cookie,
		Rank:       rank,
		Workers:    len(r.workers),
		Elements:   job.Elements,
		Window:     job.Window,
		Home:       r.homeAddrPort(),
		HomePorts:  r.homePorts(),
		Group:      job.group(),
		WorkerPort: workerPort,
		Addr:       WorkerAddr(rank),
		MinRTO:     job.MinRTO,
		MaxRTO:     job.MaxRTO,
		Silence:    job.Silence,
	}
}

// completed fills in what a job leaves to the rack.
func (r *Rack) completed(job Job) Job {
	if job.Elements == 0 {
		job.Elements = r.config.Elements
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

// A FixedParams is a worker.Source with parameters that are known already.
type FixedParams worker.Params

// Params returns the parameters if they are for this rank.
func (p FixedParams) Params(_ context.Context, rank int) (worker.Params, error) {
	if rank != p.Rank {
		return worker.Params{}, errors.New("these parameters are for another rank")
	}
	return worker.Params(p), nil
}
