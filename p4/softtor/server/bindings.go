package server

import (
	"errors"
	"net/netip"

	"spillway/p4/p4info"
	"spillway/p4/pipeline"
	"spillway/p4/softtor/dataplane"
)

const tableLimits = pipeline.TableLimits

// binding is a table's way into the data plane: set writes an entry, or deletes it where it is not present. Entries whose action
// is what a miss does are deleted there.
type binding struct {
	set func(dp Dataplane, e p4info.Entry, present bool) error
}

var bindings = map[string]binding{
	pipeline.TableForward: {func(dp Dataplane, e p4info.Entry, present bool) error {
		to := &dataplane.ToPort{Drop: e.Do.Action == "drop", Port: port(e), MAC: mac(e.Do.Arg("mac"))}
		return dp.SetForward(prefix(e), when(present, to))
	}},
	pipeline.TableGroup: {func(dp Dataplane, e p4info.Entry, present bool) error {
		group := uint16(e.Do.Arg("group"))
		return inert(e, dp.SetGroupRoute(addr(key(e, "dst")), when(present && e.Do.Action == "to_group", &group)))
	}},
	pipeline.TableBridge: {func(dp Dataplane, e p4info.Entry, present bool) error {
		to := &dataplane.BridgeTo{Drop: e.Do.Action == "drop", Flood: e.Do.Action == "flood", Port: port(e), Group: uint16(e.Do.Arg("group"))}
		return dp.SetBridge(mac(key(e, "mac")), when(present, to))
	}},
	pipeline.TableJob: {func(dp Dataplane, e p4info.Entry, present bool) error {
		params := &dataplane.JobParams{
			Index: uint8(e.Do.Arg("index")), Generation: uint8(e.Do.Arg("generation")),
			Cookie: uint32(e.Do.Arg("cookie")), Key: uint32(e.Do.Arg("key")),
		}
		return dp.SetJob(job(e), when(present, params))
	}},
	pipeline.TableMember: {func(dp Dataplane, e p4info.Entry, present bool) error {
		member := &dataplane.Member{Role: roles[e.Do.Action], Bits: e.Do.Arg("bits"), Rest: e.Do.Arg("rest")}
		return dp.SetMember(memberKey(e), when(present, member))
	}},
	pipeline.TableRegion: {func(dp Dataplane, e p4info.Entry, present bool) error {
		mode := modes[e.Do.Action]
		return dp.SetRegion(regionKey(e), when(present, &mode))
	}},
	pipeline.TableUplink: {func(dp Dataplane, e p4info.Entry, present bool) error {
		uplink := &dataplane.Uplink{
			Index: uint8(e.Do.Arg("index")), Port: port(e), MAC: mac(e.Do.Arg("mac")),
			Src: addr(e.Do.Arg("src")), Dst: addr(e.Do.Arg("dst")),
			FirstPort: uint16(e.Do.Arg("first_port")), PortMask: uint16(e.Do.Arg("port_mask")),
			Cookie: uint32(e.Do.Arg("cookie")), Key: uint32(e.Do.Arg("key")),
		}
		return inert(e, dp.SetUplink(job(e), when(present && e.Do.Action == "send_up", uplink)))
	}},
	pipeline.TablePublish: {func(dp Dataplane, e p4info.Entry, present bool) error {
		var publish dataplane.Publish
		switch e.Do.Action {
		case "to_workers":
			publish.ToWorkers = &dataplane.ToWorkers{
				Group: uint16(e.Do.Arg("group")), SrcMAC: mac(e.Do.Arg("src_mac")), DstMAC: mac(e.Do.Arg("dst_mac")),
				Src: addr(e.Do.Arg("src")), Dst: addr(e.Do.Arg("dst")),
				SrcPort: uint16(e.Do.Arg("src_port")), DstPort: uint16(e.Do.Arg("dst_port")),
			}
		case "to_parent":
			publish.ToParent = &dataplane.ToParent{
				Port: port(e), MAC: mac(e.Do.Arg("mac")), Src: addr(e.Do.Arg("src")), Dst: addr(e.Do.Arg("dst")),
				FirstPort: uint16(e.Do.Arg("first_port")), PortMask: uint16(e.Do.Arg("port_mask")), Bits: e.Do.Arg("bits"),
			}
		default:
			present = false
		}
		return inert(e, dp.SetPublish(job(e), when(present, &publish)))
	}},
}

var roles = map[string]dataplane.Role{"worker": dataplane.Worker, "home": dataplane.Home, "echo": dataplane.Echo}

var modes = map[string]dataplane.RegionMode{
	"private_slots": dataplane.PrivateSlots, "shared_slots": dataplane.SharedSlots, "first_come_slots": dataplane.FirstComeSlots,
}

// inert forgives that there is nothing to delete, for an entry that was never in the data plane because it does what a miss does.
func inert(e p4info.Entry, err error) error {
	if e.Do.Action == "drop" && errors.Is(err, dataplane.ErrNoEntry) {
		return nil
	}
	return err
}

// when is v, or nil to delete.
func when[T any](present bool, v *T) *T {
	if present {
		return v
	}
	return nil
}

// key is the value of a key of an entry.
func key(e p4info.Entry, name string) uint64 {
	for _, m := range e.Match {
		if m.Key == name {
			return m.Value
		}
	}
	return 0
}

func job(e p4info.Entry) uint16 { return uint16(key(e, "job")) }

func port(e p4info.Entry) dataplane.Port { return dataplane.Port(e.Do.Arg("port")) }

func addr(v uint64) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}

func mac(v uint64) dataplane.MAC {
	return dataplane.MAC{byte(v >> 40), byte(v >> 32), byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}
}

// prefix is the key of forward; an entry without a match is for all addresses.
func prefix(e p4info.Entry) netip.Prefix {
	if len(e.Match) == 0 {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(addr(e.Match[0].Value), e.Match[0].Prefix)
}

func memberKey(e p4info.Entry) dataplane.MemberKey {
	return dataplane.MemberKey{Port: dataplane.Port(key(e, "port")), Addr: addr(key(e, "src")), Job: job(e)}
}

func regionKey(e p4info.Entry) dataplane.RegionKey {
	for _, m := range e.Match {
		if m.Key == "slot" {
			return dataplane.RegionKey{Job: job(e), Value: uint16(m.Value), Mask: uint16(m.Mask)}
		}
	}
	return dataplane.RegionKey{Job: job(e)}
}
