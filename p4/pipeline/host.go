package pipeline

import (
	"fmt"
	"net/netip"
	"slices"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"

	"spillway/p4/p4info"
)

// Host is a machine at a port of the switch.
type Host struct {
	Addr netip.Addr
	MAC  MAC
	Port uint16
}

// broadcast is where ARP asks.
var broadcast = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// HostEntries are the updates that connect hosts with each other: IPv4 by their addresses, everything else by their Ethernet
// addresses, and broadcasts, which ARP needs, to all of them by the multicast group flood.
func HostEntries(info *p4info.Info, flood uint16, hosts ...Host) ([]*p4v1.Update, error) {
	if flood == 0 || len(hosts) == 0 {
		return nil, fmt.Errorf("hosts: flood group %d of %d hosts", flood, len(hosts))
	}
	var ports []uint16
	list := []p4info.Entry{{Table: TableBridge, Match: []p4info.Match{p4info.Exact("mac", broadcast.number())}, Do: do("flood", arg("group", flood))}}
	for _, h := range hosts {
		if !isUnicast(h.Addr) || h.Port > MaxPort {
			return nil, fmt.Errorf("host %s at switch port %d: not an IPv4 unicast address at a port up to %d", h.Addr, h.Port, MaxPort)
		}
		ports = append(ports, h.Port)
		list = append(list,
			p4info.Entry{Table: TableForward, Match: []p4info.Match{p4info.LPM("dst", address(h.Addr), 32)}, Do: do("to_port", arg("port", h.Port), arg("mac", h.MAC.number()))},
			p4info.Entry{Table: TableBridge, Match: []p4info.Match{p4info.Exact("mac", h.MAC.number())}, Do: do("to_link", arg("port", h.Port))})
	}
	slices.Sort(ports)
	out := []*p4v1.Entity{Multicast(flood, slices.Compact(ports)...)}
	for _, e := range list {
		entity, err := tableEntity(info, e)
		if err != nil {
			return nil, err
		}
		out = append(out, entity)
	}
	return updates(p4v1.Update_INSERT, out), nil
}
