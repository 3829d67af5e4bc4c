package dataplane

import "net/netip"

// Port is a port number as P4 programs have them (9 bits). Which interface is
// behind it AttachPort says.
type Port uint16

// MaxPort is the largest port number.
const MaxPort = 511

// MAC is an Ethernet address.
type MAC = [6]byte

// ToPort is an entry of the table forward.
type ToPort struct {
	Drop bool // the action drop: the rest means nothing
	Port Port
	MAC  MAC // of the next hop: the packet's new Ethernet destination
}

// BridgeTo is an entry of the table bridge.
type BridgeTo struct {
	Drop  bool // the action drop: the rest means nothing
	Flood bool // to all ports of Group but the one the frame came in by; else to Port
	Port  Port
	Group uint16
}

// JobParams is an entry of the table job.
type JobParams struct {
	Index      uint8 // of the job's counters; 1 to 255, for 0 counts packets without a job
	Generation uint8
	Cookie     uint32
	Key        uint32 // seq XOR key is a chunk's id in its slot
}

// Role says what a member may send.
type Role uint8

// The roles, named as the actions of the table member.
const (
	Stranger Role = iota // nothing, as if there were no entry
	Worker               // DATA, RESULT, PROBE
	Home                 // RESULT, SOLICIT, PENDING
	Echo                 // RESULT: the copy that frees a slot and goes nowhere
)

// MemberKey is the key of the table member: whom a packet must come from.
type MemberKey struct {
	Port Port
	Addr netip.Addr
	Job  uint16
}

// Member is an entry of the table member.
type Member struct {
	Role Role
	Bits uint64 // a worker's own bits of the contribution bitmap
	Rest uint64 // everyone else's: Bits | Rest is the full bitmap
}

// RegionMode says how the slots of a region are shared.
type RegionMode uint8

// The modes, named as the actions of the table region.
const (
	NoSlots        RegionMode = iota // as if there were no entry
	PrivateSlots                     // one job's own
	SharedSlots                      // more urgent chunks preempt
	FirstComeSlots                   // whoever has a slot keeps it until its chunk is complete
)

// RegionKey is the key of the table region: the slots whose index has Value
// under Mask. They are a power of two of slots from a multiple of their number on.
type RegionKey struct {
	Job         uint16
	Value, Mask uint16
}

// Uplink is an entry of the table uplink: how a partial sum of a job reaches its home.
type Uplink struct {
	Index     uint8 // of the job's counter of preempted partial sums
	Port      Port
	MAC       MAC
	Src, Dst  netip.Addr // the ToR's own address of this job; the home
	FirstPort uint16     // UDP port of chunk seq: FirstPort + (seq / 64 & PortMask)
	PortMask  uint16
	Cookie    uint32
	Key       uint32 // as in JobParams
}

// Publish is an entry of the table publish: where a job's complete sums go.
// Exactly one of the two is set.
type Publish struct {
	ToWorkers *ToWorkers
	ToParent  *ToParent
}

// ToWorkers makes the sum the RESULT, for all ports of a group.
type ToWorkers struct {
	Group            uint16
	SrcMAC, DstMAC   MAC
	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
}

// ToParent makes the sum one contribution to the parent.
type ToParent struct {
	Port      Port
	MAC       MAC
	Src, Dst  netip.Addr
	FirstPort uint16 // as in Uplink
	PortMask  uint16
	Bits      uint64 // this ToR's in the parent's bitmap
}

// Slot is the state of a slot, but for its elements.
type Slot struct {
	ID      uint32 // seq XOR the job's key
	Urgency uint32 // priority << 24, less 1 << 16 for each contest lost; 0: free
	Tag     uint32 // job << 16 | generation << 8
	Bitmap  uint64
	Flags   uint8 // wire.ECN, wire.Saturated, and the op << 4
}

// Emission is a frame that leaves by a port.
type Emission struct {
	Port  Port
	Frame []byte
}
