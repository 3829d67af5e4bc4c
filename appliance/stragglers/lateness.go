package stragglers

import (
	"slices"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

// Contributions is how many a histogram counts.
func Contributions(l *v1.Lateness) (n uint64) {
	for _, count := range l.GetCounts() {
		n += count
	}
	return n
}

// Quantile is a bound on how late the part q of the contributions were, 0 < q <= 1: that of the bucket, which is up to twice too large. With more, they were
// later than it: it is the last bound there is. 0: nothing was counted.
func Quantile(l *v1.Lateness, q float64) (bound time.Duration, more bool) {
	total := Contributions(l)
	if total == 0 {
		return 0, false
	}
	rank, seen := max(1, uint64(q*float64(total)+0.999999)), uint64(0)
	for i, count := range l.Counts {
		if seen += count; seen < rank {
			continue
		}
		if i < len(l.Bounds) {
			return time.Duration(l.Bounds[i]), false
		}
		break
	}
	if len(l.Bounds) == 0 {
		return 0, true
	}
	return time.Duration(l.Bounds[len(l.Bounds)-1]), true
}

// Since is what was counted between two readings. One that is smaller than before began anew, with a generation.
func Since(before, now *v1.Lateness) *v1.Lateness {
	if now == nil || before == nil || len(before.Counts) != len(now.Counts) || Contributions(before) > Contributions(now) || before.Sum > now.Sum {
		return now
	}
	d := &v1.Lateness{Bounds: now.Bounds, Counts: slices.Clone(now.Counts), Sum: now.Sum - before.Sum}
	for i := range d.Counts {
		d.Counts[i] -= min(before.Counts[i], d.Counts[i])
	}
	return d
}

// Held is the part of a time in which the others' windows stood still for a worker. W chunks at most wait at once, and each is as long in its histogram as
// it waited.
func Held(l *v1.Lateness, window uint32, over time.Duration) float64 {
	if window == 0 || over <= 0 {
		return 0
	}
	return min(1, float64(l.GetSum())/float64(window)/float64(over))
}

// Without is the part of the sums that were released without a worker, of those that it could have been in.
func Without(l *v1.Lateness, releasedWithout uint64) float64 {
	if releasedWithout == 0 {
		return 0
	}
	return min(1, float64(releasedWithout)/float64(max(releasedWithout, Contributions(l), 1)))
}

// Bounds of what is called holding the others up.
const (
	// SlowShare is the part of the time that they stand still for it, or of the sums that are released without it.
	SlowShare = 0.1
	// slowTimes is how many times the median worker's that must be: where all are as late as each other, it is the first that is early.
	slowTimes = 2
)

// Slow tells of each of a job's workers whether it holds the others up, by the shares of Held.
func Slow(held []float64) []bool {
	sorted := slices.Sorted(slices.Values(held))
	slow := make([]bool, len(held))
	for i, share := range held {
		slow[i] = share >= SlowShare && share >= slowTimes*sorted[(len(sorted)-1)/2]
	}
	return slow
}
