package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"spillway/loadtest/rack"
	"spillway/worker"
)

// A session is a job whose workers are ready to all-reduce.
type session struct {
	task     *task
	rack     *rack.Rack
	crew     *crew
	progress *Progress

	before, after []worker.Stats // by rank, of before and after what is measured
	levels        levels         // what was counted in between
	times         []time.Duration
	completion    time.Duration // from the job's start to its last result, without the checks between
	wrong         []wrong
	lateness      []Lateness
	partial       int     // iterations whose result lacks somebody
	missed        float64 // elements of workers that are in no result, of all
	filled        int     // tensors that are ready for the first batch
	homeBefore    map[string]uint64
	torBefore     rack.TorCounters
}

// begin makes the workers join the job.
func (s *session) begin(ctx context.Context) error {
	t := s.task
	invitations, err := s.rack.Invite(t.job())
	if err != nil {
		return err
	}
	_, err = s.crew.ask(ctx, func(rank int) any {
		return setup{
			Invitation: invitations[rank],
			Type:       t.options.dtype,
			Elements:   t.tensorElements(),
			Seed:       t.seed(),
			Batch:      t.batch(),
			Pause:      t.pause(rank),
			Chance:     float64(t.options.chance),
			Quorum:     t.options.quorum != 0,
			Transport:  worker.Transport(t.options.transport),
			BusyPoll:   t.options.busyPoll,
		}
	})
	return s.named(err)
}

// warmUp does the iterations that do not count.
func (s *session) warmUp(ctx context.Context) error {
	_, _, err := s.iterate(ctx, 0, s.task.options.warmup, 0)
	return s.named(err)
}

// prepare reads all counters, and fills in the first batch.
func (s *session) prepare(ctx context.Context) (err error) {
	if s.before, err = s.stats(ctx); err != nil {
		return s.named(err)
	}
	if s.homeBefore, s.torBefore, err = s.rack.Counters(ctx, s.task.job().Name); err != nil {
		return err
	}
	s.filled = min(s.task.count, s.task.batch())
	return s.named(s.fill(ctx, s.task.options.warmup, s.filled))
}

// measure does the iterations that count, from a moment on.
func (s *session) measure(ctx context.Context, at int64) (err error) {
	s.times, s.completion, err = s.iterate(ctx, s.task.options.warmup, s.task.count, at)
	return s.named(err)
}

// finish reads the counters again.
func (s *session) finish(ctx context.Context) (err error) {
	if s.after, err = s.stats(ctx); err != nil {
		return s.named(err)
	}
	home, tor, err := s.rack.Counters(ctx, s.task.job().Name)
	if err != nil {
		return err
	}
	s.levels = newLevels(tor, s.torBefore, home, s.homeBefore)
	if s.lateness, err = readLateness(ctx, s.rack, s.task.job().Name); err != nil {
		return err
	}
	return nil
}

func (s *session) stats(ctx context.Context) ([]worker.Stats, error) {
	answers, err := s.crew.tell(ctx, order{Do: orderStats})
	if err != nil {
		return nil, err
	}
	all := make([]worker.Stats, len(answers))
	for rank, a := range answers {
		all[rank] = *a.Stats
	}
	return all, nil
}

// named says which job an error is of, if there are several.
func (s *session) named(err error) error {
	if err == nil || len(s.task.options.tasks()) == 1 {
		return err
	}
	return fmt.Errorf("job %s: %w", s.task.name, err)
}

func (s *session) fill(ctx context.Context, first, count int) error {
	_, err := s.crew.tell(ctx, order{Do: orderFill, First: first, Count: count})
	return err
}

// iterate does the iterations [first, first+count), the first batch of them at a moment, or soon if that is 0. It returns their
// times, and how long all took: each batch from when it was to begin until the slowest worker was done.
func (s *session) iterate(ctx context.Context, first, count int, at int64) (times []time.Duration, took time.Duration, err error) {
	for count > 0 {
		batch := min(count, s.task.batch())
		more, length, err := s.iterateBatch(ctx, first, batch, at)
		if err != nil {
			return nil, 0, fmt.Errorf("iterations %d to %d: %w", first, first+batch-1, err)
		}
		times, took = append(times, more...), took+length
		first, count, at = first+batch, count-batch, 0
	}
	return times, took, nil
}

// iterateBatch does a batch in a row, between filling the tensors in, unless they are, and checking them.
func (s *session) iterateBatch(ctx context.Context, first, count int, at int64) ([]time.Duration, time.Duration, error) {
	if s.filled != count {
		if err := s.fill(ctx, first, count); err != nil {
			return nil, 0, err
		}
	}
	s.filled = 0
	if at == 0 {
		now, err := monotonic()
		if err != nil {
			return nil, 0, err
		}
		at = now + int64(noticeBase+noticeEach*time.Duration(s.task.workers()))
	}
	answers, err := s.crew.tell(ctx, order{Do: orderStart, At: at})
	if err != nil {
		return nil, 0, err
	}
	checked, err := s.crew.tell(ctx, order{Do: orderCheck})
	if err != nil {
		return nil, 0, err
	}
	for _, a := range checked {
		for _, w := range a.Wrong {
			w.Job = s.task.name
			s.wrong = append(s.wrong, w)
		}
	}
	if s.task.options.quorum != 0 {
		s.compare(checked, first, count)
	}
	s.progress.Advance(count)
	return durations(answers, count, at, s.task.options.quorum)
}

// durations are from the first worker's start to the last one's end, or that of the quorum's last; the last one is of all of them, from the moment they were to begin.
func durations(answers []answer, count int, at int64, quorum int) ([]time.Duration, time.Duration, error) {
	times := make([]time.Duration, count)
	var last int64
	if quorum == 0 {
		quorum = len(answers)
	}
	for i := range times {
		start, ends := int64(0), []int64{}
		for rank, a := range answers {
			if len(a.Spans) != count {
				return nil, 0, fmt.Errorf("worker %d reports %d all-reduces of %d", rank, len(a.Spans), count)
			}
			s := a.Spans[i]
			if rank == 0 || s.Start < start {
				start = s.Start
			}
			ends = append(ends, s.End)
		}
		slices.Sort(ends)
		end := ends[quorum-1]
		times[i], last = time.Duration(end-start), max(last, end)
	}
	return times, time.Duration(last - at), nil
}
