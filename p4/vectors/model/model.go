package model

import (
	"net/netip"
	"slices"

	"spillway/p4/vectors"
	"spillway/wire"
)

// Events by number, as docs/protocol.md names them.
const (
	claimed = iota
	merged
	completed
	preempts
	spilled
	resendEvicted
	passed
	duplicate
	overlap
	freed
	forwarded
	mismatch

	unknownJob   = 16
	stale        = 17
	badCookie    = 18
	notMember    = 19
	badBitmap    = 20
	badSlot      = 21
	badHeader    = 22
	badDirection = 23
)

// Urgency counts in 256ths of a priority level.
const (
	level  = 256
	margin = 128
)

const noSlot = 0xffff

// Model is a ToR with the tables of a fixture.
type Model struct {
	fixture *vectors.Fixture
	slots   map[uint16]*slot

	events    [256][32]uint64
	preempted [256]uint64
	saturated [256]uint64
	routes    map[netip.Prefix]vectors.Traffic
	members   map[memberKey]vectors.Traffic
}

type memberKey struct {
	port uint16
	addr netip.Addr
	job  uint16
}

// slot is what a taken slot holds; a free one is not in the map.
type slot struct {
	job      *vectors.Job
	seq      uint32
	op       wire.Op
	urgency  int
	bitmap   uint64
	flags    wire.Flags // ECN, SATURATED
	elements []int32
}

func (s *slot) id() uint32 { return s.seq ^ uint32(s.job.Key) }

// New is a model without tables.
func New() *Model {
	m := &Model{}
	m.reset(&vectors.Fixture{})
	return m
}

func (m *Model) reset(f *vectors.Fixture) {
	*m = Model{
		fixture: f, slots: map[uint16]*slot{},
		routes: map[netip.Prefix]vectors.Traffic{}, members: map[memberKey]vectors.Traffic{},
	}
}

// Configure implements vectors.Target.
func (m *Model) Configure(f *vectors.Fixture) error {
	m.reset(f)
	return nil
}

// Events implements vectors.Target.
func (m *Model) Events(index uint8) ([]uint64, error) {
	return slices.Clone(m.events[index][:]), nil
}

// Preempted implements vectors.Target.
func (m *Model) Preempted(index uint8) (uint64, error) { return m.preempted[index], nil }

// Saturated implements vectors.Target.
func (m *Model) Saturated(index uint8) (uint64, error) { return m.saturated[index], nil }

// Forwarded implements vectors.Target.
func (m *Model) Forwarded(prefix netip.Prefix) (vectors.Traffic, error) {
	return m.routes[prefix], nil
}

// Member implements vectors.Target.
func (m *Model) Member(port uint16, address netip.Addr, job uint16) (vectors.Traffic, error) {
	return m.members[memberKey{port, address, job}], nil
}

// Inject implements vectors.Target.
func (m *Model) Inject(port uint16, b []byte) ([]vectors.Emission, error) {
	f := parse(b)
	if f == nil { // nothing is known to do with it
		return nil, nil
	}
	if f.spillway() {
		return m.admit(port, f)
	}
	return m.onward(port, f)
}

// onward sends the frame where its address says.
func (m *Model) onward(port uint16, f *frame) ([]vectors.Emission, error) {
	if !f.ipv4 {
		return m.bridge(port, f)
	}
	if f.dst.IsMulticast() {
		for _, r := range m.fixture.Multicast {
			if r.Address == f.dst {
				return m.copies(r.Group, f.bytes), nil
			}
		}
		return nil, nil
	}
	var best *vectors.Forward
	for _, r := range m.fixture.Routes() {
		if r.Prefix.Contains(f.dst) && (best == nil || r.Prefix.Bits() > best.Prefix.Bits()) {
			best = &r
		}
	}
	if best == nil {
		return nil, nil
	}
	count := m.routes[best.Prefix]
	m.routes[best.Prefix] = vectors.Traffic{Packets: count.Packets + 1, Bytes: count.Bytes + uint64(len(f.bytes))}
	out := slices.Clone(f.bytes)
	copy(out, best.MAC[:])
	return []vectors.Emission{{Port: best.Port, Frame: out}}, nil
}

func (m *Model) bridge(port uint16, f *frame) ([]vectors.Emission, error) {
	for _, b := range m.fixture.Bridge {
		if string(b.MAC[:]) != string(f.bytes[:6]) {
			continue
		}
		if b.Port != 0 {
			return []vectors.Emission{{Port: b.Port, Frame: f.bytes}}, nil
		}
		all := m.copies(b.Flood, f.bytes)
		return slices.DeleteFunc(all, func(e vectors.Emission) bool { return e.Port == port }), nil
	}
	return nil, nil
}

func (m *Model) copies(group uint16, frame []byte) []vectors.Emission {
	var all []vectors.Emission
	for _, port := range m.fixture.Groups[group] {
		all = append(all, vectors.Emission{Port: port, Frame: frame})
	}
	return all
}
