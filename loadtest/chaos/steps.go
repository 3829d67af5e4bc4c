package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A collective is one step over all workers.
type collective struct {
	start, end int64   // of the first worker and of the last, ns of the monotonic clock
	done       int     // at so many workers
	wrong      int     // results, by worker
	ends       []int64 // by rank
	missed     int     // workers that the result lacks elements of
}

// steps are all collectives of a crew. Safe for concurrent use.
type steps struct {
	workers int
	// hashes are what results must have, by step; nil where the workers compare by themselves.
	hashes []string

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when something below changes
	all      []collective
	complete int // steps that are done at all workers, from 0 on
	wrong    int
	wrongAt  string // the first
	errors   map[int]string
	ended    map[int]bool // ranks whose process was stopped on purpose
	epochs   map[int]int  // by rank, as weights
	weights  map[int]string
	correct  map[int][2]int // test rows that were right, of all
	joined   int
}

func newSteps(workers int, hashes []string) *steps {
	return &steps{workers: workers, hashes: hashes, changed: make(chan struct{}), errors: map[int]string{}, ended: map[int]bool{},
		epochs: map[int]int{}, weights: map[int]string{}, correct: map[int][2]int{}}
}

// take notes what a worker says.
func (s *steps) take(rank int, a account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case a.Joined:
		s.joined++
	case a.Error != "":
		s.errors[rank] = a.Error
	case a.Epoch != nil:
		s.epochs[rank], s.weights[rank] = a.Epoch.Epoch, a.Epoch.Weights
		s.correct[rank] = [2]int{a.Epoch.TestCorrect, a.Epoch.TestRows}
	case a.Step != nil:
		s.takeStep(rank, a.Step)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// takeStep is take; s.mu is held.
func (s *steps) takeStep(rank int, step *stepAccount) {
	for len(s.all) <= step.Number {
		s.all = append(s.all, collective{ends: make([]int64, s.workers)})
	}
	c := &s.all[step.Number]
	if c.done == 0 || step.Start < c.start {
		c.start = step.Start
	}
	c.end = max(c.end, step.End)
	c.ends[rank] = step.End
	if step.Missed > 0 {
		c.missed++
	}
	c.done++
	if bad := step.Wrong >= 0 || s.hashes != nil && (step.Number >= len(s.hashes) || step.Hash != s.hashes[step.Number]); bad {
		c.wrong++
		s.wrong++
		if s.wrongAt == "" {
			s.wrongAt = fmt.Sprintf("step %d at rank %d, element %d", step.Number, rank, step.Wrong)
		}
	}
	for s.complete < len(s.all) && s.all[s.complete].done == s.workers {
		s.complete++
	}
}

// await waits until a condition holds; it is asked with the lock held. That a worker has failed ends the wait, unless the condition holds then.
func (s *steps) await(ctx context.Context, what string, holds func() bool) error {
	for {
		s.mu.Lock()
		met, changed, failed := holds(), s.changed, s.failure()
		s.mu.Unlock()
		if met {
			return nil
		}
		if failed != nil {
			return failed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}

// errWorker is in the chain of what await returns when a worker cannot go on.
var errWorker = errors.New("a worker cannot go on")

// others are the errors of all ranks but one. s.mu is held.
func (s *steps) others(but int) map[int]string {
	all := map[int]string{}
	for rank, text := range s.errors {
		if rank != but {
			all[rank] = text
		}
	}
	return all
}

// failure is why a worker cannot go on; s.mu is held.
func (s *steps) failure() error {
	for rank := range s.workers {
		if text, failed := s.errors[rank]; failed && !s.ended[rank] {
			return fmt.Errorf("%w: rank %d: %s", errWorker, rank, text)
		}
	}
	return nil
}

// awaitSteps waits until so many steps are complete.
func (s *steps) awaitSteps(ctx context.Context, n int) error {
	return s.await(ctx, fmt.Sprintf("step %d", n), func() bool { return s.complete >= n })
}

// awaitEpochs waits until all workers have trained so many epochs.
func (s *steps) awaitEpochs(ctx context.Context, n int) error {
	return s.await(ctx, "the end of the training", func() bool {
		for rank := range s.workers {
			if s.epochs[rank] < n {
				return false
			}
		}
		return true
	})
}

// completed is how many steps are done at all workers.
func (s *steps) completed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.complete
}

// since counts the steps that began, at their first worker, after a moment, and are complete.
func (s *steps) since(moment int64) (n int) { // s.mu is held
	for i := s.complete - 1; i >= 0 && s.all[i].start > moment; i-- {
		n++
	}
	return n
}

// median is that of the times of complete steps, without those in flight within one of the spans, nor the first of all; 0 if there is none.
func (s *steps) median(disturbed []incident) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var times []time.Duration
	for i := 1; i < s.complete; i++ {
		c := &s.all[i]
		if !slices.ContainsFunc(disturbed, func(d incident) bool { return c.end > d.at && c.start < d.until }) {
			times = append(times, time.Duration(c.end-c.start))
		}
	}
	if times == nil {
		return 0
	}
	slices.Sort(times)
	return percentile(times, 0.50)
}

// longest is the longest time that a step took which was in flight within a span, each counted from the span's beginning at the earliest.
func (s *steps) longest(d incident) (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.complete {
		if c := &s.all[i]; c.end > d.at && c.start < d.until {
			longest = max(longest, time.Duration(c.end-max(c.start, d.at)))
		}
	}
	return longest
}
