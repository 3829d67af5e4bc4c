package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"spillway/loadtest/rack"
)

const (
	// batchBytes is the most memory for the tensors of a batch, at each worker.
	batchBytes = 64 << 20
	// A start is announced so long before, for all workers to be up and waiting.
	noticeBase, noticeEach = time.Millisecond, 100 * time.Microsecond
)

// measure builds the rack, runs all iterations of all jobs and returns the report. Nothing is
// left of it, whatever it returns.
func measure(ctx context.Context, o *runOptions, s streams, progress *Progress) (report *Report, err error) {
	config := o.rack(s)
	if err := rack.Preflight(config); err != nil {
		return nil, err
	}
	progress.Step("building the rack", 0)
	r, err := rack.New(ctx, config)
	if err != nil {
		return nil, err
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
	tasks := o.tasks()
	for i := range tasks {
		if err := r.AddJob(ctx, tasks[i].job()); err != nil {
			return nil, err
		}
	}
	m := &measurement{options: o, rack: r, progress: progress, report: newReport(o, r)}
	for i := range tasks {
		expected, err := newSharedTensor(tasks[i].tensorElements())
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, expected.close()) }()
		if err := expect(ctx, &tasks[i], 0, expected, progress); err != nil {
			return nil, err
		}
		c, err := newCrew(r, s, tasks[i].hosts, []string{"worker"}, expected.file)
		if err != nil {
			return nil, err
		}
		m.sessions = append(m.sessions, &session{task: &tasks[i], rack: r, crew: c, progress: progress})
	}
	return m.report, m.run(ctx)
}

// A measurement is a rack with the sessions of all its jobs.
type measurement struct {
	options  *runOptions
	rack     *rack.Rack
	sessions []*session
	progress *Progress
	report   *Report
}

// run warms up, measures, and completes the report. Between its steps all jobs wait for each other.
func (m *measurement) run(ctx context.Context) error {
	m.progress.Step("starting the workers", 0)
	if err := m.together(ctx, (*session).begin); err != nil {
		return err
	}
	m.progress.Step("warming up", m.options.warmup*len(m.sessions))
	if err := m.together(ctx, (*session).warmUp); err != nil {
		return err
	}
	if err := m.together(ctx, (*session).prepare); err != nil {
		return err
	}
	if err := m.reduce(ctx); err != nil {
		return err
	}
	if err := m.together(ctx, (*session).finish); err != nil {
		return err
	}
	for _, s := range m.sessions {
		m.report.addJob(s)
	}
	return m.report.setCounters(ctx, m.rack, m.sessions)
}

// together does a step of all sessions at once. The first that fails ends the others.
func (m *measurement) together(ctx context.Context, step func(*session, context.Context) error) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, s := range m.sessions {
		all.Go(func() error { return step(s, ctx) })
	}
	return all.Wait()
}

// reduce is what is measured: each job from its own start on, while the ToR is rebooted if it is to be.
func (m *measurement) reduce(ctx context.Context) error {
	total, workers := 0, 0
	for _, s := range m.sessions {
		total, workers = total+s.task.count, workers+s.task.workers()
	}
	m.progress.Step("all-reducing", total)
	now, err := monotonic()
	if err != nil {
		return err
	}
	begin := now + int64(noticeBase+noticeEach*time.Duration(workers))
	reducing, stop := context.WithCancelCause(ctx)
	var disturbing errgroup.Group
	for _, d := range m.disturbances() {
		disturbing.Go(func() error {
			err := d.run(ctx, reducing.Done())
			if err != nil {
				stop(err) // without a ToR nothing moves
			}
			return err
		})
	}
	err = m.together(reducing, func(s *session, ctx context.Context) error {
		return s.measure(ctx, begin+int64(s.task.start))
	})
	stop(nil)
	return errors.Join(err, disturbing.Wait())
}

// A disturbance is something that is killed and started again in the midst of reductions.
type disturbance struct {
	times int
	every time.Duration
	do    func(context.Context) error
	done  *int // in the report
}

// disturbances are those that are asked for. One does not wait for another.
func (m *measurement) disturbances() []disturbance {
	o := m.options
	return []disturbance{
		{o.torReboots, o.torRebootEvery, m.rack.RebootTor, &m.report.TorReboots},
		{o.daemonRestarts, o.daemonRestartEvery, m.rack.RestartDaemon, &m.report.DaemonRestarts},
	}
}

// run disturbs as often as it is asked for or until the reductions are done.
func (d *disturbance) run(ctx context.Context, done <-chan struct{}) error {
	if d.times == 0 {
		return nil
	}
	every := time.NewTicker(d.every)
	defer every.Stop()
	for *d.done < d.times {
		select {
		case <-done:
			return nil
		case <-every.C:
		}
		if err := d.do(ctx); err != nil {
			return err
		}
		*d.done++
	}
	return nil
}
