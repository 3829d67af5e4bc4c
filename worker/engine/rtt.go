package engine

// roundTrip estimates the round trip and the retransmission timeout by RFC 6298, in nanoseconds. Only chunks that were sent
// once and never asked about are measured (Karn's algorithm).
type roundTrip struct {
	smoothed, variation int64
	least               int64 // the shortest seen
	measured            bool
	minRTO, maxRTO      int64
}

// initialFactor is the timeout before the first measurement, in units of the least timeout. RFC 6298 has a second for the
// Internet; a rack is some thousand times faster.
const initialFactor = 10

func (r *roundTrip) measure(sample int64) {
	if !r.measured {
		r.smoothed, r.variation, r.least, r.measured = sample, sample/2, sample, true
		return
	}
	deviation := r.smoothed - sample
	r.variation += (max(deviation, -deviation) - r.variation) / 4
	r.smoothed += (sample - r.smoothed) / 8
	r.least = min(r.least, sample)
}

// timeout is the RTO after some doublings.
func (r *roundTrip) timeout(doublings int) int64 {
	rto := r.minRTO * initialFactor
	if r.measured {
		rto = r.smoothed + 4*r.variation
	}
	rto = min(max(rto, r.minRTO), r.maxRTO)
	for ; doublings > 0 && rto < r.maxRTO; doublings-- {
		rto *= 2
	}
	return min(rto, r.maxRTO)
}
