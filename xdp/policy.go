package xdp

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"spillway/wire"
)

// Policy is what a job does about stragglers (docs/protocol.md, section 7). With Quorum 0, or that of all workers, it waits for them. Otherwise
// the sum of a chunk whose first contribution is older than After, and which has contributions of Quorum workers, is released without the others by the next
// packet that asks about it, and is final.
type Policy struct {
	Quorum int           // K
	After  time.Duration // D; what is between two ticks of the kernel's clock, 1 to 10 ms, is rounded up
	// MaxLag is by how many chunks more than a window the slowest worker may be behind, before the others wait for it. Their slots are the price: Ring.
	MaxLag int
}

// maxAfter bounds D, far above what is of use.
const maxAfter = time.Hour

// waits reports whether sums are released only when all of the job's workers are in them.
func (p *Policy) waits(workers int) bool { return p.Quorum == 0 || p.Quorum == workers }

func (p *Policy) validate(workers int) error {
	switch {
	case p.Quorum < 0 || p.Quorum > workers:
		return fmt.Errorf("quorum %d of %d workers: want 1 to %d, or 0 to wait for all", p.Quorum, workers, workers)
	case p.waits(workers):
		return nil
	case p.After <= 0 || p.After > maxAfter:
		return fmt.Errorf("quorum %d after %v: want a time above zero, and at most %v", p.Quorum, p.After, maxAfter)
	case p.MaxLag < 0 || p.MaxLag > 1<<20:
		return fmt.Errorf("quorum %d with a lag of up to %d chunks: want 0 to %d", p.Quorum, p.MaxLag, 1<<20)
	}
	return nil
}

// policy is the job's without what has no effect.
func (j *Job) policy() (p Policy, resumed bool) {
	if j.Policy.waits(j.Workers) {
		return Policy{}, false
	}
	return j.Policy, j.Resumed
}

// Ring is R, the number of slots that the job takes.
func (j *Job) Ring() uint32 {
	p, _ := j.policy()
	return wire.RingSizeWithLag(j.Window, p.MaxLag)
}

// installProgress forgets how far the workers of a job are, and says what its D is in ticks of the clock.
func (a *Aggregator) installProgress(j *Job) (after uint32, err error) {
	p, resumed := j.policy()
	tick, err := a.tick()
	if err != nil {
		return 0, err
	}
	value := aggregatorJobProgress{Deadline: uint64(p.After), Lag: uint32(p.MaxLag), Resumed: uint32(boolean(resumed))}
	if err := a.objects.Progress.Put(uint32(j.ID), value); err != nil {
		return 0, fmt.Errorf("progress: %w", err)
	}
	return uint32((p.After + tick - 1) / tick), nil
}

// readPolicy reads back what install wrote of the policy.
func (a *Aggregator) readPolicy(job *Job, in *aggregatorJob) error {
	if in.Quorum == 0 {
		return nil
	}
	var p aggregatorJobProgress
	if err := a.objects.Progress.Lookup(uint32(job.ID), &p); err != nil {
		return fmt.Errorf("read the progress of job %d: %w", job.ID, err)
	}
	job.Policy = Policy{Quorum: int(in.Quorum), After: time.Duration(p.Deadline), MaxLag: int(p.Lag)}
	job.Resumed = p.Resumed != 0
	return nil
}

// SetClock tells an aggregator with a simulated clock what time it is for a job.
func (a *Aggregator) SetClock(job uint16, now time.Duration) error {
	var p aggregatorJobProgress
	if err := a.objects.Progress.Lookup(uint32(job), &p); err != nil {
		return fmt.Errorf("read the progress of job %d: %w", job, err)
	}
	p.Clock = uint64(now / simulatedTick)
	if err := a.objects.Progress.Put(uint32(job), p); err != nil {
		return fmt.Errorf("set the clock of job %d: %w", job, err)
	}
	return nil
}

// simulatedTick is that of a simulated clock.
const simulatedTick = time.Microsecond

// tick is what the clock counts that quorum jobs go by.
func (a *Aggregator) tick() (time.Duration, error) {
	if a.config.SimulatedClock {
		return simulatedTick, nil
	}
	return jiffy()
}

// jiffy is the tick of the kernel's clock, the resolution of its coarse clocks.
func jiffy() (time.Duration, error) {
	var resolution unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &resolution); err != nil {
		return 0, fmt.Errorf("read the length of a jiffy: %w", err)
	}
	return time.Duration(resolution.Nano()), nil
}

// boolean is a flag as the program has it.
func boolean(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
