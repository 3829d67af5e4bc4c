package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"spillway/wire"
	"spillway/worker"
)

// expectedDescriptor is the first descriptor that a process inherits beyond its streams.
const expectedDescriptor = 3

// workerCommand is the worker process that `run` starts: it is spoken to over
// stdin and stdout (exchange.go) and ends when its stdin does.
func workerCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:   "worker",
		Usage:  "a worker process of `run`, which starts it",
		Hidden: true,
		Action: func(c *cli.Context) error { return runWorker(c.Context, s.in, s.out) },
	}
}

// A participant is the state of a worker process.
type participant struct {
	setup    setup
	pattern  pattern
	worker   *worker.Worker
	expected *sharedTensor
	floats   [][]float32 // one tensor for each all-reduce in a row
	ints     [][]int32
	first    int // the iteration of the first tensor
	count    int
	outcomes []worker.Outcome // of a job with a quorum, by tensor
}

// runWorker is the process's life.
func runWorker(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers := json.NewEncoder(out)
	questions := json.NewDecoder(in)
	var w participant
	if err := questions.Decode(&w.setup); err != nil {
		return fmt.Errorf("read the setup from stdin: %w (this command is for `spill-load run` to start)", err)
	}
	if err := w.join(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.worker.Close(), w.expected.close()) }()
	if err := answers.Encode(answer{}); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	orders := make(chan order)
	go func() { // ends with stdin, or with the process
		defer close(orders)
		for {
			var o order
			if err := questions.Decode(&o); err != nil {
				cancel(fmt.Errorf("stdin ended: %w", err))
				return
			}
			orders <- o
		}
	}()
	for o := range orders {
		a, err := w.obey(ctx, o)
		if err != nil {
			return err
		}
		if err := answers.Encode(a); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
	return nil
}

func (w *participant) join(ctx context.Context) (err error) {
	invitation := w.setup.Invitation
	w.pattern = pattern{seed: w.setup.Seed, rank: invitation.Rank, workers: invitation.Workers}
	for range w.setup.Batch {
		if w.setup.Type == typeInt32 {
			w.ints = append(w.ints, make([]int32, w.setup.Elements))
		} else {
			w.floats = append(w.floats, make([]float32, w.setup.Elements))
		}
	}
	if w.expected, err = openSharedTensor(expectedDescriptor, w.setup.Elements); err != nil {
		return err
	}
	w.worker, err = invitation.Join(ctx, worker.WithTransport(w.setup.Transport), worker.WithBusyPoll(w.setup.BusyPoll))
	return err
}

// obey does what an order says. An error of the collective is part of the answer.
func (w *participant) obey(ctx context.Context, o order) (answer, error) {
	if o.Count > w.setup.Batch {
		return answer{}, fmt.Errorf("%d all-reduces in a row, at most %d were announced", o.Count, w.setup.Batch)
	}
	switch o.Do {
	case orderFill:
		w.first, w.count = o.First, o.Count
		w.fill()
		return answer{}, nil
	case orderStart:
		return w.start(ctx, o.At)
	case orderCheck:
		if w.setup.Quorum {
			return w.checkQuorum()
		}
		return answer{Wrong: w.check()}, nil
	case orderStats:
		stats := w.worker.Stats()
		return answer{Stats: &stats}, nil
	}
	return answer{}, fmt.Errorf("unknown order %q", o.Do)
}

func (w *participant) fill() {
	for i := range w.count {
		if w.floats != nil {
			w.pattern.fillFloat32(w.floats[i], 0, w.first+i)
		} else {
			w.pattern.fillInt32(w.ints[i], 0, w.first+i)
		}
	}
}

// start all-reduces the tensors one after the other, from a time that all workers were told.
func (w *participant) start(ctx context.Context, at int64) (answer, error) {
	if err := waitUntil(ctx, at); err != nil {
		return answer{}, err
	}
	a := answer{Spans: make([]span, w.count)}
	for i := range a.Spans {
		if pause := w.pause(w.first + i); pause > 0 {
			now, err := monotonic()
			if err != nil {
				return answer{}, err
			}
			if err := waitUntil(ctx, now+int64(pause)); err != nil {
				return answer{}, err
			}
		}
		var err error
		if a.Spans[i].Start, err = monotonic(); err != nil {
			return answer{}, err
		}
		if err := w.allReduce(ctx, i); err != nil {
			if ctx.Err() != nil {
				return answer{}, context.Cause(ctx)
			}
			return answer{Error: err.Error()}, nil
		}
		if a.Spans[i].End, err = monotonic(); err != nil {
			return answer{}, err
		}
	}
	return a, nil
}

// waitUntil waits for a moment of the monotonic clock, in ns.
func waitUntil(ctx context.Context, at int64) error {
	now, err := monotonic()
	if err != nil {
		return err
	}
	moment := time.NewTimer(time.Duration(at - now))
	defer moment.Stop()
	select {
	case <-moment.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *participant) allReduce(ctx context.Context, i int) error {
	if w.setup.Quorum {
		return w.allReduceQuorum(ctx, i)
	}
	if w.floats != nil {
		return w.worker.AllReduce(ctx, w.floats[i])
	}
	return w.worker.AllReduceInt32(ctx, w.ints[i], wire.Sum)
}

// check compares the results with what they must be.
func (w *participant) check() []wrong {
	var all []wrong
	for i := range w.count {
		iteration, at := w.first+i, 0
		if w.floats != nil {
			at = wrongFloat32(w.floats[i], w.expected.float32s(), iteration)
		} else {
			at = w.pattern.wrongInt32(w.ints[i], w.expected.int32s(), iteration)
		}
		if at >= 0 {
			all = append(all, wrong{Rank: w.pattern.rank, Iteration: iteration, Element: at})
		}
	}
	return all
}
