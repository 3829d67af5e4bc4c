package xdp

import (
	"fmt"
	"math/bits"
	"time"
)

// LatenessBuckets is the number of buckets of a Lateness.
const LatenessBuckets = len(aggregatorRankLateness{}.Count)

// Lateness is how much later than a chunk's first contribution those of one rank came, since the job was added. Times are
// exact to a tick of the kernel's clock, 1 to 10 ms. What a ToR sums is not seen here.
type Lateness struct {
	// Counts are contributions by bucket: bucket 0 is less than a tick, bucket i > 0 has 2^(i-1) up to below 2^i ticks, the last one all that is
	// more. One that came to a chunk that had been released without it is counted too, each time that it came.
	Counts [LatenessBuckets]uint64
	// Sum is that of all times.
	Sum time.Duration
	// Without counts the chunks that were released without this rank.
	Without uint64
}

// LatenessBounds are the upper bounds of all buckets but the last.
func (a *Aggregator) LatenessBounds() ([LatenessBuckets - 1]time.Duration, error) {
	var bounds [LatenessBuckets - 1]time.Duration
	tick, err := a.tick()
	if err != nil {
		return bounds, err
	}
	for i := range bounds {
		bounds[i] = tick << i
	}
	return bounds, nil
}

// Lateness is how late the workers of a job are, by rank.
func (a *Aggregator) Lateness(job uint16) ([]Lateness, error) {
	in, err := a.find(job)
	if err != nil {
		return nil, err
	}
	tick, err := a.tick()
	if err != nil {
		return nil, err
	}
	var late aggregatorJobLateness
	if err := a.objects.Lateness.Lookup(uint32(job), &late); err != nil {
		return nil, fmt.Errorf("read the lateness of job %d: %w", job, err)
	}
	var perCPU []aggregatorJobCounters
	if err := a.objects.Counters.Lookup(uint32(job), &perCPU); err != nil {
		return nil, fmt.Errorf("read what the members of job %d sent: %w", job, err)
	}
	ranks := make([]Lateness, in.job.Workers)
	for rank := range ranks {
		l := &late.Rank[rank]
		ranks[rank] = Lateness{Counts: l.Count, Sum: time.Duration(l.Jiffies) * tick, Without: l.Without}
	}
	for i, m := range in.job.Members {
		for _, c := range perCPU {
			ranks[bits.TrailingZeros64(m.Bits)].Counts[0] += c.Member[i].Prompt
		}
	}
	return ranks, nil
}

// clearLateness forgets what is known of the workers that a job with this id had before.
func (a *Aggregator) clearLateness(job uint16) error {
	if err := a.objects.Lateness.Put(uint32(job), aggregatorJobLateness{}); err != nil {
		return fmt.Errorf("clear the lateness of job %d: %w", job, err)
	}
	return nil
}
