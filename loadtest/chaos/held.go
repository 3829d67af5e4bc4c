package chaos

import (
	"context"
	"errors"
	"time"

	"spillway/loadtest/rack"
)

// heldEvery is the time between two looks at the ToR's slots.
const heldEvery = 5 * time.Millisecond

// HeldSlots is a look at the ToR: so long after the first, so many of its slots held a sum that was not complete.
type HeldSlots struct {
	AtMS  float64 `json:"at_ms"`
	Slots int     `json:"slots"`
}

// watchSlots looks at the ToR's slots until stop is called, which returns what was seen.
func watchSlots(ctx context.Context, r *rack.Rack) (stop func() ([]HeldSlots, error)) {
	ctx, cancel := context.WithCancelCause(ctx)
	var (
		seen  []HeldSlots
		ended = make(chan error, 1)
	)
	go func() { ended <- lookAtSlots(ctx, r, &seen) }()
	return func() ([]HeldSlots, error) {
		cancel(errWatched)
		if err := <-ended; !errors.Is(err, errWatched) {
			return nil, err
		}
		return seen, nil
	}
}

var errWatched = errors.New("the ToR was watched for long enough")

func lookAtSlots(ctx context.Context, r *rack.Rack, seen *[]HeldSlots) error {
	tick := time.NewTicker(heldEvery)
	defer tick.Stop()
	began := time.Now()
	for {
		held, err := r.TorSlotsHeld(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		*seen = append(*seen, HeldSlots{milliseconds(time.Since(began)), held})
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// meanHeld is the mean over time, each look standing for the time since the one before, and the most that was seen.
func meanHeld(seen []HeldSlots) (mean, most float64) {
	if len(seen) < 2 {
		return 0, 0
	}
	for i, s := range seen {
		if i > 0 {
			mean += float64(s.Slots) * (s.AtMS - seen[i-1].AtMS)
		}
		most = max(most, float64(s.Slots))
	}
	return mean / (seen[len(seen)-1].AtMS - seen[0].AtMS), most
}
