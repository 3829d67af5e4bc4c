package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"spillway/loadtest/rack"
)

const (
	// batchBytes is the most memory for the tensors of a batch, at each worker.
	batchBytes = 64 << 20
	// A start is announced so long before, for all workers to be up and waiting.
	noticeBase, noticeEach = time.Millisecond, 100 * time.Microsecond
)

// A session is a rack with a crew that is ready to all-reduce.
type session struct {
	options  *runOptions
	rack     *rack.Rack
	crew     *crew
	progress *Progress
	batch    int
	report   *Report
}

// measure builds the rack, runs all iterations and returns the report. Nothing is
// left of it, whatever it returns.
func measure(ctx context.Context, o *runOptions, s streams, progress *Progress) (report *Report, err error) {
	config := o.rack()
	if err := rack.Preflight(config); err != nil {
		return nil, err
	}
	progress.Step("building the rack", 0)
	r, err := rack.New(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.AddJob(o.job()); err != nil {
		return nil, err
	}
	expected, err := newSharedTensor(o.tensorElements())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, expected.close()) }()
	if err := expect(ctx, o, 0, expected, progress); err != nil {
		return nil, err
	}
	c, err := newCrew(r, s, []string{"worker"}, expected.file)
	if err != nil {
		return nil, err
	}
	m := &session{options: o, rack: r, crew: c, progress: progress, report: newReport(o, r)}
	m.batch = int(min(max(batchBytes/int64(o.size), 1), int64(max(o.iterations, o.warmup))))
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	return m.report, m.iterate(ctx)
}

// begin makes the workers join the job.
func (m *session) begin(ctx context.Context) error {
	m.progress.Step("starting the workers", 0)
	_, err := m.crew.ask(ctx, func(rank int) any {
		return setup{
			Params:   m.rack.Params(m.options.job(), rank),
			Type:     m.options.dtype,
			Elements: m.options.tensorElements(),
			Seed:     m.options.seed,
			Batch:    m.batch,
		}
	})
	return err
}

// iterate warms up, measures, and completes the report.
func (m *session) iterate(ctx context.Context) error {
	o := m.options
	m.progress.Step("warming up", o.warmup)
	if _, err := m.reduce(ctx, 0, o.warmup); err != nil {
		return err
	}
	before, err := m.crew.tell(ctx, order{Do: orderStats})
	if err != nil {
		return err
	}
	m.progress.Step("all-reducing", o.iterations)
	times, err := m.reduce(ctx, o.warmup, o.iterations)
	if err != nil {
		return err
	}
	after, err := m.crew.tell(ctx, order{Do: orderStats})
	if err != nil {
		return err
	}
	for rank := range after {
		m.report.Workers = append(m.report.Workers, *after[rank].Stats)
		m.report.Retransmissions += after[rank].Stats.Retransmissions - before[rank].Stats.Retransmissions
	}
	m.report.setTimes(times)
	return m.report.setCounters(m.rack)
}

// reduce does the iterations [first, first+count) and returns their times.
func (m *session) reduce(ctx context.Context, first, count int) ([]time.Duration, error) {
	var times []time.Duration
	for count > 0 {
		batch := min(count, m.batch)
		spans, err := m.reduceBatch(ctx, first, batch)
		if err != nil {
			return nil, fmt.Errorf("iterations %d to %d: %w", first, first+batch-1, err)
		}
		times = append(times, spans...)
		first, count = first+batch, count-batch
	}
	return times, nil
}

// reduceBatch does a batch in a row, between filling the tensors in and checking them.
func (m *session) reduceBatch(ctx context.Context, first, count int) ([]time.Duration, error) {
	if _, err := m.crew.tell(ctx, order{Do: orderFill, First: first, Count: count}); err != nil {
		return nil, err
	}
	now, err := monotonic()
	if err != nil {
		return nil, err
	}
	notice := noticeBase + noticeEach*time.Duration(m.options.workers)
	answers, err := m.crew.tell(ctx, order{Do: orderStart, At: now + int64(notice)})
	if err != nil {
		return nil, err
	}
	checked, err := m.crew.tell(ctx, order{Do: orderCheck})
	if err != nil {
		return nil, err
	}
	for _, a := range checked {
		m.report.Wrong = append(m.report.Wrong, a.Wrong...)
	}
	m.progress.Advance(count)
	return durations(answers, count)
}

// durations are from the first worker's start to the last one's end.
func durations(answers []answer, count int) ([]time.Duration, error) {
	times := make([]time.Duration, count)
	for i := range times {
		start, end := int64(0), int64(0)
		for rank, a := range answers {
			if len(a.Spans) != count {
				return nil, fmt.Errorf("worker %d reports %d all-reduces of %d", rank, len(a.Spans), count)
			}
			s := a.Spans[i]
			if rank == 0 || s.Start < start {
				start = s.Start
			}
			end = max(end, s.End)
		}
		times[i] = time.Duration(end - start)
	}
	return times, nil
}
