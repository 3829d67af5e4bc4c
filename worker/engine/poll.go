package engine

import (
	"math"

	"spillway/wire"
)

// Output takes the packets of an engine.
type Output interface {
	// Packet is a buffer of exactly size bytes for one UDP payload to the home of chunk seq; nil means that no more fit now. The engine writes
	// the whole packet before it asks for another.
	Packet(seq uint32, size int) []byte
}

// Never is the wake of an engine that only a Submit or a packet can give something to do.
const Never = math.MaxInt64

// Poll puts out everything that is due and says when to call again if nothing arrives: now if the output was full. Collectives
// can finish (with an error) here as well as in Receive.
func (e *Engine) Poll(now int64, out Output) (wake int64) {
	if e.oldest != nil && now-e.silentSince() >= e.cfg.Silence {
		e.Abort(e.silence(now))
	}
	if !e.sendAnswers(now, out) {
		return now
	}
	greet, room := e.greet(now, out)
	if !room {
		return now
	}
	if e.oldest == nil {
		return greet
	}
	next := min(greet, e.takeDeferred(now))
	if !e.sendResends(now, out) || !e.sendTimeout(now, out) || !e.sendProbes(now, out) || !e.sendReady(now, out) || !e.sendNew(now, out) {
		return now
	}
	wake = e.silentSince() + e.cfg.Silence
	probe, resend := e.deadlines()
	return min(wake, probe, resend, next)
}

// sendAnswers sends the RESULTs that the home asked for. It and the functions below return false when the output is full.
func (e *Engine) sendAnswers(now int64, out Output) bool {
	for ; !e.answers.empty(); e.answers.pop() {
		position := e.answers.peek()
		entry := e.results.find(position)
		if entry == nil || !entry.wanted {
			continue
		}
		packet := e.results.packet(position, entry)
		b := e.packet(uint32(position), len(packet), out)
		if b == nil {
			return false
		}
		copy(b, packet)
		e.relabel(b)
		entry.wanted, entry.answered, entry.lastAnswer = false, true, now
		e.stats.SolicitAnswers++
	}
	return true
}

// sendResends sends the DATA that the home asked for.
func (e *Engine) sendResends(now int64, out Output) bool {
	for ; !e.resends.empty(); e.resends.pop() {
		position := e.resends.peek()
		if ch := e.outstanding(position); ch != nil && ch.wantResend && !e.sendData(now, position, ch, out) {
			return false
		}
	}
	return true
}

// sendTimeout asks about the oldest chunk when one of its timers has fired.
func (e *Engine) sendTimeout(now int64, out Output) bool {
	probe, resend := e.deadlines()
	if now < min(probe, resend) {
		return true
	}
	ch := e.chunk(e.base)
	if now < resend {
		if !e.sendProbe(now, e.base, ch, out) {
			return false
		}
		e.overdue++
	} else {
		if !e.sendData(now, e.base, ch, out) {
			return false
		}
		e.stats.Timeouts++
		e.doublings++
	}
	e.recoveryLine = now
	e.unanswered++
	return true
}

// sendProbes asks about the chunks that are suspected to be lost.
func (e *Engine) sendProbes(now int64, out Output) bool {
	if ch := e.outstanding(e.base); ch != nil && ch.lastAsked < e.linesOf(ch).repair && !e.sendProbe(now, e.base, ch, out) {
		return false
	}
	for class := range e.suspects {
		for line := e.lossLineOf(class); ; {
			i := e.suspects[class].head
			if i == none || e.chunks[i].lastAsked >= line {
				break
			}
			if !e.sendProbe(now, e.position(i), &e.chunks[i], out) {
				return false
			}
		}
	}
	for {
		i := e.longestUnasked()
		if i == none {
			return true
		}
		ch := &e.chunks[i]
		if ch.lastAsked >= e.recoveryLine {
			e.credit = 0
		}
		if e.credit == 0 {
			return true
		}
		if !e.sendProbe(now, e.position(i), ch, out) {
			return false
		}
		e.credit--
	}
}

// longestUnasked is the place of the suspect that was not asked about for the longest time.
func (e *Engine) longestUnasked() int32 {
	i := int32(none)
	for class := range e.suspects {
		if head := e.suspects[class].head; i == none || head != none && e.chunks[head].lastAsked < e.chunks[i].lastAsked {
			i = head
		}
	}
	return i
}

// position is that of the chunk at a place of the array, which has those of [base, base + its length).
func (e *Engine) position(place int32) uint64 {
	return e.base + uint64(place-e.place(e.base))&uint64(len(e.chunks)-1)
}

// sendReady sends the chunks that were waiting for their exponent.
func (e *Engine) sendReady(now int64, out Output) bool {
	for ; !e.ready.empty(); e.ready.pop() {
		position := e.ready.peek()
		ch := e.chunk(position)
		if !e.settle(now, position, ch) && !e.sendData(now, position, ch, out) {
			return false
		}
	}
	e.advance()
	return true
}

// sendNew opens chunks as far as the window goes, and sends those that wait for nothing.
func (e *Engine) sendNew(now int64, out Output) bool {
	for e.opening != nil && e.next < e.base+e.window.chunks() {
		c := e.opening
		if c.disagreement != nil || c.inconsistent != nil {
			// What follows will not be reported as good: the ranks are out of step.
			return true
		}
		ch := e.chunk(e.next)
		slot := e.slot(e.next)
		ch.open(c, int(e.next-c.first), slot, e.cfg.class(uint32(e.next), slot))
		settled := !ch.waits() && e.settle(now, e.next, ch)
		if !settled && !ch.waits() && !e.sendData(now, e.next, ch, out) {
			return false
		}
		if e.next++; e.next == c.end {
			e.opening = c.following
		}
		if settled {
			e.advance()
		}
	}
	return true
}

// sendData sends a chunk's contribution; all but the first time it carries RESEND, and then too if the home has asked for it already.
func (e *Engine) sendData(now int64, position uint64, ch *chunk, out Output) bool {
	size := int(ch.elems) * wire.ElementSize
	b := e.packet(uint32(position), wire.HeaderSize+size, out)
	if b == nil {
		return false
	}
	h := e.header(wire.Data, uint32(position), ch.slot)
	h.Op, h.Elems = ch.op, ch.elems
	c := ch.collective
	if ch.sends > 0 {
		h.Flags = wire.Resend
		e.stats.Resends++
	} else {
		if e.solicitedAhead(position) {
			// The others' contributions are at the home; resting alone in the ToR, this one would be missed there.
			h.Flags = wire.Resend
		}
		if c.scaled() && ch.kind != dataChunk {
			c.scan(int(ch.index), e.cfg.Rank)
		}
	}
	h.Encode(b)
	c.contribute(b[wire.HeaderSize:], ch)
	e.touch(now, position, ch)
	ch.lastSent, ch.wantResend, ch.held, ch.asked, ch.due = now, false, false, false, 0
	ch.sends++
	return true
}

// sendProbe asks for the state of a chunk.
func (e *Engine) sendProbe(now int64, position uint64, ch *chunk, out Output) bool {
	b := e.packet(uint32(position), wire.HeaderSize, out)
	if b == nil {
		return false
	}
	h := e.header(wire.Probe, uint32(position), ch.slot)
	h.Op = ch.op
	h.Encode(b)
	e.touch(now, position, ch)
	ch.asked = true
	ch.probes++
	e.stats.Probes++
	return true
}

// packet gets a buffer for a packet of a seq, nil if the output is full.
func (e *Engine) packet(seq uint32, size int, out Output) []byte {
	b := out.Packet(seq, size)
	if b != nil {
		e.stats.PacketsSent++
		e.stats.BytesSent += uint64(size)
	}
	return b
}

// header is what all packets of this worker have in common.
func (e *Engine) header(t wire.Type, seq uint32, slot uint16) wire.Header {
	h := wire.Header{
		Version: wire.Version, Type: t, Job: e.cfg.Job, Generation: e.cfg.Generation, Priority: e.cfg.Priority,
		Cookie: e.cfg.Cookie, Seq: seq, Bitmap: e.own, Slot: slot,
	}
	if slot == wire.NoSlot {
		h.Priority = 0
	}
	return h
}

// relabel makes a kept RESULT one of the present generation.
func (e *Engine) relabel(packet []byte) {
	var h wire.Header
	if _, err := h.Decode(packet); err != nil {
		return // only what Decode took is kept
	}
	h.Job, h.Generation, h.Cookie = e.cfg.Job, e.cfg.Generation, e.cfg.Cookie
	if !e.cfg.releases() && h.Flags&wire.Partial == 0 {
		h.Bitmap = e.full // of the homes that there are now
	}
	h.Encode(packet)
}
