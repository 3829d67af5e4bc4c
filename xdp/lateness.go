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

// JobLateness is how late the workers of a job are.
type JobLateness struct {
	Tick  time.Duration // of the clock
	Ranks []Lateness    // by rank
}

// Bounds are the upper bounds of all buckets but the last.
func (l *JobLateness) Bounds() (bounds [LatenessBuckets - 1]time.Duration) {
	for i := range bounds {
		bounds[i] = l.Tick << i
	}
	return bounds
}

// Lateness reads how late the workers of a job are.
func (a *Aggregator) Lateness(job uint16) (l JobLateness, err error) {
	in, err := a.find(job)
	if err != nil {
		return l, err
	}
	if l.Tick, err = a.tick(); err != nil {
		return l, err
	}
	var late aggregatorJobLateness
	if err := a.objects.Lateness.Lookup(uint32(job), &late); err != nil {
		return l, fmt.Errorf("read the lateness of job %d: %w", job, err)
	}
	var perCPU []aggregatorJobCounters
	if err := a.objects.Counters.Lookup(uint32(job), &perCPU); err != nil {
		return l, fmt.Errorf("read what the members of job %d sent: %w", job, err)
	}
	l.Ranks = make([]Lateness, in.job.Workers)
	for rank := range l.Ranks {
		of := &late.Rank[rank]
		l.Ranks[rank] = Lateness{Counts: of.Count, Sum: time.Duration(of.Jiffies) * l.Tick, Without: of.Without}
	}
	for i, m := range in.job.Members {
		for _, c := range perCPU {
			l.Ranks[bits.TrailingZeros64(m.Bits)].Counts[0] += c.Member[i].Prompt
		}
	}
	return l, nil
}

// clearLateness forgets what is known of the workers that a job with this id had before.
func (a *Aggregator) clearLateness(job uint16) error {
	if err := a.objects.Lateness.Put(uint32(job), aggregatorJobLateness{}); err != nil {
		return fmt.Errorf("clear the lateness of job %d: %w", job, err)
	}
	return nil
}
