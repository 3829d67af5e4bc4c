package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"spillway/loadtest/rack"
)

// A crew is the worker processes of a job.
type crew struct {
	processes []*rack.Process
	members   []member // whom questions are put to, by rank: the processes, or ranks that one process has started
}

// A member is asked in lines of JSON, and says why it ended if it has: its error wraps rack.ErrEnded.
type member interface {
	Send(v any) error
	Receive(ctx context.Context, v any) error
}

// newCrew starts a process at each of these workers of the rack, in the order of the job's ranks, or at all if nil; the rack's Close stops them.
// Args are the command that they are of this program, files what they inherit.
func newCrew(r *rack.Rack, s streams, hosts []int, args []string, files ...*os.File) (*crew, error) {
	c := &crew{}
	if hosts == nil {
		for host := range r.Workers() {
			hosts = append(hosts, host)
		}
	}
	for _, host := range hosts {
		p, err := r.StartWorker(host, rack.Command{Args: args, Files: files, Stderr: s.err})
		if err != nil {
			return nil, err
		}
		c.add(p)
	}
	return c, nil
}

// add takes in a process that answers for itself.
func (c *crew) add(p *rack.Process) {
	c.processes, c.members = append(c.processes, p), append(c.members, p)
}

// ask puts a question to all and returns the answers by rank. That a worker's
// collective failed is an error, which names the ranks.
func (c *crew) ask(ctx context.Context, question func(rank int) any) ([]answer, error) {
	for rank, p := range c.members {
		if err := p.Send(question(rank)); err != nil {
			return nil, c.explain(ctx, p, err)
		}
	}
	answers := make([]answer, len(c.members))
	// When one process has ended there is no use in waiting for the others' collectives to fail.
	listening, ctx := errgroup.WithContext(ctx)
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	for rank, p := range c.members {
		listening.Go(func() error {
			if err := p.Receive(ctx, &answers[rank]); err != nil {
				return err
			}
			if answers[rank].Error != "" {
				time.AfterFunc(lastWords, func() { giveUp(errNoAnswer) })
			}
			return nil
		})
	}
	if err := listening.Wait(); err != nil {
		return nil, errors.Join(failures(answers), err)
	}
	return answers, failures(answers)
}

// lastWords is how much longer than the first one whose collective failed the others may take to
// answer: their time of silence began at about the same moment, unless they hang.
const lastWords = 3 * time.Second

var errNoAnswer = errors.New("no answer, while the collective failed elsewhere")

// failures is an error that says what failed at which ranks; nil if nothing did.
func failures(answers []answer) error {
	failed := map[string][]string{}
	var said []string
	for rank, a := range answers {
		if a.Error != "" {
			if failed[a.Error] == nil {
				said = append(said, a.Error)
			}
			failed[a.Error] = append(failed[a.Error], fmt.Sprint(rank))
		}
	}
	var all []error
	for _, message := range said {
		all = append(all, fmt.Errorf("all-reduce at rank %s: %s", strings.Join(failed[message], ", "), message))
	}
	return errors.Join(all...)
}

// explain says how a process ended that could not be written to.
func (c *crew) explain(ctx context.Context, p member, err error) error {
	var last answer
	if ended := p.Receive(ctx, &last); errors.Is(ended, rack.ErrEnded) {
		return ended
	}
	return err
}

// tell is ask with the same order for everybody.
func (c *crew) tell(ctx context.Context, o order) ([]answer, error) {
	return c.ask(ctx, func(int) any { return o })
}
