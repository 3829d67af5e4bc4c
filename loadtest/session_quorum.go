package main

import (
	"context"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/stragglers"
	"spillway/loadtest/rack"
)

// compare takes what the workers say of the results of a batch: all must have the same, bit for bit and contributor for contributor.
func (s *session) compare(checked []answer, first, count int) {
	for i := range count {
		partial, missed := false, 0
		for rank, a := range checked {
			if a.Digests[i] != checked[0].Digests[i] {
				s.wrong = append(s.wrong, wrong{Job: s.task.name, Rank: rank, Iteration: first + i, Element: -1})
			}
			partial, missed = partial || a.Partial[i], missed+a.Missed[i]
		}
		if first+i < s.task.options.warmup {
			continue
		}
		if partial {
			s.partial++
		}
		s.missed += float64(missed) / float64(s.task.tensorElements()*s.task.workers()) / float64(s.task.count)
	}
}

// Lateness is what the aggregator measured of a worker of a job. The JSON names are an interface.
type Lateness struct {
	Rank uint32 `json:"rank"`
	// P50MS and P99MS are bounds on how much later than a chunk's first contribution half and 99% of this worker's came; null without any.
	P50MS           *float64 `json:"p50_ms"`
	P99MS           *float64 `json:"p99_ms"`
	ReleasedWithout uint64   `json:"released_without"`
}

// readLateness asks the daemon.
func readLateness(ctx context.Context, r *rack.Rack, job string) ([]Lateness, error) {
	workers, err := r.ListWorkers(ctx, job)
	if err != nil {
		return nil, err
	}
	var all []Lateness
	for _, w := range workers {
		all = append(all, Lateness{Rank: w.GetRank(), P50MS: quantile(w.GetLateness(), 0.5), P99MS: quantile(w.GetLateness(), 0.99), ReleasedWithout: w.GetReleasedWithout()})
	}
	return all, nil
}

func quantile(l *v1.Lateness, q float64) *float64 {
	bound, _ := stragglers.Quantile(l, q)
	if bound == 0 {
		return nil
	}
	ms := float64(bound) / float64(time.Millisecond)
	return &ms
}
