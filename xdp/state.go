package xdp

import (
	"errors"
	"net/netip"
	"time"

	"spillway/wire"
)

// SlotState is what a slot of a job holds: a chunk of the job's present generation.
type SlotState struct {
	Index    uint32 // in the job's ring: seq mod R
	Seq      uint32
	Bitmap   uint64 // who is in it
	Elements int
	Op       wire.Op
	Flags    wire.Flags
	Complete bool          // the sum and the bitmap are final
	Age      time.Duration // since its first contribution came; exact to a few milliseconds
}

// MemberState is what came from a member of a job since the job was added.
type MemberState struct {
	Addr    netip.Addr
	Bits    uint64
	Packets uint64
	Silent  time.Duration // since the last of them; exact to a few milliseconds, and meaningless without packets
}

// Slots returns the slots of a job that hold a chunk, by index.
func (a *Aggregator) Slots(job uint16) ([]SlotState, error) { return nil, errors.ErrUnsupported }

// Members returns the members of a job, in the order in which AddJob was given them.
func (a *Aggregator) Members(job uint16) ([]MemberState, error) { return nil, errors.ErrUnsupported }

// Jobs returns the jobs that are installed, by id. Members of jobs with a multicast group have neither MAC nor interface.
func (a *Aggregator) Jobs() []Job { return nil }
