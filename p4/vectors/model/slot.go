package model

import (
	"math"

	"spillway/p4/vectors"
	"spillway/wire"
)

// region finds the region of the job that has the slot.
func region(job *vectors.Job, slot uint16) *vectors.Region {
	for i := range job.Regions {
		r := &job.Regions[i]
		if slot&r.Mask() == r.Base {
			return r
		}
	}
	return nil
}

// result frees the slot that it names, and goes on.
func (m *Model) result(port uint16, f *frame, job *vectors.Job, echo bool) ([]vectors.Emission, error) {
	h := &f.header
	s := m.slots[h.Slot]
	if region(job, h.Slot) != nil && s != nil && s.id() == h.Seq^uint32(job.Key) {
		delete(m.slots, h.Slot)
		m.events[job.Index][freed]++
	} else {
		m.events[job.Index][forwarded]++
	}
	if echo {
		return nil, nil
	}
	return m.onward(port, f)
}

// content is the packet as a slot holds it.
func content(f *frame, job *vectors.Job) *slot {
	h := &f.header
	s := &slot{
		job: job, seq: h.Seq, op: h.Op, urgency: int(h.Priority) * level, bitmap: h.Bitmap,
		flags: h.Flags & wire.ECN, elements: append([]int32(nil), f.elements...),
	}
	if f.bytes[15]&3 == 3 { // congestion experienced, RFC 3168
		s.flags |= wire.ECN
	}
	return s
}

// data brings a contribution to its slot. own is the member's bits.
func (m *Model) data(port uint16, f *frame, job *vectors.Job, own uint64) ([]vectors.Emission, error) {
	h := &f.header
	events := &m.events[job.Index]
	r := region(job, h.Slot)
	fits := len(f.elements)%wire.ElementStep == 0 && len(f.elements) <= m.fixture.Elements
	switch {
	case r == nil && h.Slot != noSlot:
		events[badSlot]++
		return m.onward(port, f)
	case r == nil || !fits:
		events[passed]++
		return m.onward(port, f)
	}
	p := content(f, job)
	if h.Priority == 0 || h.Flags&(wire.Resend|wire.Saturated|wire.Partial) != 0 || h.Bitmap != own {
		return m.takeAlong(port, f, p)
	}
	s := m.slots[h.Slot]
	sameChunk := s != nil && s.id() == p.id() && s.job == p.job
	switch {
	case s == nil:
		m.slots[h.Slot] = p
		events[claimed]++
		return nil, nil
	case sameChunk && len(s.elements) != len(p.elements):
		events[mismatch]++
		return m.onward(port, f)
	case sameChunk:
		return m.merge(f, s, p)
	case s.id() == p.id() || r.Mode == vectors.FirstCome:
		events[spilled]++
		return m.onward(port, f)
	case p.urgency-s.urgency <= margin || len(s.elements) != len(p.elements):
		events[spilled]++
		s.urgency--
		return m.onward(port, f)
	}
	events[preempts]++
	m.preempted[s.job.Index]++
	m.slots[h.Slot] = p
	return m.up(f, s, 0)
}

// merge adds the packet to its chunk.
func (m *Model) merge(f *frame, s, p *slot) ([]vectors.Emission, error) {
	events := &m.events[p.job.Index]
	if p.urgency-s.urgency > margin {
		s.urgency = p.urgency
	}
	if s.bitmap&p.bitmap != 0 {
		events[duplicate]++
		return nil, nil
	}
	s.add(p)
	if s.bitmap != p.job.Full() {
		events[merged]++
		return nil, nil
	}
	events[completed]++
	delete(m.slots, f.header.Slot)
	return m.publish(f, s)
}

// add unites two disjoint contributions of a chunk.
func (s *slot) add(p *slot) {
	s.bitmap |= p.bitmap
	s.flags |= p.flags
	for i, e := range p.elements {
		switch s.op {
		case wire.Max:
			s.elements[i] = max(s.elements[i], e)
		case wire.Min:
			s.elements[i] = min(s.elements[i], e)
		default:
			exact := int64(s.elements[i]) + int64(e)
			s.elements[i] = int32(min(max(exact, math.MinInt32), math.MaxInt32))
			if exact != int64(s.elements[i]) {
				s.flags |= wire.Saturated
			}
		}
	}
}

// takeAlong is for a packet that may not rest.
func (m *Model) takeAlong(port uint16, f *frame, p *slot) ([]vectors.Emission, error) {
	events := &m.events[p.job.Index]
	s := m.slots[f.header.Slot]
	if s == nil || s.id() != p.id() {
		events[passed]++
		return m.onward(port, f)
	}
	if s.job == p.job && len(s.elements) != len(p.elements) {
		events[mismatch]++
		return m.onward(port, f)
	}
	delete(m.slots, f.header.Slot)
	switch {
	case s.job != p.job:
		events[passed]++
		return m.onward(port, f)
	case s.bitmap&p.bitmap == 0:
		events[resendEvicted]++
		s.add(p)
	case p.bitmap&^s.bitmap == 0:
		events[resendEvicted]++
		s.flags |= p.flags
	default:
		events[overlap]++
		s.flags |= p.flags
	}
	return m.up(f, s, f.header.Flags)
}
