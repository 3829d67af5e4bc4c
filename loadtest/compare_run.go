package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"spillway/loadtest/quantity"
	"spillway/loadtest/rack"
)

// A comparison is the systems on a rack.
type comparison struct {
	options     *compareOptions
	place       place
	rack        *rack.Rack
	contestants []*contestant
	report      *CompareReport
	progress    *Progress
}

// measure compares all systems at a place, with all sizes. Nothing is left of it, whatever it returns.
func (o *compareOptions) measure(ctx context.Context, p place, report *CompareReport, progress *Progress) (err error) {
	progress.Step(fmt.Sprintf("building the rack of %d workers, %s", p.workers, &p.rate), 0)
	r, err := rack.New(ctx, o.rack(p))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	go func() { // ends with the measurement
		select {
		case err := <-r.Failed():
			fail(err)
		case <-ctx.Done():
		}
	}()
	c := &comparison{options: o, place: p, rack: r, report: report, progress: progress}
	defer func() {
		for _, system := range c.contestants {
			err = errors.Join(err, system.stop())
		}
	}()
	for _, name := range report.Systems {
		progress.Step(fmt.Sprintf("starting %s", name), 0)
		system := &contestant{name: name, streams: o.streams, shaped: p.rate != 0}
		c.contestants = append(c.contestants, system)
		if err := r.Ordinary(system.peer()); err != nil {
			return err
		}
		if err := system.start(ctx, r, o); err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		report.started(system)
	}
	for number, size := range o.sizes {
		if err := c.compare(ctx, number, size); err != nil {
			return fmt.Errorf("%s: %w", &size, err)
		}
	}
	return nil
}

// compare has all systems take turns with tensors of a size.
func (c *comparison) compare(ctx context.Context, number int, size quantity.Size) (err error) {
	t := c.options.spillway(c.place, size).tasks()[0]
	t.id = uint16(number + 1)
	if err := enoughMemory(&t, len(c.contestants)); err != nil {
		return err
	}
	tensors, err := newPeerTensors(ctx, &t, c.progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tensors.close()) }()
	for _, system := range c.contestants {
		c.progress.Step(fmt.Sprintf("%s of %s by %s: ready to begin", &size, &c.place.rate, system.name), 0)
		if err := c.turn(system); err != nil {
			return err
		}
		if err := system.load(ctx, c.rack, &t, tensors, c.progress); err != nil {
			return fmt.Errorf("%s: %w", system.name, err)
		}
	}
	rounds := make([][]time.Duration, len(c.contestants)) // by system: the median of each round
	for round := range c.options.rounds {
		for i := range c.contestants {
			// Each round begins with another one.
			at := (i + round) % len(c.contestants)
			took, err := c.round(ctx, c.contestants[at], round)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", c.contestants[at].name, round+1, err)
			}
			rounds[at] = append(rounds[at], took)
		}
	}
	c.report.add(c, &t, rounds)
	for _, system := range c.contestants {
		if err := system.unload(ctx, c.rack); err != nil {
			return fmt.Errorf("%s: %w", system.name, err)
		}
	}
	return nil
}

// enoughMemory refuses a size that would have the kernel end processes, on this machine or of its own: each system's workers have a batch of tensors, as
// does this process for what they fill in, and there are the sums, of the aggregator's side and the parameter server's.
func enoughMemory(t *task, systems int) error {
	tensor := uint64(t.size)
	needed := tensor * uint64(t.workers()*(systems*t.batch()+1)+8)
	available, err := availableMemory()
	if err != nil {
		return err
	}
	if needed > available {
		return fmt.Errorf("%d workers of %d systems need some %.1f GB of memory at once, and %.1f GB are available: take smaller --sizes, or fewer --workers or --systems",
			t.workers(), systems, float64(needed)/1e9, float64(available)/1e9)
	}
	return nil
}

// turn gives the links to a system.
func (c *comparison) turn(system *contestant) error { return c.rack.Ordinary(system.peer()) }

// round is one turn of a system: it warms up, and then counts. It returns the median.
func (c *comparison) round(ctx context.Context, system *contestant, round int) (time.Duration, error) {
	s := system.session
	warmup, count := s.task.options.warmup, s.task.count
	c.progress.Step(fmt.Sprintf("%d workers, %s, %.4g MB, round %d of %d: %s", c.place.workers, &c.place.rate, float64(s.task.size)/1e6, round+1, c.options.rounds, system.name), warmup+count)
	if err := c.turn(system); err != nil {
		return 0, err
	}
	first := round * (warmup + count)
	if _, _, err := s.iterate(ctx, first, warmup, 0); err != nil {
		return 0, err
	}
	times, _, err := s.iterate(ctx, first+warmup, count, 0)
	if err != nil {
		return 0, err
	}
	return percentile(slices.Sorted(slices.Values(times)), 0.50), nil
}
