package chaos

import (
	"context"
	"errors"
	"time"

	"spillway/loadtest/faults"
)

// restoredRule is the clock of faults that nobody but who made them can repair.
const restoredRule = "from the moment at which the link is whole again to the end, at its last worker, of the collective that took longest from then on among those in flight; less the undisturbed median"

func linkScenarios() []Scenario {
	return []Scenario{
		{
			Name:    "uplink-cut",
			Summary: "the link between the rack and the home is cut for up to half a second, and restored",
			Story: "What spills over from the ToR does not reach its home, nor do results come back. When the link is back the job must go on from what each worker has. The workers' calls to the\n" +
				"daemon cross the same link.",
			Clock: restoredRule, Simulated: simCommand, needs: needs{tor: true},
			strike: func(ctx context.Context, s *stage) (incident, error) {
				return s.cut(ctx, func(up bool) error { return s.rack.SetLink(0, up) })
			},
		},
		{
			Name:    "worker-cut",
			Summary: "a worker's link is cut for up to half a second, and restored",
			Story:   "The others wait; the worker that was cut off has missed results and asks for them.",
			Clock:   restoredRule, Simulated: simCommand, needs: needs{tor: true},
			strike: func(ctx context.Context, s *stage) (incident, error) {
				worker := s.rng.IntN(s.options.Workers)
				return s.cut(ctx, func(up bool) error { return s.rack.SetWorkerLink(worker, up) })
			},
		},
		{
			Name:    "loss-burst",
			Summary: "for a fifth of a second every third packet is lost at every worker's port, and every twentieth doubled",
			Story:   "Each way. The clock starts when the burst ends.",
			Clock:   restoredRule, Simulated: simCommand, needs: needs{tor: true, hooks: true},
			strike: func(ctx context.Context, s *stage) (incident, error) {
				err := s.rack.SetFaults(faults.Rates{Loss: 1. / 3, Duplicate: 1. / 20})
				if err != nil {
					return incident{}, err
				}
				if err := errors.Join(wait(ctx, 200*time.Millisecond), s.rack.SetFaults(faults.Rates{})); err != nil {
					return incident{}, err
				}
				return struck(monotonic()), nil
			},
		},
	}
}

// cut takes a link down for a while.
func (s *stage) cut(ctx context.Context, set func(up bool) error) (incident, error) {
	if err := set(false); err != nil {
		return incident{}, err
	}
	waited := wait(ctx, s.between(50*time.Millisecond, 500*time.Millisecond))
	if err := errors.Join(waited, set(true)); err != nil {
		return incident{}, err
	}
	return struck(monotonic()), nil
}
