package model

import (
	"encoding/binary"
	"net/netip"

	"spillway/p4/vectors"
	"spillway/wire"
)

// frame is a frame as far as the ToR looks into it.
type frame struct {
	bytes            []byte
	ipv4             bool
	src, dst         netip.Addr
	datagram         bool // UDP without options, not a fragment
	srcPort, dstPort uint16
	// Of an admitted Spillway packet.
	header   wire.Header
	elements []int32
}

const headers = 14 + 20 + 8 // Ethernet, IPv4, UDP

// parse is nil for what is too short to be anything.
func parse(b []byte) *frame {
	if len(b) < 14 {
		return nil
	}
	f := &frame{bytes: b, ipv4: binary.BigEndian.Uint16(b[12:]) == 0x0800}
	if !f.ipv4 {
		return f
	}
	if len(b) < 34 {
		return nil
	}
	f.src, f.dst = netip.AddrFrom4([4]byte(b[26:30])), netip.AddrFrom4([4]byte(b[30:34]))
	fragment := binary.BigEndian.Uint16(b[20:])&0x3fff != 0 // more to come, or an offset
	f.datagram = b[14] == 0x45 && !fragment && b[23] == 17 && len(b) >= headers
	if f.datagram {
		f.srcPort, f.dstPort = binary.BigEndian.Uint16(b[34:]), binary.BigEndian.Uint16(b[36:])
	}
	return f
}

// spillway: one of the ports lies in the block of the homes.
func (f *frame) spillway() bool {
	inBlock := func(port uint16) bool { return port >= 9696 && port < 9728 }
	return f.datagram && (inBlock(f.srcPort) || inBlock(f.dstPort))
}

// decode reads the header, and is false for a bad one.
func (f *frame) decode() bool {
	ip, udp := binary.BigEndian.Uint16(f.bytes[16:]), binary.BigEndian.Uint16(f.bytes[38:])
	if int(ip) != len(f.bytes)-14 || int(udp) != len(f.bytes)-34 {
		return false
	}
	payload, err := f.header.Decode(f.bytes[headers:])
	if err != nil && !f.onlyBitmapMissing() {
		return false
	}
	if payload == nil {
		payload = f.bytes[headers+wire.HeaderSize:]
	}
	for i := 0; i < len(payload); i += 4 {
		f.elements = append(f.elements, int32(binary.BigEndian.Uint32(payload[i:])))
	}
	return true
}

// onlyBitmapMissing: an empty bitmap is no bad header here but a reason of its own.
func (f *frame) onlyBitmapMissing() bool {
	var h wire.Header
	b := append([]byte(nil), f.bytes[headers:]...)
	if len(b) < wire.HeaderSize {
		return false
	}
	binary.BigEndian.PutUint64(b[16:], 1)
	if _, err := h.Decode(b); err != nil {
		return false
	}
	h.Bitmap = binary.BigEndian.Uint64(f.bytes[headers+16:])
	f.header = h
	return true
}

// admit refuses, or hands the packet to its slot. The order of the checks is the
// protocol's.
func (m *Model) admit(port uint16, f *frame) ([]vectors.Emission, error) {
	h := &f.header
	if !f.decode() {
		m.events[0][badHeader]++
		return nil, nil
	}
	job := m.job(h.Job)
	if job == nil {
		m.events[0][unknownJob]++
		return nil, nil
	}
	events := &m.events[job.Index]
	if h.Generation != job.Generation {
		events[stale]++
		return nil, nil
	}
	if h.Cookie != uint32(job.Cookie) {
		events[badCookie]++
		return nil, nil
	}
	member, ok := m.member(port, f.src, job)
	if !ok {
		events[notMember]++
		return nil, nil
	}
	key := memberKey{port, f.src, job.ID}
	count := m.members[key]
	m.members[key] = vectors.Traffic{Packets: count.Packets + 1, Bytes: count.Bytes + uint64(len(f.bytes))}

	role := member.Role
	if role == "" {
		role = vectors.Worker
	}
	allowed := map[string][]wire.Type{
		vectors.Worker: {wire.Data, wire.Result, wire.Probe},
		vectors.Home:   {wire.Result, wire.Solicit, wire.Pending},
		vectors.Echo:   {wire.Result},
	}[role]
	if !contains(allowed, h.Type) {
		events[badDirection]++
		return nil, nil
	}
	foreign := h.Bitmap&^uint64(member.Bits) != 0
	switch h.Type {
	case wire.Result:
		foreign = false
	case wire.Solicit, wire.Pending:
		return m.forward(port, f, events)
	}
	if h.Bitmap == 0 || foreign {
		events[badBitmap]++
		return nil, nil
	}
	switch h.Type {
	case wire.Data:
		return m.data(port, f, job, uint64(member.Bits))
	case wire.Result:
		return m.result(port, f, job, role == vectors.Echo)
	}
	return m.forward(port, f, events)
}

func (m *Model) forward(port uint16, f *frame, events *[32]uint64) ([]vectors.Emission, error) {
	events[forwarded]++
	return m.onward(port, f)
}

func (m *Model) job(id uint16) *vectors.Job {
	for _, j := range m.fixture.Jobs {
		if j.ID == id {
			return j
		}
	}
	return nil
}

func (m *Model) member(port uint16, addr netip.Addr, job *vectors.Job) (vectors.Member, bool) {
	for _, member := range job.Members {
		if h := m.fixture.Hosts[member.Host]; h.Port == port && h.Address == addr {
			return member, true
		}
	}
	return vectors.Member{}, false
}

func contains(types []wire.Type, t wire.Type) bool {
	for _, other := range types {
		if other == t {
			return true
		}
	}
	return false
}
