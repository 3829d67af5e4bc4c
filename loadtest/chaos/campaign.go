package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"spillway/loadtest/train"
)

const (
	// undisturbed steps come before the first fault, to know how long one takes.
	undisturbed = 20
	// after a fault so many steps must begin and complete.
	after = 3
	// A training has so many steps an epoch, one fault in each, and these epochs before the first and after the last.
	quietEpochs = 2
)

// A campaign is one run of a scenario.
type campaign struct {
	options  *Options
	scenario *Scenario
	rng      *rand.Rand
	report   *Report
	faults   []incident // of the crew

	training   *train.Config
	hashes     []string // of the training's sums
	weights    string   // at its end
	accuracy   [2]int
	epochSteps int
}

// Run runs a scenario. The report says what came of it; the error is only for what kept it from being run, or ended it early.
func Run(ctx context.Context, scenario *Scenario, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := &campaign{options: &o, scenario: scenario, rng: rand.New(rand.NewPCG(o.Seed, 5)), report: newReport(scenario, &o)}
	if scenario.measure != nil {
		err := scenario.measure(ctx, c)
		return c.report.finish(), err
	}
	if scenario.needs.training {
		if err := c.reference(ctx); err != nil {
			return nil, err
		}
	}
	for struck := 0; struck < o.Count; {
		n, err := c.perform(ctx, struck)
		struck += n
		if err != nil {
			return c.report.finish(), err
		}
	}
	return c.report.finish(), nil
}

// reference trains without a network, to know what each step must give.
func (c *campaign) reference(ctx context.Context) error {
	config := train.Default(c.options.Workers)
	config.Epochs = c.options.Count + 2*quietEpochs
	c.options.progress("%s: the same training of %d epochs without a network, to compare with", c.scenario.Name, config.Epochs)
	err := train.ReferenceSums(ctx, config, jobElements, func(sum []float32) error {
		c.hashes = append(c.hashes, hash(sum))
		return nil
	}, func(e train.Epoch) error {
		c.weights, c.accuracy, c.epochSteps = e.Weights, [2]int{e.TestCorrect, e.TestRows}, e.Steps
		return nil
	})
	if err != nil {
		return fmt.Errorf("the training to compare with: %w", err)
	}
	c.training = &config
	return nil
}

// perform builds a rack and strikes until all faults were made or one was not survived. It returns how many were made. The error is for what is
// nobody's failure but the campaign's own: it ends it.
func (c *campaign) perform(ctx context.Context, first int) (made int, err error) {
	s, err := newStage(ctx, c.options, c.scenario.needs, c.rng)
	if err != nil {
		return 0, err
	}
	defer func() {
		err = errors.Join(err, s.close())
		c.report.WrongSums += s.wrong
		c.report.Steps += s.complete
		if s.wrongAt != "" {
			c.report.fail("a wrong sum: %s", s.wrongAt)
		}
	}()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	go func() { // ends with the stage
		select {
		case err := <-s.rack.Failed():
			fail(err)
		case <-ctx.Done():
		}
	}()
	if err := c.begin(ctx, s); err != nil {
		return 0, err
	}
	for round := first; round < c.options.Count; round++ {
		made++
		took, err := c.round(ctx, s, round)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return made, cause
			}
			c.report.fail("fault %d: %v", round+1, err)
			c.options.progress("%s %d/%d: NOT survived: %v", c.scenario.Name, round+1, c.options.Count, err)
			if c.training != nil { // there is no going on without the weights
				return c.options.Count - first, nil
			}
			return made, nil
		}
		c.report.survive(took)
		c.options.progress("%s %d/%d: went on after %.1f ms", c.scenario.Name, round+1, c.options.Count, milliseconds(took))
	}
	if err := c.end(ctx, s); err != nil {
		c.report.fail("%v", err)
		c.report.WrongSums++
	}
	return made, nil
}

// begin starts the workers and lets them do some steps undisturbed.
func (c *campaign) begin(ctx context.Context, s *stage) error {
	began, err := s.newCrew(ctx, c.training, c.hashes)
	s.replace(began)
	if err != nil {
		return fmt.Errorf("start the workers: %w", err)
	}
	c.faults = nil
	quiet, until := undisturbed, forever
	if c.training != nil {
		quiet = quietEpochs * c.epochSteps
		until = quiet
	}
	if err := errors.Join(s.crew.permit(until), s.crew.awaitSteps(ctx, quiet)); err != nil {
		return fmt.Errorf("undisturbed steps: %w", err)
	}
	c.report.UndisturbedMS = milliseconds(s.crew.median(nil))
	c.options.progress("%s: %d workers reduce %d kB in %.1f ms a step, undisturbed", c.scenario.Name, c.options.Workers, s.kilobytes(c.training), c.report.UndisturbedMS)
	if c.scenario.prepare != nil {
		return c.scenario.prepare(ctx, s)
	}
	return nil
}

func (s *stage) kilobytes(training *train.Config) int {
	if training != nil {
		return training.Parameters() * elementSize / 1000
	}
	return s.pattern.Length * elementSize / 1000
}

// round makes one fault, waits until the job has gone on, and says how long that took.
func (c *campaign) round(ctx context.Context, s *stage, round int) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.Deadline, fmt.Errorf("the job did not go on within %v", c.options.Deadline))
	defer cancel()
	limit := forever
	if c.training != nil {
		limit = (quietEpochs + round + 1) * c.epochSteps
		if err := s.crew.permit(limit); err != nil {
			return 0, err
		}
	}
	// Some steps in between, and a moment within one.
	if err := s.crew.awaitSteps(ctx, s.crew.completed()+1+c.rng.IntN(3)); err != nil {
		return 0, err
	}
	median := s.crew.median(c.faults)
	if err := s.pause(ctx, median); err != nil {
		return 0, err
	}
	before := s.crew
	fault, err := c.scenario.strike(ctx, s)
	if err != nil {
		return 0, err
	}
	if s.crew != before { // a new crew has begun, as the scenario wanted it
		c.faults = nil
		return max(0, time.Duration(fault.recovered-fault.at)-median), nil
	}
	if fault.until == 0 {
		fault.until = monotonic()
	}
	err = s.crew.await(ctx, "the job to go on", func() bool { return s.crew.since(fault.until) >= after || s.crew.complete >= limit })
	if err != nil {
		return 0, err
	}
	c.faults = append(c.faults, fault)
	return max(0, s.crew.longest(fault)-median), nil
}

// end lets a training come to its end, and compares the weights.
func (c *campaign) end(ctx context.Context, s *stage) error {
	if c.training == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the training did not come to its end within a minute"))
	defer cancel()
	if err := s.crew.permit(forever); err != nil {
		return err
	}
	if err := s.crew.awaitEpochs(ctx, c.training.Epochs); err != nil {
		return err
	}
	c.report.Weights = c.weights
	return s.crew.checkWeights(c.weights)
}
