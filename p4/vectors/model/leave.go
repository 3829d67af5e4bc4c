package model

import (
	"spillway/p4/vectors"
	"spillway/wire"
)

// leaving is the frame with the slot's content in it, for the addresses to be
// filled in.
func (m *Model) leaving(f *frame, s *slot, flags wire.Flags) *vectors.Frame {
	b := f.bytes
	if s.flags&wire.Saturated != 0 {
		m.saturated[s.job.Index]++
	}
	h := f.header
	h.Job, h.Generation, h.Cookie, h.Seq, h.Op = s.job.ID, s.job.Generation, uint32(s.job.Cookie), s.seq, s.op
	h.Flags, h.Bitmap = flags&^wire.ECN|s.flags, s.bitmap
	return &vectors.Frame{
		EthDst: vectors.MAC(b[:6]), EthSrc: vectors.MAC(b[6:12]), EtherType: 0x0800,
		TOS: b[15], ID: uint16(b[18])<<8 | uint16(b[19]), Fragment: uint16(b[20])<<8 | uint16(b[21]), TTL: b[22], Protocol: b[23],
		Src: f.src, Dst: f.dst, SrcPort: f.srcPort, DstPort: f.dstPort, Checksum: vectors.None,
		Header: &h, Elements: s.elements,
	}
}

// up sends a partial sum to its home. flags are those of the packet that
// carries it, where that is of the same chunk.
func (m *Model) up(f *frame, s *slot, flags wire.Flags) ([]vectors.Emission, error) {
	out, u := m.leaving(f, s, flags), s.job.SendUp
	if u == nil {
		return nil, nil
	}
	out.Header.Priority = 0
	return to(out, u), nil
}

// publish sends a complete sum to the workers, or to the parent.
func (m *Model) publish(f *frame, s *slot) ([]vectors.Emission, error) {
	out := m.leaving(f, s, 0)
	switch w, p := s.job.ToWorkers, s.job.ToParent; {
	case w != nil:
		out.Header.Type, out.Checksum = wire.Result, vectors.Full
		out.EthSrc, out.EthDst, out.Src, out.Dst, out.SrcPort, out.DstPort = w.SrcMAC, w.DstMAC, w.Src, w.Dst, w.SrcPort, w.DstPort
		return m.copies(w.Group, out.Bytes()), nil
	case p != nil:
		out.Header.Priority, out.Header.Bitmap = 0, uint64(p.Bits)
		return to(out, &p.SendUp), nil
	}
	return nil, nil
}

func to(out *vectors.Frame, u *vectors.SendUp) []vectors.Emission {
	out.EthDst, out.Src, out.Dst = u.MAC, u.Src, u.Dst
	out.DstPort = u.FirstPort + uint16(out.Header.Seq>>6)&(max(u.Ports, 1)-1)
	return []vectors.Emission{{Port: u.Port, Frame: out.Bytes()}}
}
