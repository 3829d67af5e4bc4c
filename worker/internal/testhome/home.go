// Package testhome is an aggregator for the tests of the worker: section 3 of docs/protocol.md in plain Go, with a map for a ring,
// written independently of the XDP program. It has no sockets: packets in, packets out.
package testhome

import (
	"encoding/binary"
	"math"

	"spillway/wire"
)

// Everybody as the destination of a Reply is the job's group.
const Everybody = -1

// Reply is one packet that the home sends, to a rank or to Everybody.
type Reply struct {
	To     int
	Packet []byte
}

// Home is the aggregator of one job.
type Home struct {
	Job        uint16
	Generation uint8
	Cookie     uint32
	Workers    int
	Elements   int
	Window     int
	// Counters are the drops by reason, as in the protocol.
	Counters map[string]int
	// Published counts the RESULTs of each seq that were made by merging, not by an answer to a SOLICIT.
	Published map[uint32]int

	slots map[uint32]*slot
}

type slot struct {
	seq      uint32
	bitmap   uint64
	op       wire.Op
	flags    wire.Flags
	complete bool
	elements []int32
}

// Forget loses the aggregator's memory, as a restart of its host does.
func (h *Home) Forget() { h.slots = nil }

// Handle takes one packet from a rank; ce says that its IP header had a congestion mark.
func (h *Home) Handle(from int, packet []byte, ce bool) []Reply {
	if h.slots == nil {
		h.slots = map[uint32]*slot{}
	}
	if h.Counters == nil {
		h.Counters, h.Published = map[string]int{}, map[uint32]int{}
	}
	var p wire.Header
	payload, err := p.Decode(packet)
	full := wire.FullBitmap(h.Workers)
	switch {
	case err != nil:
		return h.drop("undecodable")
	case p.Type == wire.Solicit || p.Type == wire.Pending:
		return h.drop("bad_type")
	case p.Flags&wire.Saturated != 0 && p.Type != wire.Result && p.Bitmap&(p.Bitmap-1) == 0:
		return h.drop("bad_flags")
	case p.Job != h.Job:
		return h.drop("unknown_job")
	case p.Generation != h.Generation:
		return h.drop("bad_generation")
	case p.Cookie != h.Cookie:
		return h.drop("bad_cookie")
	case int(p.Elems) > h.Elements:
		return h.drop("bad_elems")
	case p.Type == wire.Result && p.Bitmap&^full != 0, p.Type != wire.Result && p.Bitmap != 1<<from:
		return h.drop("bad_bitmap")
	}
	index := p.Seq & (wire.RingSize(h.Window) - 1)
	s := h.slots[index]
	d := int32(1)
	if s != nil {
		d = int32(p.Seq - s.seq)
	}
	switch p.Type {
	case wire.Data:
		return h.data(from, &p, payload, ce, index, s, d, full)
	case wire.Result:
		switch {
		case d < 0:
			return h.drop("stale")
		case d > 0 || s.op != p.Op || len(s.elements) != int(p.Elems):
			return h.drop("unsolicited")
		case s.complete:
			return h.drop("duplicate_result")
		case p.Bitmap != full && p.Flags&wire.Partial == 0:
			return h.drop("unsolicited")
		}
		s.elements, s.bitmap, s.flags, s.complete = decode(payload), p.Bitmap, p.Flags, true
		return []Reply{h.result(Everybody, &p, s)}
	default:
		switch {
		case s == nil || d > 0:
			return []Reply{h.state(from, wire.Pending, &p, 0)}
		case d < 0:
			return h.drop("stale")
		case s.complete:
			return []Reply{h.state(from, wire.Pending, &p, s.bitmap)}
		}
		return []Reply{h.state(Everybody, wire.Solicit, &p, s.bitmap)}
	}
}

func (h *Home) data(from int, p *wire.Header, payload []byte, ce bool, index uint32, s *slot, d int32, full uint64) []Reply {
	flags := p.Flags & (wire.Saturated | wire.ECN)
	if ce {
		flags |= wire.ECN
	}
	switch {
	case d > 0:
		if s != nil && !s.complete {
			h.Counters["abandoned"]++
		}
		s = &slot{seq: p.Seq, bitmap: p.Bitmap, op: p.Op, flags: flags, elements: decode(payload)}
		h.slots[index] = s
	case d < 0:
		return h.drop("stale")
	case s.op != p.Op || len(s.elements) != int(p.Elems):
		return h.drop("mismatch")
	case s.complete:
		return []Reply{h.result(from, p, s)}
	case s.bitmap&p.Bitmap == 0:
		s.bitmap |= p.Bitmap
		s.flags |= flags
		for i, v := range decode(payload) {
			s.elements[i] = s.combine(s.elements[i], v)
		}
	case p.Bitmap&^s.bitmap == 0:
		return []Reply{h.state(from, wire.Pending, p, s.bitmap)}
	case s.bitmap&^p.Bitmap == 0:
		s.bitmap, s.flags, s.elements = p.Bitmap, flags, decode(payload)
	default:
		return h.drop("overlap")
	}
	if s.bitmap == full {
		s.complete = true
		h.Published[p.Seq]++
		return []Reply{h.result(Everybody, p, s)}
	}
	if p.Flags&wire.Resend != 0 {
		return []Reply{h.state(Everybody, wire.Solicit, p, s.bitmap)}
	}
	return nil
}

func (s *slot) combine(a, b int32) int32 {
	switch s.op {
	case wire.Max:
		return max(a, b)
	case wire.Min:
		return min(a, b)
	}
	sum := int64(a) + int64(b)
	if clamped := max(math.MinInt32, min(math.MaxInt32, sum)); clamped != sum {
		s.flags |= wire.Saturated
		return int32(clamped)
	}
	return int32(sum)
}

func (h *Home) drop(reason string) []Reply {
	h.Counters[reason]++
	return nil
}

func (h *Home) result(to int, p *wire.Header, s *slot) Reply {
	r := *p
	r.Type, r.Flags, r.Op, r.Bitmap, r.Elems = wire.Result, s.flags, s.op, s.bitmap, uint16(len(s.elements))
	b := make([]byte, wire.HeaderSize, wire.HeaderSize+4*len(s.elements))
	r.Encode(b)
	for _, v := range s.elements {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	return Reply{to, b}
}

func (h *Home) state(to int, t wire.Type, p *wire.Header, have uint64) Reply {
	r := *p
	r.Type, r.Flags, r.Bitmap, r.Elems = t, 0, have, 0
	b := make([]byte, wire.HeaderSize)
	r.Encode(b)
	return Reply{to, b}
}

func decode(payload []byte) []int32 {
	elements := make([]int32, len(payload)/wire.ElementSize)
	for i := range elements {
		elements[i] = int32(binary.BigEndian.Uint32(payload[i*wire.ElementSize:]))
	}
	return elements
}
