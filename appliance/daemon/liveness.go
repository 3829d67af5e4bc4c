package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

// A part is something of the daemon that must answer. Its check may hang: that is what it is there to find.
type part struct {
	name  string
	check func(context.Context) error
	busy  atomic.Bool // a check of it has not returned
}

// liveness asks the parts whether they answer. One check of a part runs at a time, so that a part that hangs costs one goroutine.
type liveness struct {
	parts []*part
	// patience is how long a check may take.
	patience time.Duration
}

// check asks all parts at once and names the first that fails or does not answer in time.
func (l *liveness) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	type answer struct {
		*part
		err error
	}
	answers := make(chan answer, len(l.parts))
	waiting := map[*part]bool{}
	for _, p := range l.parts {
		if !p.busy.CompareAndSwap(false, true) {
			return fmt.Errorf("%s does not answer since the last check", p.name)
		}
		waiting[p] = true
		go func() {
			err := p.check(ctx)
			p.busy.Store(false)
			answers <- answer{p, err}
		}()
	}
	for len(waiting) > 0 {
		select {
		case a := <-answers:
			if a.err != nil {
				return fmt.Errorf("%s: %w", a.name, a.err)
			}
			delete(waiting, a.part)
		case <-ctx.Done():
			for p := range waiting {
				return fmt.Errorf("%s does not answer within %v", p.name, l.patience)
			}
		}
	}
	return nil
}

// watchdog tells the service manager that the daemon is alive for as long as it is, three times in each of the intervals after which a silent
// daemon is killed. It returns when ctx ends, or at once where nobody waits to hear.
func watchdog(ctx context.Context, l *liveness, n *notifier, log *slog.Logger) error {
	interval, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("the environment's WATCHDOG_USEC and WATCHDOG_PID: %w", err)
	}
	if interval == 0 {
		return nil
	}
	l.patience = interval / 3
	tick := time.NewTicker(interval / 3)
	defer tick.Stop()
	for {
		if err := l.check(ctx); err == nil {
			n.alive()
		} else if ctx.Err() == nil {
			log.Error("the daemon is not well: the service manager is not told that it is alive, and will start it again", "error", err, "interval", interval)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
