package engine

import (
	"fmt"

	"spillway/wire"
)

// TorRegion is the part of the ToR's slots that a job was given. Chunk seq has lane seq mod Period; lanes below Slots are summed in the ToR,
// in slot Base + (lane + Offset) mod Slots, the others at the home. A worker sends seq only when it has all results up to
// seq - Period, so no two chunks of one job ever want the same slot at once, however few there are. A job of one worker has nothing to add up, and all
// its chunks are for the home.
type TorRegion struct {
	// Base is the first slot, a multiple of Slots; Slots is how many there are, a power of two, or 0: all chunks are for the home.
	Base  uint16
	Slots uint16
	// Period is a power of two, not less than the window.
	Period uint32
	// Offset keeps jobs that share a region apart while they have few chunks in flight.
	Offset uint16
}

func (r *TorRegion) validate(window int) error {
	switch {
	case r.Slots&(r.Slots-1) != 0:
		return fmt.Errorf("tor slots %d is not a power of two", r.Slots)
	case r.Slots == 0:
		return nil
	case r.Base&(r.Slots-1) != 0:
		return fmt.Errorf("tor base %d is not a multiple of the %d slots", r.Base, r.Slots)
	case int(r.Base)+int(r.Slots) > wire.NoSlot:
		return fmt.Errorf("tor slots %d to %d are not below %d", r.Base, int(r.Base)+int(r.Slots)-1, wire.NoSlot)
	case r.Period&(r.Period-1) != 0 || int64(r.Period) < int64(window):
		return fmt.Errorf("tor period %d is not a power of two from the window, %d, on", r.Period, window)
	}
	return nil
}

// slot is where the ToR sums a chunk, wire.NoSlot if it is for the home.
func (c *Config) slot(seq uint32) uint16 {
	r := c.Tor
	if r == nil || r.Slots == 0 || c.Workers == 1 {
		return wire.NoSlot
	}
	lane := seq & (r.Period - 1)
	if lane >= uint32(r.Slots) {
		return wire.NoSlot
	}
	return r.Base + uint16((lane+uint32(r.Offset))&uint32(r.Slots-1))
}

// path is the round trip by which timers wait: the longer of the two, for where a chunk is summed is known when its RESULT comes.
func (e *Engine) path() *roundTrip {
	home := e.homeTrip()
	if e.torTrip.measured && (!home.measured || e.torTrip.smoothed > home.smoothed) {
		return &e.torTrip
	}
	return home
}

// homeTrip is the way by the home: in a job with a ToR, the shorter of what RESULTs and what answers to PROBEs took. Where little is spilled, most RESULTs that
// come from the home are of chunks that waited for a repair, and going by them each repair would begin later than the one before.
func (e *Engine) homeTrip() *roundTrip {
	if e.cfg.Tor != nil && e.trip.measured && e.answerTrip.measured && e.answerTrip.smoothed < e.trip.smoothed {
		return &e.answerTrip
	}
	return &e.trip
}

// learnFromTor is learn for a RESULT that the ToR published. It says nothing about chunks for the home, nor about those of the ToR's that may have
// been spilled and are no later than the home's answers usually are.
func (e *Engine) learnFromTor(now int64, ch *chunk) {
	if ch.sends > 1 || ch.probes > 0 {
		return
	}
	if !ch.held {
		e.torTrip.measure(now, ch.lastSent)
	}
	e.trip.expire(now)
	e.answerTrip.expire(now)
	line := ch.lastSent - e.torTrip.smoothed/4
	if home := e.homeTrip(); home.measured {
		line = min(line, now-home.smoothed-home.smoothed/4)
	}
	e.torLine = max(e.torLine, line)
}

// learnFromAnswer takes a PENDING as a measure of the way by the home if it answers a known PROBE. PENDING(0) and PENDING(full) answer nothing but PROBEs;
// DATA of which the home has a part already are told the part. If the chunk was asked about once only (Karn), not sent since and nothing was heard of it,
// lastAsked is when the PROBE was sent, and this is no later answer to it.
func (e *Engine) learnFromAnswer(now int64, ch *chunk, have uint64) {
	if e.cfg.Tor != nil && (have == 0 || have == e.full) && ch.probes == 1 && ch.asked && !ch.haveKnown && now > ch.lastAsked {
		e.answerTrip.measure(now, ch.lastAsked)
	}
}

// lossLineOf is the time before which the chunks of a class are suspect unless they were asked about since.
func (e *Engine) lossLineOf(class int) int64 {
	if class == e.cfg.Shards {
		return max(e.lines[0].loss, e.torLine) // a job with a ToR has one home
	}
	return e.lines[class].loss
}

// noteSolicitAhead remembers that the home was asked for a chunk of the ToR's that this rank has not sent yet.
func (e *Engine) noteSolicitAhead(position uint64) {
	if position < e.base || position-e.base >= uint64(len(e.ahead)) || e.cfg.slot(uint32(position)) == wire.NoSlot {
		return
	}
	e.ahead[position&uint64(len(e.ahead)-1)] = position
}

// solicitedAhead reports whether noteSolicitAhead was told of the position.
func (e *Engine) solicitedAhead(position uint64) bool {
	return e.ahead != nil && e.ahead[position&uint64(len(e.ahead)-1)] == position
}

// leaveToLower reports whether a SOLICIT of a ToR chunk is left to the lowest rank that is missing, whose RESEND takes along what rests in the
// slot. If that is not the end of it, this chunk is due a round trip later.
func (e *Engine) leaveToLower(now int64, position uint64, ch *chunk, have uint64) bool {
	missing := e.full &^ have
	if !ch.forTor() || missing == 0 || missing&-missing == e.own || ch.due == 0 && e.deferred.full() {
		return false
	}
	if ch.due == 0 {
		ch.due = now + max(e.path().smoothed, 1)
		e.deferred.push(position)
	}
	return true
}

// takeDeferred moves what is due to the resends, and says when the next one is.
func (e *Engine) takeDeferred(now int64) (next int64) {
	for ; !e.deferred.empty(); e.deferred.pop() {
		position := e.deferred.peek()
		ch := e.outstanding(position)
		if ch == nil || ch.due == 0 {
			continue
		}
		if ch.due > now {
			return ch.due
		}
		ch.due = 0
		e.resend(position, ch)
	}
	return Never
}
