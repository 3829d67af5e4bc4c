package main

import (
	"fmt"
	"time"

	"spillway/loadtest/rack"
)

// A task is one job of a run, with all that the command line says of it.
type task struct {
	options *runOptions
	id      uint16
	jobSpec
}

// tasks are the run's jobs, in the order of the command line.
func (o *runOptions) tasks() []task {
	specs := o.jobs.specs
	if specs == nil {
		specs = make([]jobSpec, max(o.jobs.alike, 1))
	}
	var all []task
	for i, spec := range specs {
		if spec.name == "" {
			spec.name = fmt.Sprint(i + 1)
		}
		if spec.priority == 0 {
			spec.priority = rack.DefaultPriority
		}
		if spec.size == 0 {
			spec.size = o.size
		}
		if spec.count == 0 {
			spec.count = o.iterations
		}
		if spec.straggler == 0 {
			spec.straggler = o.straggler
		}
		if spec.hosts == nil {
			for host := range o.hosts() {
				spec.hosts = append(spec.hosts, host)
			}
		}
		all = append(all, task{o, uint16(i + 1), spec})
	}
	return all
}

// validate returns a usageError for what cannot be meant.
func (t *task) validate() error {
	if t.size%elementSize != 0 || t.size/elementSize > maxTensor {
		return usagef("run: size %d of job %s is not a multiple of %d up to %d bytes", t.size, t.name, elementSize, maxTensor*elementSize)
	}
	if last := t.hosts[len(t.hosts)-1]; last >= t.options.hosts() {
		return usagef("run: job %s runs on worker %d of workers 0 to %d", t.name, last, t.options.hosts()-1)
	}
	return nil
}

// checkTasks validates all of them together.
func (o *runOptions) checkTasks() error {
	names := map[string]bool{}
	for _, t := range o.tasks() {
		if err := t.validate(); err != nil {
			return err
		}
		if names[t.name] {
			return usagef("run: two jobs are called %q", t.name)
		}
		names[t.name] = true
	}
	return nil
}

func (t *task) workers() int { return len(t.hosts) }

func (t *task) tensorElements() int { return int(t.size / elementSize) }

// pattern is what a rank contributes. Jobs differ in their seeds, so that a chunk that strays from one to another is noticed.
func (t *task) pattern(rank int) pattern {
	return pattern{seed: t.seed(), rank: rank, workers: t.workers()}
}

func (t *task) seed() uint64 { return t.options.seed + uint64(t.id-1)<<32 }

// pause is how long a rank waits before each all-reduce.
func (t *task) pause(rank int) time.Duration {
	if rank == t.workers()-1 {
		return t.straggler
	}
	return 0
}

// batch is how many tensors are reduced in a row.
func (t *task) batch() int {
	return int(min(max(batchBytes/int64(t.size), 1), int64(max(t.count, t.options.warmup))))
}

// job is what the rack must know. Its name is not the one on the command line, which may have any characters.
func (t *task) job() rack.Job {
	o := t.options
	return rack.Job{
		Name:     fmt.Sprintf("job-%d", t.id),
		Window:   o.window,
		WireBits: o.wireBits,
		Hosts:    t.hosts,
		Priority: t.priority,
		Unicast:  o.unicast,
		MinRTO:   o.minRTO,
		MaxRTO:   o.maxRTO,
		Silence:  o.silence,
		Quorum:   o.quorum,
		After:    o.after,
		MaxLag:   o.maxLag,
	}
}
