package engine

import "time"

// learn takes from the RESULT of a chunk, published by the home, what it says about the round trip and about what was lost.
func (e *Engine) learn(now int64, ch *chunk) {
	elapsed := now - ch.lastSent
	repaired := ch.sends > 1 || ch.probes > 0
	if !repaired && !ch.held {
		e.trip.measure(now, ch.lastSent)
	} else if ch.sends == 1 && !ch.haveKnown && ch.forTor() {
		// It was spilled, and asked about because the ToR's answers come sooner. Not to count it would keep that so.
		e.trip.measureLate(now, ch.lastSent)
	}
	e.torTrip.expire(now)
	e.answerTrip.expire(now)
	if ch.sends > 1 && elapsed < e.trip.least {
		// Faster than possible: the answer to an earlier send, which says nothing about what was sent since (RFC 8985 §6.2 step 2).
		return
	}
	line, lines := ch.lastSent-e.trip.smoothed/4, e.linesOf(ch)
	lines.repair = max(lines.repair, line)
	if ch.sends > 1 {
		e.credit += 2
	}
	if repaired {
		return
	}
	lines.loss = max(lines.loss, line)
}

// lines are what the RESULTs of one home are evidence of. They say nothing of chunks that another home has, which may be farther or have more to do.
type lines struct {
	loss   int64 // every chunk that was last asked about before is suspect
	repair int64 // the oldest is, if it was
}

// linesOf are those of a chunk's home.
func (e *Engine) linesOf(ch *chunk) *lines {
	if ch.forTor() {
		return &e.lines[0]
	}
	return &e.lines[ch.class]
}

// touch notes that the home was asked about a chunk.
func (e *Engine) touch(now int64, position uint64, ch *chunk) {
	i := e.place(position)
	suspects := &e.suspects[ch.class]
	if ch.sends > 0 {
		suspects.remove(e.chunks, i)
	}
	ch.lastAsked = now
	suspects.push(e.chunks, i)
}

// deadlines are when the oldest chunk is asked about again: probe by a PROBE, because its RESULT is overdue, and resend by its DATA,
// because nothing has arrived and the home is not known to hold it. Never stands for a timer that does not run.
func (e *Engine) deadlines() (probe, resend int64) {
	ch := e.outstanding(e.base)
	if ch == nil {
		return Never, Never
	}
	probe, resend = Never, Never
	path := e.path()
	switch {
	case path.measured:
		probe = ch.lastAsked + path.overdue(e.overdue)
	case ch.held:
		probe = ch.lastAsked + path.timeout(e.overdue)
	}
	if e.cfg.releases() {
		probe = min(probe, ch.lastAsked+e.cfg.patrol())
	}
	if !ch.held {
		if !e.trip.measured {
			path = &e.trip // where a RESEND goes
		}
		resend = max(ch.lastSent, e.lastProgress) + path.timeout(e.doublings)
	}
	return probe, resend
}

// silentSince is since when a new RESULT is missed: the last one, or the beginning of a generation that goes on.
func (e *Engine) silentSince() int64 { return max(e.lastProgress, e.resumedAt) }

// silence is the error for having waited too long: it names who is missing from the oldest chunk, or the home.
func (e *Engine) silence(now int64) error {
	seq, quiet := uint32(e.base), time.Duration(now-e.lastProgress)
	ch := e.outstanding(e.base)
	if ch == nil || !ch.haveKnown || e.unanswered >= silentAfter {
		return &HomeSilentError{Seq: seq, For: quiet}
	}
	if ch.heldAbove {
		return &MissingRanksError{Ranks: e.cfg.beyond(ch.above), Rank: e.cfg.Rank, Seq: seq, For: quiet}
	}
	if ch.have == e.full {
		return &HomeSilentError{Seq: seq, For: quiet, ResultLost: true}
	}
	return &MissingRanksError{Ranks: e.cfg.ranksOf(e.full &^ ch.have), Rank: e.cfg.Rank, Seq: seq, For: quiet}
}

// silentAfter is how many questions in a row without any packet from the home make it, not the other ranks, the suspect.
const silentAfter = 3
