package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

// patience is how long a part may take to answer.
const patience = 3 * time.Second

// A part is something of the daemon that must answer. Its check may hang: that is what it is there to find.
type part struct {
	name  string
	check func(context.Context) error

	mu   sync.Mutex
	last *asking // nil when none is under way
}

// asking is a check under way. Whoever asks meanwhile waits for the same answer, so that a part that hangs costs one goroutine.
type asking struct {
	done chan struct{} // closed when err is there
	err  error
}

// ask begins a check, unless one is under way.
func (p *part) ask() *asking {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil {
		return p.last
	}
	a := &asking{done: make(chan struct{})}
	p.last = a
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		a.err = p.check(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.last = nil
		close(a.done)
	}()
	return a
}

// liveness asks the parts whether they answer.
type liveness struct{ parts []*part }

// check asks all parts at once and names the first, in their order, that fails or does not answer within patience, or while ctx lasts.
func (l *liveness) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	under := make([]*asking, len(l.parts))
	for n, p := range l.parts {
		under[n] = p.ask()
	}
	for n, p := range l.parts {
		select {
		case <-under[n].done:
			if err := under[n].err; err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer", p.name)
		}
	}
	return nil
}

// watchdog tells the service manager that the daemon is alive for as long as it is, three times in each of the intervals after which a silent
// daemon is killed, until ctx ends.
func watchdog(ctx context.Context, l *liveness, n *notifier, log *slog.Logger) error {
	interval, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("the environment's WATCHDOG_USEC and WATCHDOG_PID: %w", err)
	}
	if interval == 0 { // nobody waits to hear
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(interval / 3)
	defer tick.Stop()
	for {
		checking, cancel := context.WithTimeout(ctx, interval/3)
		err := l.check(checking)
		cancel()
		switch {
		case err == nil:
			n.alive()
		case ctx.Err() == nil:
			log.Error("the daemon is not well: the service manager is not told that it is alive, and will start it again", "error", err, "interval", interval)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
