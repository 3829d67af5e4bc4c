package fabric

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is how long to wait before the next attempt: little at first, because a ToR that rebooted is to be found soon, never long, and never
// the same for two appliances.
type backoff struct{ next time.Duration }

const (
	firstDelay = 20 * time.Millisecond
	mostDelay  = 500 * time.Millisecond
)

func (b *backoff) reset() { b.next = 0 }

// delay is from three to five quarters of the current one, which grows by half.
func (b *backoff) delay() time.Duration {
	d := max(b.next, firstDelay)
	b.next = min(d*3/2, mostDelay)
	return d*3/4 + rand.N(d/2)
}

// pause waits, and tells whether ctx lasted.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
