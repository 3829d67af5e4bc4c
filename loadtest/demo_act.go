package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"spillway/loadtest/faults"
	"spillway/loadtest/rack"
	"spillway/loadtest/train"
	"spillway/worker"
	"spillway/xdp"
)

// demoAct is one training run on a rack of its own.
type demoAct struct {
	name     string
	training train.Config
	faults   faults.Rates
	log      *slog.Logger
}

// demoResult is what an act leaves to be judged and told.
type demoResult struct {
	took   time.Duration
	last   []train.Epoch // of each rank
	stats  []worker.Stats
	mode   xdp.Mode
	levels levels
	faults faults.Counters
}

// rackConfig is the rack that the act plays on.
func (a *demoAct) rackConfig(s streams) rack.Config {
	return rack.Config{
		Workers: a.training.Workers, Elements: demoElements, Rate: demoRate, Faults: a.faults, Log: a.log,
		Tor:    rack.Tor{Kind: rack.TorSoft, Slots: demoSlots, Command: torProcess(s)},
		Daemon: daemonProcess(s),
	}
}

// run builds the rack, trains, and takes the rack down again.
func (a *demoAct) run(ctx context.Context, s streams) (result *demoResult, err error) {
	r, err := rack.New(ctx, a.rackConfig(s))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	result = &demoResult{mode: r.Mode()}
	job := demoJob
	job.WireBits = a.training.WireBits
	if err := r.AddJob(ctx, job); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := a.train(ctx, r, result, s); err != nil {
		return nil, err
	}
	result.took = time.Since(began)
	home, tor, err := r.Counters(ctx, demoJob.Name)
	if err != nil {
		return nil, err
	}
	result.levels = newLevels(tor, rack.TorCounters{}, home, nil)
	result.faults, err = r.Faults()
	return result, err
}

// train starts the worker processes and collects what they report, a line for each epoch.
func (a *demoAct) train(ctx context.Context, r *rack.Rack, result *demoResult, s streams) error {
	c, err := newCrew(r, s, nil, []string{"demo-worker"})
	if err != nil {
		return err
	}
	invitations, err := r.Invite(demoJob)
	if err != nil {
		return err
	}
	for rank, p := range c.processes {
		order := demoOrder{Invitation: invitations[rank], Training: a.training}
		order.Training.Rank = rank
		if err := p.Send(order); err != nil {
			return err
		}
	}
	fmt.Fprintln(s.out, epochHeading)
	result.last, result.stats = make([]train.Epoch, len(c.processes)), make([]worker.Stats, len(c.processes))
	for range a.training.Epochs {
		reports, err := receiveAll(ctx, c.processes)
		if err != nil {
			return err
		}
		for rank, report := range reports {
			if report.Epoch == nil {
				return fmt.Errorf("worker %d did not report an epoch", rank)
			}
			result.last[rank] = *report.Epoch
		}
		fmt.Fprintln(s.out, epochLine(result.last))
	}
	reports, err := receiveAll(ctx, c.processes)
	if err != nil {
		return err
	}
	for rank, report := range reports {
		if report.Stats == nil {
			return fmt.Errorf("worker %d did not report its statistics", rank)
		}
		result.stats[rank] = *report.Stats
	}
	return nil
}

// receiveAll takes the next report of each process. The first that fails ends the wait for the others.
func receiveAll(ctx context.Context, processes []*rack.Process) ([]demoReport, error) {
	reports := make([]demoReport, len(processes))
	group, ctx := errgroup.WithContext(ctx)
	for rank, p := range processes {
		group.Go(func() error {
			if err := p.Receive(ctx, &reports[rank]); err != nil {
				return err
			}
			if reports[rank].Error != "" {
				return fmt.Errorf("worker %d: %s", rank, reports[rank].Error)
			}
			return nil
		})
	}
	return reports, group.Wait()
}
