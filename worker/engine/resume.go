package engine

import (
	"fmt"
	"slices"

	"spillway/wire"
)

// Resume goes on in a new generation of the job, because a home's memory was lost or other homes take over. From now on packets of the
// old one are foreign, so that a RESULT which this worker does not have by now will not reach it any more: that is what the
// new homes can rely on. Everything outstanding is asked about again. The homes may be others, and the share of the ToR; an error means that something
// else would change, and that nothing has.
//
// Collectives go on. The congestion window stays, and so do the round trips, as a first guess of the new homes': only the shortest that was
// seen is forgotten, since another home may be farther. The back-off of the timers ends, and silence is counted anew.
func (e *Engine) Resume(now int64, next Config) error {
	if err := next.Validate(); err != nil {
		return fmt.Errorf("engine: go on in generation %d: %w", next.Generation, err)
	}
	if before, after := e.cfg.shape(), next.shape(); before != after {
		return fmt.Errorf("engine: go on in generation %d: the job would be another, %+v instead of %+v", next.Generation, after, before)
	}
	e.cfg.Job, e.cfg.Generation, e.cfg.Cookie = next.Job, next.Generation, next.Cookie
	e.setLevel(next.Level)
	e.setTor(next.Tor, next.Priority)
	for position := e.base; position < e.next; position++ {
		if ch := e.outstanding(position); ch != nil {
			ch.held, ch.haveKnown, ch.heldAbove, ch.solicited, ch.due = false, false, false, false, 0
		}
	}
	for i := range e.results.entries {
		entry := &e.results.entries[i]
		entry.solicited, entry.answered, entry.wanted = false, false, false
	}
	e.answers.reset()
	e.deferred.reset()
	e.trip.least, e.answerTrip.least = e.trip.smoothed, e.answerTrip.smoothed
	e.recoveryLine, e.credit = now, len(e.chunks)
	e.overdue, e.doublings, e.unanswered = 0, 0, 0
	e.resumedAt = now
	if e.cfg.releases() {
		for shard := range e.greetings {
			e.greetings[shard] = greeting{wanted: true, at: now}
		}
	}
	return nil
}

// shape is what all generations of a job that follow each other have in common.
func (c Config) shape() Config {
	if c.Level != nil {
		c.Job = 0 // each node of a tree has its own name for the job
	}
	c.Generation, c.Cookie, c.Priority, c.Tor, c.Level, c.MinRTO, c.MaxRTO, c.Silence, c.FirstSeq = 0, 0, 0, nil, nil, 0, 0, 0, 0
	return c
}

// setTor gives the chunks that have no RESULT, and those to come, their slots in another share of the ToR, or none.
func (e *Engine) setTor(tor *TorRegion, priority uint8) {
	e.cfg.Tor, e.cfg.Priority = tor, priority
	if tor == nil {
		e.torTrip = roundTrip{minRTO: e.cfg.MinRTO, maxRTO: e.cfg.MaxRTO}
	} else if e.ahead == nil {
		e.makeRoomForTor()
	}
	clear(e.ahead)
	var sent []uint64
	for position := e.base; position < e.next; position++ {
		ch := e.chunk(position)
		if ch.done {
			continue
		}
		if ch.sends > 0 {
			e.suspects[ch.class].remove(e.chunks, e.place(position))
			sent = append(sent, position)
		}
		ch.slot = e.slot(position)
		ch.class = e.cfg.class(uint32(position), ch.slot)
	}
	slices.SortStableFunc(sent, func(a, b uint64) int { return int(e.chunk(a).lastAsked - e.chunk(b).lastAsked) })
	for _, position := range sent {
		e.suspects[e.chunk(position).class].push(e.chunks, e.place(position))
	}
}

// greeting is what a home is to be told in a job with a quorum: how far this worker is, which the home must know of everybody before it gives a slot to
// another chunk, where nothing outstanding says so.
type greeting struct {
	wanted bool
	due    bool // at least once more, whatever is heard
	sent   int
	at     int64
}

// heard ends the greeting of a home with the first packet of the generation from there: that answers this worker, or is about a chunk that the home took.
func (e *Engine) heard(seq uint32) {
	e.unanswered = 0
	if g := &e.greetings[wire.Shard(seq, e.cfg.Shards)]; g.wanted && !g.due {
		g.wanted = false
	}
}

// tell has a home told once how far this worker is, which has come there without sending anything.
func (e *Engine) tell(now int64, shard int) {
	e.greetings[shard] = greeting{wanted: true, due: true, at: now}
}

// greet sends the greetings that are due.
func (e *Engine) greet(now int64, out Output) (next int64, room bool) {
	next = Never
	for shard := range e.greetings {
		g := &e.greetings[shard]
		if !g.wanted {
			continue
		}
		position := e.front(shard)
		if ch := e.outstanding(position); ch != nil && position == e.base {
			continue // its timers ask
		}
		if now >= g.at {
			b := e.packet(uint32(position), wire.HeaderSize, out)
			if b == nil {
				return now, false
			}
			h := e.header(wire.Probe, uint32(position), wire.NoSlot)
			h.Encode(b)
			e.stats.Probes++
			g.at = now + e.path().timeout(g.sent)
			g.sent++
			g.due = false
		}
		next = min(next, g.at)
	}
	return next, true
}

// front is the chunk by which a home is told how far this worker is: base if that is its home, else the newest of its chunks that may be named, for who sends
// seq m says that it has every RESULT up to m - W.
func (e *Engine) front(shard int) uint64 {
	position := e.base
	if wire.Shard(uint32(position), e.cfg.Shards) == shard {
		return position
	}
	for position += uint64(e.cfg.Window) - 1; wire.Shard(uint32(position), e.cfg.Shards) != shard; {
		position--
	}
	return position
}
