package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"spillway/loadtest/rack"
	"spillway/loadtest/train"
	"spillway/worker"
)

// demoOrder is what a worker process of the demo is told, in its first line of input.
type demoOrder struct {
	Invitation rack.Invitation `json:"invitation"`
	Training   train.Config    `json:"training"`
}

// demoReport is one line of what it answers: an epoch, or at last its statistics or why it failed.
type demoReport struct {
	Epoch *train.Epoch  `json:"epoch,omitempty"`
	Stats *worker.Stats `json:"stats,omitempty"`
	Error string        `json:"error,omitempty"`
}

// demoWorkerCommand is a worker process of the demo; it is started in a worker's namespace.
func demoWorkerCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:   "demo-worker",
		Usage:  "one worker of the demo: takes its order on stdin, trains, and reports on stdout",
		Hidden: true,
		Action: func(c *cli.Context) error {
			reports := json.NewEncoder(s.out)
			err := demoWork(c.Context, bufio.NewReader(s.in), reports)
			if err == nil {
				return nil
			}
			// The parent says what went wrong; only if it cannot be told is it this process's to say.
			if reports.Encode(demoReport{Error: err.Error()}) != nil {
				return err
			}
			return nil
		},
	}
}

// demoWork trains as the order says. It ends early when the input does, which means that the parent has gone.
func demoWork(ctx context.Context, in *bufio.Reader, reports *json.Encoder) (err error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the order from stdin: %w (this command is for `spill-load demo` to start)", err)
	}
	var order demoOrder
	if err := json.Unmarshal(line, &order); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with the process: a read of stdin cannot be called off
		_, err := in.ReadByte()
		cancel(fmt.Errorf("the input ended: %w", err))
	}()

	w, err := order.Invitation.Join(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	err = train.Run(ctx, order.Training, w.AllReduce, func(e train.Epoch) error {
		return reports.Encode(demoReport{Epoch: &e})
	})
	if err != nil {
		return err
	}
	stats := w.Stats()
	if err := reports.Encode(demoReport{Stats: &stats}); err != nil {
		return err
	}
	<-ctx.Done() // until the parent lets go: another worker may still need a result that this one has
	return nil
}
