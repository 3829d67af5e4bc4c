package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spillway/loadtest/train"
)

const (
	// stragglerWork stands for an accelerator's time in each step: eight workers that computed on the cores of one machine would slow each other.
	stragglerWork = 20 * time.Millisecond
	// stragglerEvery steps have one pause, of stragglerFactor undisturbed steps.
	stragglerEvery  = 20
	stragglerFactor = 10
	// After stragglerAfter a chunk need not wait any more, and the straggler may be behind by stragglerLag chunks.
	stragglerAfter = 5 * time.Millisecond
	stragglerLag   = 3838
	// stragglerSize in bytes: tensors of a step, so that a pause is less than the lag.
	stragglerSize = 64_000
	// accuracyMargin is by how much of all test rows a training under a quorum may be worse.
	accuracyMargin = 0.01
)

func stragglerScenarios() []Scenario {
	return []Scenario{{
		Name:    "straggler",
		Summary: "one of eight workers pauses at random for ten times the step time: quorum 7, wait for all, and none slow, compared",
		Story: "Three runs: no worker is slow; the last rank pauses, once in " + fmt.Sprint(stragglerEvery) + " steps, for " + fmt.Sprint(stragglerFactor) + " undisturbed steps, and the job waits for all; the same pauses, and the job has a quorum of all\n" +
			"but one after " + stragglerAfter.String() + ". Before each step a worker is busy for " + stragglerWork.String() + ", as if an accelerator computed; one that the last result lacks altogether leaves that out, to catch up. Each sum must be\n" +
			"exactly that of the ranks that it says are in it, and a straggler must get back what was missed of it. Then the demo's training three times, likewise, with residuals under the quorum: all workers must end with\n" +
			"the same weights, and the quorum's accuracy may be a point less at most.\n" +
			"Last the three runs through a ToR with memory for a quarter of the chunks in flight, whose slots are looked at all the time.\n\n" +
			"figures: steps_per_s of each run, from its first start until all but the straggler have done the last step; accuracy of each training; steps that lacked somebody; tor_slots_held, the mean over time and the most of the ToR's\n" +
			"slots that held an incomplete sum, and tor_slot_ms_per_step. --count is the number of pauses in each run; --size is not used.",
		Clock: "of each pause under the quorum, the time of the longest step at the other workers that was in flight in it, less the undisturbed median", Simulated: "make sim (TestQuorumSeeds)",
		workers: 8, measure: compareStragglers,
	}}
}

// stragglerRun is one of the runs that are compared.
type stragglerRun struct {
	name     string
	pauses   bool
	quorum   bool
	tor      bool // whose slots are watched
	training *train.Config
}

// compareStragglers makes all runs.
func compareStragglers(ctx context.Context, c *campaign) error {
	c.options.Size = stragglerSize
	config := train.Default(c.options.Workers)
	var step time.Duration
	accuracy := map[string]float64{}
	for _, run := range []stragglerRun{
		{name: "none_slow"}, {name: "wait", pauses: true}, {name: "quorum", pauses: true, quorum: true},
		{name: "training_none_slow", training: &config}, {name: "training_wait", pauses: true, training: &config},
		{name: "training_quorum", pauses: true, quorum: true, training: &config},
		{name: "tor_none_slow", tor: true}, {name: "tor_wait", pauses: true, tor: true}, {name: "tor_quorum", pauses: true, quorum: true, tor: true},
	} {
		result, err := c.straggle(ctx, run, step)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			c.report.fail("%s: %v", run.name, err)
			return nil
		}
		if step == 0 {
			step = result.median
			c.report.UndisturbedMS = milliseconds(step)
		}
		switch {
		case run.tor:
			c.report.hold(strings.TrimPrefix(run.name, "tor_"), result)
		case run.training == nil:
			c.report.figure("steps_per_s_"+run.name, result.rate)
		default:
			accuracy[run.name] = result.accuracy
			c.report.figure("accuracy_"+run.name, result.accuracy)
		}
		if run.quorum {
			c.report.figure(run.name+"_steps_without_somebody", float64(result.missed))
		}
		for _, took := range result.longest {
			if run.quorum && run.training == nil && !run.tor {
				c.report.survive(max(0, took-step))
			}
		}
		c.options.progress("straggler, %s: %.1f steps/s", run.name, result.rate)
	}
	if waited, released := accuracy["training_wait"], accuracy["training_quorum"]; released < waited-accuracyMargin {
		c.report.fail("accuracy %.4f under the quorum, more than a point less than %.4f", released, waited)
	}
	return nil
}

// stragglerResult is what a run gave.
type stragglerResult struct {
	rate, accuracy float64
	median         time.Duration
	longest        []time.Duration // step of the others in each pause
	steps          int
	held           []HeldSlots // of the ToR, while they ran
	missed         int         // steps that lacked elements of somebody
}

// straggle makes one run; pauses are of so many times a step.
func (c *campaign) straggle(ctx context.Context, run stragglerRun, step time.Duration) (result stragglerResult, err error) {
	s, err := newStage(ctx, c.options, needs{quorum: run.quorum, tor: run.tor}, c.rng)
	if err != nil {
		return result, err
	}
	defer func() {
		err = errors.Join(err, s.close())
		c.report.WrongSums += s.wrong
		c.report.Steps += s.complete
	}()
	slow := c.options.Workers - 1
	paceOf := func(rank int) *pace {
		p := &pace{Work: stragglerWork, Seed: c.options.Seed}
		if run.training != nil {
			p.Work = 0 // it computes
		}
		if run.pauses && rank == slow {
			p.Every, p.Pause = stragglerEvery, stragglerFactor*step
		}
		return p
	}
	crew, err := s.newPacedCrew(ctx, run.training, nil, paceOf)
	s.replace(crew)
	if err != nil {
		return result, err
	}
	steps := c.options.Count * stragglerEvery
	if run.training != nil {
		steps = forever
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.Deadline+10*time.Duration(min(steps, 1000))*max(step, stragglerWork), errors.New("the run did not come to its end in time"))
	defer cancel()
	if run.tor {
		stop := watchSlots(ctx, s.rack)
		defer func() {
			held, failed := stop()
			result.held, err = held, errors.Join(err, failed)
		}()
	}
	if err := crew.permit(steps); err != nil {
		return result, err
	}
	if run.training != nil {
		err = crew.awaitEpochs(ctx, run.training.Epochs)
	} else {
		err = crew.awaitSteps(ctx, steps)
	}
	if err != nil {
		return result, err
	}
	crew.mu.Lock()
	defer crew.mu.Unlock()
	if run.training != nil {
		for rank := range crew.workers {
			if crew.weights[rank] != crew.weights[0] {
				return result, fmt.Errorf("rank %d ends with weights %.16s, rank 0 with %.16s", rank, crew.weights[rank], crew.weights[0])
			}
		}
		result.accuracy = float64(crew.correct[0][0]) / float64(crew.correct[0][1])
	}
	result.judge(crew, slow, paceOf(slow))
	return result, nil
}

// judge computes figures from the steps; crew.mu is held.
func (r *stragglerResult) judge(c *crew, slow int, p *pace) {
	var times []time.Duration
	began, ended := c.all[0].start, int64(0)
	for i := range c.complete {
		step := &c.all[i]
		others := slices.Max(slices.Concat(step.ends[:slow], step.ends[slow+1:]))
		if i > 0 {
			times = append(times, time.Duration(others-ended))
		}
		if p.pauses(i) {
			r.longest = append(r.longest, 0)
		}
		if len(r.longest) > 0 && i > 0 { // steps of the others while the straggler paused, and until it paused again
			r.longest[len(r.longest)-1] = max(r.longest[len(r.longest)-1], time.Duration(others-ended))
		}
		if step.missed > 0 {
			r.missed++
		}
		ended = others
	}
	slices.Sort(times)
	r.median, r.steps = percentile(times, 0.50), c.complete
	r.rate = float64(c.complete) / time.Duration(ended-began).Seconds()
}

// hold notes how long a run held slots of the ToR.
func (r *Report) hold(run string, result stragglerResult) {
	mean, most := meanHeld(result.held)
	r.figure("tor_slots_held_mean_"+run, mean)
	r.figure("tor_slots_held_most_"+run, most)
	if n := len(result.held); n > 0 && result.steps > 0 {
		r.figure("tor_slot_ms_per_step_"+run, mean*(result.held[n-1].AtMS-result.held[0].AtMS)/float64(result.steps))
	}
	if r.TorSlotsHeld == nil {
		r.TorSlotsHeld = map[string][]HeldSlots{}
	}
	r.TorSlotsHeld[run] = result.held
}
