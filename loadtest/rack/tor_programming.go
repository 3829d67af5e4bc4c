package rack

import (
	"context"
	"errors"
	"fmt"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"

	"spillway/p4/p4info"
	"spillway/p4/pipeline"
)

// floodGroup is the ToR's multicast group of all ports; those of the jobs have the jobs' ids, which are smaller.
const floodGroup = MaxJobs + 1

// A torJob is what the ToR knows of a job, and its region.
type torJob struct {
	pipeline.Job
	region Region
}

// A controller is the P4Runtime session with a ToR: its Write is all that ever changes a table.
type controller interface {
	pipeline.Reader
	Write(ctx context.Context, updates ...*p4v1.Update) error
	Close() error
}

// addTorJob gives a job its part of the ToR's memory, and puts it into the tables.
func (r *Rack) addTorJob(ctx context.Context, job Job) error {
	r.tor.mu.Lock()
	defer r.tor.mu.Unlock()
	region, err := r.tor.regions.take(job.ID, job.Window)
	if err != nil {
		return err
	}
	j := torJob{region: region, Job: pipeline.Job{
		ID:             job.ID,
		Generation:     job.Generation,
		Index:          uint8(job.ID),
		Cookie:         job.Cookie,
		Key:            uint32(job.ID) * 0x9e3779b1, // spreads the jobs' ids over all 32 bits
		Home:           r.homeAddrPort(),
		HomePorts:      r.homePorts(),
		HomePort:       torHomePort,
		HomeMAC:        pipeline.MAC(hardwareAddr(HomeAddr())),
		TorAddr:        TorAddr(),
		Group:          job.group(),
		MulticastGroup: job.ID,
		WorkerPort:     job.workerPort(),
	}}
	for rank, host := range job.Hosts {
		j.Workers = append(j.Workers, pipeline.Worker{Addr: WorkerAddr(host), Port: torWorkerPort(host), Bits: 1 << rank})
	}
	if region.Slots > 0 && len(j.Workers) > 1 { // one worker has nothing to sum
		j.Region = &pipeline.Region{Base: uint16(region.Base), Slots: uint16(region.Slots), Mode: r.tor.mode()}
	} else {
		j.region.Slots = 0
	}
	r.tor.jobs = append(r.tor.jobs, j)
	return r.tor.install(ctx, j)
}

// mode is how jobs share slots.
func (t *tor) mode() pipeline.Mode {
	switch {
	case !t.config.Shared:
		return pipeline.ModePrivate
	case t.config.FirstCome:
		return pipeline.ModeFirstCome
	}
	return pipeline.ModeShared
}

// install writes a job's entries.
func (t *tor) install(ctx context.Context, j torJob) error {
	updates, err := pipeline.Entries(t.info, j.Job)
	if err != nil {
		return err
	}
	if t.control == nil {
		return errNoTor
	}
	if err := t.control.Write(ctx, updates...); err != nil {
		return fmt.Errorf("job %d: %w", j.ID, err)
	}
	return nil
}

// program writes all that the ToR is to have: who is at which port, and the jobs.
func (t *tor) program(ctx context.Context) error {
	updates, err := pipeline.HostEntries(t.info, floodGroup, t.hosts...)
	if err != nil {
		return err
	}
	if err := t.control.Write(ctx, updates...); err != nil {
		return err
	}
	for _, j := range t.jobs {
		if err := t.install(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// checkLimits compares what the ToR says it can hold with what the rack is to have.
func (t *tor) checkLimits(ctx context.Context, elements int) error {
	limits, err := pipeline.ReadLimits(ctx, t.control, t.info)
	if err != nil {
		return err
	}
	if int(limits.Slots) < t.config.Slots || limits.Elements < elements {
		return fmt.Errorf("the ToR has %d slots of %d elements, the rack is to have %d of %d", limits.Slots, limits.Elements, t.config.Slots, elements)
	}
	return nil
}

// errNoTor is what is said of a ToR that did not come up again.
var errNoTor = errors.New("there is no session with the ToR")

// TorCounters is what the ToR counted of a job.
type TorCounters struct {
	// Events are by name, nil without a ToR.
	Events map[string]uint64
	// Preempted counts the job's partial sums that were put out of their slot, Saturated its packets with a sum that left the int32 range.
	Preempted, Saturated uint64
}

// plus adds up what was counted before a reboot and after.
func (c TorCounters) plus(more TorCounters) TorCounters {
	sum := TorCounters{Events: map[string]uint64{}, Preempted: c.Preempted + more.Preempted, Saturated: c.Saturated + more.Saturated}
	for _, events := range []map[string]uint64{c.Events, more.Events} {
		for name, n := range events {
			sum.Events[name] += n
		}
	}
	return sum
}

// TorCounters reads the counters of a job from the ToR. What a ToR counted that was rebooted is added, as far as it was known just before.
func (r *Rack) TorCounters(ctx context.Context, job uint16) (TorCounters, error) {
	if r.tor == nil {
		return TorCounters{}, nil
	}
	r.tor.mu.Lock()
	defer r.tor.mu.Unlock()
	now, err := r.tor.counters(ctx, uint8(job))
	if err != nil {
		return TorCounters{}, err
	}
	return r.tor.forgotten[job].plus(now), nil
}

func (t *tor) counters(ctx context.Context, index uint8) (c TorCounters, err error) {
	if t.control == nil {
		return c, errNoTor
	}
	events, err := pipeline.ReadEvents(ctx, t.control, t.info, index)
	if err != nil {
		return c, err
	}
	c.Events = map[string]uint64{}
	for event, n := range events {
		c.Events[event.String()] = n
	}
	var errs [2]error
	c.Preempted, errs[0] = pipeline.ReadJobCounter(ctx, t.control, t.info, pipeline.CounterPreempted, index)
	c.Saturated, errs[1] = pipeline.ReadJobCounter(ctx, t.control, t.info, pipeline.CounterSaturated, index)
	return c, errors.Join(errs[:]...)
}

// torHosts are all hosts of the rack, for the ToR to forward to.
func torHosts(workers int) []pipeline.Host {
	hosts := []pipeline.Host{{Addr: HomeAddr(), MAC: pipeline.MAC(hardwareAddr(HomeAddr())), Port: torHomePort}}
	for rank := range workers {
		addr := WorkerAddr(rank)
		hosts = append(hosts, pipeline.Host{Addr: addr, MAC: pipeline.MAC(hardwareAddr(addr)), Port: torWorkerPort(rank)})
	}
	return hosts
}

// torInfo is the P4Info of the rack's kind of ToR: the software ToR is held to that of the program for BMv2.
func torInfo() *p4info.Info { return pipeline.Software() }
