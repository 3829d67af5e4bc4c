package chaos

import (
	"context"
	"fmt"
	"time"

	"spillway/wire"
	"spillway/worker"
)

// A pace is what a worker does before each step.
type pace struct {
	// Work stands for the time that an accelerator computes; a worker that the last result lacks altogether is behind, and leaves it out.
	Work time.Duration `json:"work"`
	// In each run of Every steps there is one, which the seed chooses, before which the worker pauses. Every 0: none.
	Every int           `json:"every"`
	Pause time.Duration `json:"pause"`
	Seed  uint64        `json:"seed"`
}

// pauses reports whether there is a pause before a step.
func (p *pace) pauses(step int) bool {
	if p == nil || p.Every == 0 {
		return false
	}
	turn := uint64(step / p.Every)
	return step%p.Every == int(random(p.Seed, turn)%uint64(p.Every))
}

// pace waits as the worker's pace says.
func (r *reducer) pace(ctx context.Context) error {
	p := r.Pace
	if p == nil {
		return nil
	}
	if p.pauses(r.next) {
		if err := wait(ctx, p.Pause); err != nil {
			return err
		}
	}
	if r.late {
		return nil
	}
	return wait(ctx, p.Work)
}

// reduceIntegers is the pattern of a job with a quorum: results are exact sums of whoever is in them.
func (r *reducer) reduceIntegers(ctx context.Context) error {
	contributions := r.Pattern.integers()
	data, residual := make([]int32, r.Pattern.Length), make([]int32, r.Pattern.Length)
	for {
		if err := r.wait(ctx); err != nil {
			return err
		}
		if err := r.pace(ctx); err != nil {
			return err
		}
		own := contributions[r.next%variants]
		copy(data, own[r.Invitation.Rank])
		step := &stepAccount{Number: r.next, Start: monotonic()}
		r.next++
		outcome, err := r.worker.AllReduceInt32With(ctx, data, wire.Sum, worker.WithResidualInt32(residual))
		if err != nil {
			return fmt.Errorf("step %d: %w", step.Number, err)
		}
		step.End, step.Missed = monotonic(), outcome.Missed
		r.late = step.Missed == len(data)
		step.Wrong = wrongPart(data, residual, own, r.Invitation.Rank, outcome.Spans)
		if err := r.said.Encode(account{Step: step}); err != nil {
			return err
		}
	}
}
