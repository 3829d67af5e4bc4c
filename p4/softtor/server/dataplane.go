package server

import (
	"net/netip"

	"spillway/p4/softtor/dataplane"
)

// Dataplane is what the server writes to and reads from. In the Set methods nil deletes. An entry that is replaced
// keeps its counter. The server calls at most one writing method at a time.
type Dataplane interface {
	Limits() (slots uint32, elements int)
	Ports() []dataplane.Port

	SetForward(prefix netip.Prefix, to *dataplane.ToPort) error
	SetGroupRoute(addr netip.Addr, group *uint16) error
	SetBridge(mac dataplane.MAC, to *dataplane.BridgeTo) error
	SetJob(id uint16, params *dataplane.JobParams) error
	SetMember(key dataplane.MemberKey, member *dataplane.Member) error
	SetRegion(key dataplane.RegionKey, mode *dataplane.RegionMode) error
	SetUplink(job uint16, uplink *dataplane.Uplink) error
	SetPublish(job uint16, publish *dataplane.Publish) error
	SetMulticast(group uint16, ports []dataplane.Port) error
	Wipe() error

	EventCount(index uint8, event int) (packets uint64, err error)
	PreemptedCount(index uint8) (packets uint64, err error)
	SaturatedCount(index uint8) (packets uint64, err error)
	ForwardCount(prefix netip.Prefix) (packets, bytes uint64, err error)
	MemberCount(key dataplane.MemberKey) (packets, bytes uint64, err error)
	Slot(index uint32) (dataplane.Slot, error)
}

var _ Dataplane = (*dataplane.Dataplane)(nil)
