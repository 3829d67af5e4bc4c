package engine

// roundTrip estimates the round trip and the retransmission timeout by RFC 6298, in nanoseconds. Only chunks that were sent
// once and never asked about are measured (Karn's algorithm).
type roundTrip struct {
	smoothed, variation int64
	least               int64 // the shortest seen
	measured            bool
	measuredAt          int64
	minRTO, maxRTO      int64
}

// initialFactor is the timeout before the first measurement, in units of the least timeout. RFC 6298 has a second for the
// Internet; a rack is some thousand times faster.
const initialFactor = 10

// measure takes the RESULT of a chunk that was sent once. The averages take one sample a round trip, for which their gains are made:
// the RESULTs of one window are too much alike, and would make the variation vanish.
func (r *roundTrip) measure(now, sent int64) {
	sample := now - sent
	if !r.measured {
		r.smoothed, r.variation, r.least, r.measured, r.measuredAt = sample, sample/2, sample, true, now
		return
	}
	r.least = min(r.least, sample)
	if sent < r.measuredAt {
		return
	}
	deviation := r.smoothed - sample
	r.variation += (max(deviation, -deviation) - r.variation) / 4
	r.smoothed += (sample - r.smoothed) / 8
	r.measuredAt = now
}

// measureLate takes the RESULT of a chunk that was sent once and asked about, but came before any answer to that: the time may include
// another rank's repair, and counts as twice the average at most.
func (r *roundTrip) measureLate(now, sent int64) {
	if r.measured {
		sent = max(sent, now-2*r.smoothed)
	}
	r.measure(now, sent)
}

// expire gives up an estimate that was not renewed for the longest timeout, by when the path has other measures.
func (r *roundTrip) expire(now int64) {
	if r.measured && now-r.measuredAt > r.maxRTO {
		r.measured = false
	}
}

// overdue is how long after the last question about the oldest chunk it is probed, after some doublings: like the probe timeout of
// RFC 8985 §7.2, but nearer to the round trip, because a PROBE costs 28 bytes and a window that stands still costs the link.
func (r *roundTrip) overdue(doublings int) int64 {
	wait := max(r.smoothed+r.smoothed/2, r.minRTO)
	return min(wait<<min(doublings, 20), r.maxRTO)
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
