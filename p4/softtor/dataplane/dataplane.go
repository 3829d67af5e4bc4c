package dataplane

import (
	"errors"
	"net/netip"
)

// Config sizes a data plane. All memory of slots is taken at load: 32 bytes a
// slot, and 4 for each element.
type Config struct {
	Slots    uint32 // 1 to 65535; 0: 32768
	Elements int    // of the longest chunk that rests: a multiple of 32 up to 832; 0: 32
}

// Dataplane is the loaded program with its tables. Its methods may be called
// from several goroutines at once.
type Dataplane struct{}

var errUnsupported = errors.New("not built yet")

// Load loads the program and its maps into the kernel and attaches nothing.
func Load(Config) (*Dataplane, error) { return nil, errUnsupported }

// Close detaches the program from all ports and frees its memory.
func (d *Dataplane) Close() error { return errUnsupported }

// Limits are the number of slots and the elements of the longest chunk that rests.
func (d *Dataplane) Limits() (slots uint32, elements int) { return 0, 0 }

// AttachPort puts the program on the interface of the current network namespace, in native mode, as port.
func (d *Dataplane) AttachPort(port Port, ifindex int) error { return errUnsupported }

// DetachPort takes the program off again.
func (d *Dataplane) DetachPort(port Port) error { return errUnsupported }

// Ports are the attached ports, ascending.
func (d *Dataplane) Ports() []Port { return nil }

// SetForward writes an entry of the table forward; nil deletes it.
func (d *Dataplane) SetForward(prefix netip.Prefix, to *ToPort) error { return errUnsupported }

// SetGroupRoute writes an entry of the table group; nil deletes it.
func (d *Dataplane) SetGroupRoute(addr netip.Addr, group *uint16) error { return errUnsupported }

// SetBridge writes an entry of the table bridge; nil deletes it.
func (d *Dataplane) SetBridge(mac MAC, to *BridgeTo) error { return errUnsupported }

// SetJob writes an entry of the table job; nil deletes it.
func (d *Dataplane) SetJob(id uint16, params *JobParams) error { return errUnsupported }

// SetMember writes an entry of the table member; nil deletes it.
func (d *Dataplane) SetMember(key MemberKey, member *Member) error { return errUnsupported }

// SetRegion writes an entry of the table region; nil deletes it.
func (d *Dataplane) SetRegion(key RegionKey, mode *RegionMode) error { return errUnsupported }

// SetUplink writes an entry of the table uplink; nil deletes it.
func (d *Dataplane) SetUplink(job uint16, uplink *Uplink) error { return errUnsupported }

// SetPublish writes an entry of the table publish; nil deletes it.
func (d *Dataplane) SetPublish(job uint16, publish *Publish) error { return errUnsupported }

// SetMulticast sets the ports of a replication group; nil deletes it.
func (d *Dataplane) SetMulticast(group uint16, ports []Port) error { return errUnsupported }

// Wipe clears all tables, slots and counters, as a reboot does. Ports stay attached.
func (d *Dataplane) Wipe() error { return errUnsupported }

// EventCount is the number of packets of an event (EventNames) at a job index.
func (d *Dataplane) EventCount(index uint8, event int) (packets uint64, err error) {
	return 0, errUnsupported
}

// PreemptedCount is the number of partial sums that a job lost to others.
func (d *Dataplane) PreemptedCount(index uint8) (packets uint64, err error) { return 0, errUnsupported }

// SaturatedCount is the number of a job's sums that left the int32 range.
func (d *Dataplane) SaturatedCount(index uint8) (packets uint64, err error) { return 0, errUnsupported }

// ForwardCount is what an entry of the table forward has forwarded.
func (d *Dataplane) ForwardCount(prefix netip.Prefix) (packets, bytes uint64, err error) {
	return 0, 0, errUnsupported
}

// MemberCount is what an entry of the table member has let in.
func (d *Dataplane) MemberCount(key MemberKey) (packets, bytes uint64, err error) {
	return 0, 0, errUnsupported
}

// ResetEvent, ResetPreempted, ResetSaturated, ResetForward and ResetMember set a counter to 0.
func (d *Dataplane) ResetEvent(index uint8, event int) error { return errUnsupported }

// ResetPreempted see ResetEvent.
func (d *Dataplane) ResetPreempted(index uint8) error { return errUnsupported }

// ResetSaturated see ResetEvent.
func (d *Dataplane) ResetSaturated(index uint8) error { return errUnsupported }

// ResetForward see ResetEvent.
func (d *Dataplane) ResetForward(prefix netip.Prefix) error { return errUnsupported }

// ResetMember see ResetEvent.
func (d *Dataplane) ResetMember(key MemberKey) error { return errUnsupported }

// Slot is the state of a slot.
func (d *Dataplane) Slot(index uint32) (Slot, error) { return Slot{}, errUnsupported }

// Process runs one Ethernet frame through the compiled program as if it had
// arrived at port, and returns what leaves, groups expanded.
func (d *Dataplane) Process(port Port, frame []byte) ([]Emission, error) { return nil, errUnsupported }

// EventNames are the names of the events by number; unused numbers have "".
func EventNames() ([]string, error) { return nil, errUnsupported }
