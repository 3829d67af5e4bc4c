package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"spillway/loadtest/rack"
	"spillway/loadtest/train"
)

// A crew is the worker processes of a job, and what they have said.
type crew struct {
	*steps
	processes []*rack.Process
	listening sync.WaitGroup
}

// newCrew starts the job's workers, who join and wait for a permit.
func (s *stage) newCrew(ctx context.Context, training *train.Config, hashes []string) (*crew, error) {
	return s.newPacedCrew(ctx, training, hashes, nil)
}

// newPacedCrew is newCrew with workers that do something beside, each by its rank; nil: none does.
func (s *stage) newPacedCrew(ctx context.Context, training *train.Config, hashes []string, paceOf func(rank int) *pace) (*crew, error) {
	invitations, err := s.rack.Invite(s.job)
	if err != nil {
		return nil, err
	}
	c := &crew{steps: newSteps(len(invitations), hashes)}
	for rank, invitation := range invitations {
		a := assignment{Invitation: invitation, Quorum: s.job.Quorum != 0}
		if paceOf != nil {
			a.Pace = paceOf(rank)
		}
		if training != nil {
			config := *training
			config.Rank = rank
			a.Training = &config
		} else {
			a.Pattern = &s.pattern
		}
		p, err := s.rack.StartWorker(rank, rack.Command{Args: []string{WorkerCommand}, Stderr: s.stderr()})
		if err != nil {
			return nil, err
		}
		c.processes = append(c.processes, p)
		if err := p.Send(a); err != nil {
			return nil, err
		}
		c.listening.Go(func() { c.listen(rank, p) })
	}
	err = c.await(ctx, "all workers to join", func() bool { return c.joined == c.workers })
	return c, err
}

// listen takes what a worker says until it ends.
func (c *crew) listen(rank int, p *rack.Process) {
	for {
		var a account
		if err := p.Receive(context.Background(), &a); err != nil {
			c.mu.Lock()
			_, said := c.errors[rank]
			c.mu.Unlock()
			if !said {
				c.take(rank, account{Error: err.Error()})
			}
			return
		}
		c.take(rank, a)
	}
}

// permit lets all do the steps before until.
func (c *crew) permit(until int) error {
	var all []error
	for _, p := range c.processes {
		all = append(all, p.Send(permit{until}))
	}
	return errors.Join(all...)
}

// forever is more steps than anybody does.
const forever = 1 << 40

// stop ends the processes in order, and waits for them.
func (c *crew) stop() error {
	c.expectFailures()
	all := make([]error, len(c.processes))
	var stopping sync.WaitGroup
	for rank, p := range c.processes {
		stopping.Go(func() { all[rank] = p.Stop() })
	}
	stopping.Wait()
	c.listening.Wait()
	return errors.Join(all...)
}

// expectFailures takes errors of workers for what is to be: nobody's wait ends with them.
func (c *crew) expectFailures() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for rank := range c.processes {
		c.ended[rank] = true
	}
}

// kill ends a worker without warning.
func (c *crew) kill(rank int) { c.processes[rank].Kill() }

// stderr is where the processes of a stage say what they have to say beside: failures are reported by themselves, so the workers' and the daemons' warnings,
// of which a fault makes many, are only for those who want them.
func (s *stage) stderr() io.Writer {
	if s.options.Verbose {
		return s.options.Stderr
	}
	return io.Discard
}

// checkWeights reports whether all ranks have the weights that they must have after a training.
func (c *crew) checkWeights(want string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for rank := range c.workers {
		if got := c.weights[rank]; got != want {
			return fmt.Errorf("rank %d ends with weights %.16s, not %.16s", rank, got, want)
		}
	}
	return nil
}
