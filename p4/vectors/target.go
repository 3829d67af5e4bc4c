package vectors

import "net/netip"

// Target is something that runs the pipeline.
type Target interface {
	// Configure empties the target, slots and counters included, and gives it
	// the tables of the fixture.
	Configure(*Fixture) error
	// Inject sends a frame into a port and returns all that comes out for it.
	Inject(port uint16, frame []byte) ([]Emission, error)
	// Events are the counters of a job index, by event number.
	Events(index uint8) ([]uint64, error)
	// Preempted and Saturated are the counters of that name.
	Preempted(index uint8) (uint64, error)
	Saturated(index uint8) (uint64, error)
	// Forwarded is the direct counter of an entry of the forward table, and
	// Member that of an entry of the member table.
	Forwarded(prefix netip.Prefix) (Traffic, error)
	Member(port uint16, address netip.Addr, job uint16) (Traffic, error)
}

// Emission is a frame that leaves by a port.
type Emission struct {
	Port  uint16
	Frame []byte
}
