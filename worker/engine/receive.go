package engine

import (
	"spillway/wire"
)

// Receive takes one UDP payload that came from the home; ce says that its IP header had a congestion mark. The payload is not
// kept. What is not for this worker is counted and changes nothing else.
func (e *Engine) Receive(now int64, payload []byte, ce bool) {
	e.stats.PacketsReceived++
	e.stats.BytesReceived += uint64(len(payload))
	var h wire.Header
	elements, err := h.Decode(payload)
	if err != nil || h.Type == wire.Data || h.Type == wire.Probe {
		e.stats.BadPackets++
		return
	}
	if h.Job != e.cfg.Job || h.Generation != e.cfg.Generation || h.Cookie != e.cfg.Cookie {
		e.stats.ForeignPackets++
		return
	}
	above := e.cfg.Level != nil && h.Type == wire.Pending && h.Flags&wire.Partial != 0
	if h.Bitmap&^e.full != 0 && !above || h.Type == wire.Result && h.Bitmap != e.full && h.Flags&wire.Partial == 0 {
		e.stats.MismatchedPacket++
		return
	}
	e.heard(h.Seq)
	// The nearest position with this seq: serial arithmetic around base.
	position := e.base + uint64(int64(int32(h.Seq-uint32(e.base))))
	switch h.Type {
	case wire.Result:
		e.onResult(now, position, &h, elements, payload, ce)
	case wire.Solicit:
		e.stats.Solicits++
		if entry := e.results.find(position); entry != nil {
			e.onSolicitOfResult(now, position, entry, h.Bitmap)
			return
		}
		if ch := e.outstanding(position); ch != nil {
			ch.solicited = true
			e.onState(now, position, ch, h.Type, h.Bitmap)
			return
		}
		e.noteSolicitAhead(position)
	case wire.Pending:
		e.stats.Pendings++
		ch := e.outstanding(position)
		switch {
		case ch == nil:
		case above:
			e.onHeldAbove(now, position, ch, h.Bitmap)
		case h.Flags&wire.Partial != 0:
			// The chunk must wait for its slot, which somebody not in the bitmap may still need: asked about as one that is held.
			ch.have, ch.haveKnown, ch.held, ch.due = h.Bitmap, true, true, 0
			e.touch(now, position, ch)
		case h.Flags&wire.Resend != 0:
			// The RESULT is there for whoever sends a packet that is long enough to carry it. No patience: this answers a PROBE, which came after the DATA.
			ch.have, ch.haveKnown, ch.held = e.full, true, false
			if ch.asked {
				e.resend(position, ch)
			}
		default:
			e.learnFromAnswer(now, ch, h.Bitmap)
			e.onState(now, position, ch, h.Type, h.Bitmap)
		}
	}
}

// outstanding is the chunk at a position if it was sent and has no RESULT, else nil.
func (e *Engine) outstanding(position uint64) *chunk {
	if position < e.base || position >= e.next {
		return nil
	}
	if ch := e.chunk(position); !ch.done && ch.sends > 0 {
		return ch
	}
	return nil
}

// onResult takes the first RESULT of a chunk, which is final.
func (e *Engine) onResult(now int64, position uint64, h *wire.Header, elements, packet []byte, ce bool) {
	ch := e.outstanding(position)
	if ch == nil {
		if position < e.base || position < e.next && e.chunk(position).done {
			e.stats.DuplicateResults++
		} else {
			e.keepEarly(position, h, packet)
		}
		return
	}
	if h.Op != ch.op || h.Elems != ch.elems {
		e.stats.MismatchedPacket++
		return
	}
	e.stats.Results++
	e.results.store(position, packet, ch.solicited)
	e.suspects[ch.class].remove(e.chunks, e.place(position))
	ch.done, ch.wantResend, ch.due = true, false, 0
	e.lastProgress, e.doublings = now, 0
	if h.Bitmap != e.full {
		e.onRelease(ch)
	} else if ch.forTor() && h.Priority != 0 {
		e.stats.TorResults++
		e.learnFromTor(now, ch)
	} else {
		e.learn(now, ch)
	}

	marked := ce || h.Flags&wire.ECN != 0
	if marked {
		e.stats.ECNMarks++
	}
	if e.window.onResult(now, marked, e.path().smoothed) {
		e.stats.WindowCuts++
	}
	e.take(ch, h, elements)
	e.advance()
}

// take applies a RESULT to its collective. One that is inconsistent breaks the job when advance comes to it.
func (e *Engine) take(ch *chunk, h *wire.Header, elements []byte) {
	c, whole := ch.collective, h.Flags&wire.Partial == 0
	if e.cfg.releases() {
		whole = h.Bitmap&e.own != 0
	} else if !whole {
		c.partial.note(int(h.Seq-uint32(c.first)), e.full&^h.Bitmap)
		c.failed = true
	}
	switch ch.kind {
	case descriptorChunk:
		if err := c.readDescriptor(elements, e.cfg.Workers, whole); err != nil {
			c.suspect(err)
			return
		}
		if e.cfg.releases() && !whole && c.disagreement == nil {
			c.disagrees(elements)
		}
		if c.disagreement == nil && c.scaled() {
			c.agree(0, h.Bitmap)
			e.release(c, 0)
		}
	case exponentChunk:
		if err := c.readExponents(int(ch.index), elements, e.cfg.Workers, whole); err != nil {
			c.suspect(err)
		} else {
			c.agree(int(ch.index), h.Bitmap)
			e.release(c, int(ch.index))
		}
	case dataChunk:
		if h.Flags&wire.Saturated != 0 {
			c.saturated.note(int(ch.index), 0)
			c.failed = true
		}
		who := e.full
		if e.cfg.releases() {
			who = c.credit(int(ch.index), int(ch.group), h.Bitmap)
		} else {
			c.returnResidual(int(ch.index), false)
		}
		c.take(elements, int(ch.index))
		c.rescale(int(ch.index), who)
	}
}

// release makes the opened data chunks of a group ready, now that their exponents are known.
func (e *Engine) release(c *Collective, group int) {
	from, to := c.members(group)
	start := c.first + uint64(c.dataOffset(group))
	for position := max(start, e.base); position < min(start+uint64(to-from), e.next); position++ {
		e.ready.push(position)
	}
}

// advance moves base over the chunks that are done and finishes what ends there.
func (e *Engine) advance() {
	for e.base < e.next && e.chunk(e.base).done {
		e.base++
		e.overdue = 0
	}
	for e.oldest != nil {
		c := e.oldest
		// Everything issued before it is complete, so the disagreement is reported in its turn.
		if c.disagreement != nil && e.base > c.first {
			e.Abort(c.disagreement)
			return
		}
		// Nonsense is to be expected where ranks disagree, here or before. Now it is known that they do not.
		if c.inconsistent != nil && e.base > c.first {
			e.Abort(c.inconsistent)
			return
		}
		if e.base < c.end {
			return
		}
		c.err = c.outcome(e.cfg.Rank)
		e.finishOldest()
	}
}

// patience is how long after a chunk was sent the home's word that it misses it is not believed. An answer to this rank's own question
// can be believed after the least round trip: the question came after the DATA. A SOLICIT that another rank's question caused may
// have crossed DATA that waits in a queue on its way.
func (e *Engine) patience(t wire.Type, ch *chunk) int64 {
	if t == wire.Solicit && !ch.asked {
		return e.path().smoothed
	}
	return e.path().least
}

// onState takes the home's answer about an outstanding chunk, PENDING or SOLICIT: have is what the home has of it.
func (e *Engine) onState(now int64, position uint64, ch *chunk, t wire.Type, have uint64) {
	ch.have, ch.haveKnown, ch.heldAbove = have, true, false
	if have&e.own != 0 && have != e.full {
		// The home holds it and has told everybody whom it misses, which is as good as having asked just now.
		ch.held, ch.due = true, 0
		e.touch(now, position, ch)
		return
	}
	ch.held = false
	if e.path().measured && now-ch.lastSent < e.patience(t, ch) {
		return
	}
	if t == wire.Solicit && e.leaveToLower(now, position, ch, have) {
		return
	}
	e.resend(position, ch)
}

// resend puts a chunk among the resends; if there is no room, its timer will see to it.
func (e *Engine) resend(position uint64, ch *chunk) {
	if !ch.wantResend && !e.resends.full() {
		ch.wantResend = true
		e.resends.push(position)
	}
}

// onSolicitOfResult takes the home's question for a RESULT that this worker has.
func (e *Engine) onSolicitOfResult(now int64, position uint64, entry *result, have uint64) {
	again := entry.solicited
	entry.solicited = true
	missing := e.full &^ have
	if !again && missing&-missing != e.own {
		return
	}
	// Several ranks ask for a lost chunk at about the same time, and each question comes to everybody: one answer a round trip will do.
	if entry.wanted || e.answers.full() || entry.answered && now-entry.lastAnswer < e.path().least {
		return
	}
	entry.wanted = true
	e.answers.push(position)
}
