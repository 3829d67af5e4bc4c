package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"spillway/loadtest/rack"
)

// The job that is disturbed, and the ToR that it runs through.
const (
	jobName     = "chaos"
	jobElements = 256
	jobWindow   = 127
	// torSlots are a quarter of the chunks in flight: some sums are under way in the ToR, others at the home.
	torSlots = 32
	// torCheck is how often the daemon compares the ToR's entries with what they should be, here and not by default: a wipe that nobody sees
	// costs that long.
	torCheck = 500 * time.Millisecond
	// silence is longer than any recovery may take; impatience is for those who are to give up.
	silence    = time.Minute
	impatience = time.Second
)

// A stage is a rack on which workers reduce.
type stage struct {
	options *Options
	needs   needs
	rng     *rand.Rand
	rack    *rack.Rack
	job     rack.Job
	pattern pattern
	crew    *crew
	attack  *attack // of an outsider, prepared
	// elections counts second controllers, each of which must have a higher id than the last.
	elections uint64

	wrong, complete int // of crews before
	wrongAt         string
}

// newStage builds the rack and admits the job.
func newStage(ctx context.Context, o *Options, n needs, rng *rand.Rand) (*stage, error) {
	s, err := newBareStage(ctx, o, n, rng)
	if err != nil {
		return nil, err
	}
	if err := s.admit(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// newBareStage builds the rack.
func newBareStage(ctx context.Context, o *Options, n needs, rng *rand.Rand) (s *stage, err error) {
	config := rack.Config{Workers: o.Workers, Elements: jobElements, Rate: o.Rate, Hooks: n.hooks, Daemon: o.Daemon, Appliances: n.inRack(o)}
	if n.outsider {
		config.Workers++
	}
	if n.tor {
		config.Tor = rack.Tor{Kind: rack.TorSoft, Slots: torSlots, Check: torCheck, Command: o.Tor}
		config.Tor.Command.Stderr = (&stage{options: o}).stderr()
	}
	config.Daemon.Stderr = (&stage{options: o}).stderr()
	if o.Verbose {
		config.Log = slog.New(slog.NewTextHandler(o.Stderr, nil))
	}
	if err := rack.Preflight(config); err != nil {
		return nil, err
	}
	s = &stage{options: o, needs: n, rng: rng}
	if s.rack, err = rack.New(ctx, config); err != nil {
		return nil, err
	}
	s.job = rack.Job{Name: jobName, Elements: jobElements, Window: jobWindow, Silence: silence}
	if n.impatient {
		s.job.Silence = impatience
	}
	for host := range o.Workers {
		s.job.Hosts = append(s.job.Hosts, host)
	}
	s.pattern = pattern{Seed: o.Seed, Workers: o.Workers, Length: int(o.Size / elementSize), Elements: jobElements}
	if n.quorum {
		s.job.Quorum, s.job.After, s.job.MaxLag = o.Workers-1, stragglerAfter, stragglerLag
	}
	return s, nil
}

// admit has the job admitted.
func (s *stage) admit(ctx context.Context) error { return s.rack.AddJob(ctx, s.job) }

// replace takes another crew in the place of the one that was.
func (s *stage) replace(c *crew) {
	s.count()
	s.crew = c
}

// count adds up what the crew did before it is forgotten.
func (s *stage) count() {
	if s.crew == nil {
		return
	}
	s.crew.mu.Lock()
	defer s.crew.mu.Unlock()
	s.wrong += s.crew.wrong
	s.complete += s.crew.complete
	if s.wrongAt == "" {
		s.wrongAt = s.crew.wrongAt
	}
}

// close ends the workers and takes the rack down.
func (s *stage) close() error {
	var all []error
	if s.attack != nil {
		all = append(all, s.attack.close())
	}
	if s.crew != nil {
		// A worker that was in the middle of a collective when its job failed has said so already.
		_ = s.crew.stop()
		s.replace(nil)
	}
	return errors.Join(append(all, s.rack.Close())...)
}

// pause waits for a random time up to most.
func (s *stage) pause(ctx context.Context, most time.Duration) error {
	return wait(ctx, time.Duration(s.rng.Int64N(int64(most)+1)))
}

// wait lets time pass: the faults' own, and the time between them.
func wait(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// struck makes an incident of a fault that was at a moment, and is over now.
func struck(at int64) incident { return incident{at: at, until: monotonic()} }

// progress says something to whoever waits.
func (o *Options) progress(format string, args ...any) {
	fmt.Fprintf(o.Stderr, format+"\n", args...)
}
