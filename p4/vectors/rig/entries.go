package rig

import (
	"encoding/binary"
	"net/netip"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"

	"spillway/p4/p4info"
	"spillway/p4/pipeline"
	"spillway/p4/vectors"
)

// entries are a fixture's tables and groups as updates, and the marker's.
func entries(info *p4info.Info, f *vectors.Fixture, ports []uint16) ([]*p4v1.Update, error) {
	updates := []*p4v1.Update{insert(pipeline.Multicast(markerGroup, ports...))}
	for group, ports := range f.Groups {
		updates = append(updates, insert(pipeline.Multicast(group, ports...)))
	}
	list := []p4info.Entry{toGroup(markerAddress, markerGroup)}
	for _, r := range f.Routes() {
		list = append(list, route(r))
	}
	for _, r := range f.Multicast {
		list = append(list, toGroup(r.Address, r.Group))
	}
	for _, b := range f.Bridge {
		list = append(list, bridge(b))
	}
	for _, j := range f.Jobs {
		list = append(list, jobEntries(f, j)...)
	}
	for _, e := range list {
		entry, err := info.Encode(e)
		if err != nil {
			return nil, err
		}
		updates = append(updates, insert(&p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: entry}}))
	}
	return updates, nil
}

func insert(e *p4v1.Entity) *p4v1.Update {
	return &p4v1.Update{Type: p4v1.Update_INSERT, Entity: e}
}

func route(r vectors.Forward) p4info.Entry {
	return p4info.Entry{
		Table: pipeline.TableForward, Match: []p4info.Match{p4info.LPM("dst", ipv4(r.Prefix.Addr()), r.Prefix.Bits())},
		Do: do("to_port", arg("port", r.Port), arg("mac", mac(r.MAC))),
	}
}

func toGroup(a netip.Addr, group uint16) p4info.Entry {
	return p4info.Entry{
		Table: pipeline.TableGroup, Match: []p4info.Match{p4info.Exact("dst", ipv4(a))}, Do: do("to_group", arg("group", group)),
	}
}

func bridge(b vectors.Bridge) p4info.Entry {
	call := do("flood", arg("group", b.Flood))
	if b.Port != 0 {
		call = do("to_link", arg("port", b.Port))
	}
	return p4info.Entry{Table: pipeline.TableBridge, Match: []p4info.Match{p4info.Exact("mac", mac(b.MAC))}, Do: call}
}

func member(h vectors.Host, job uint16) []p4info.Match {
	return []p4info.Match{p4info.Exact("port", uint64(h.Port)), p4info.Exact("src", ipv4(h.Address)), p4info.Exact("job", uint64(job))}
}

func jobEntries(f *vectors.Fixture, j *vectors.Job) []p4info.Entry {
	id := []p4info.Match{p4info.Exact("job", uint64(j.ID))}
	list := []p4info.Entry{{
		Table: pipeline.TableJob, Match: id,
		Do: do("set_job", arg("index", j.Index), arg("generation", j.Generation), arg("cookie", j.Cookie), arg("key", j.Key)),
	}}
	for _, m := range j.Members {
		call := do("worker", arg("bits", m.Bits), arg("rest", j.Full()&^uint64(m.Bits)))
		if m.Role == vectors.Home || m.Role == vectors.Echo {
			call = do(m.Role)
		}
		list = append(list, p4info.Entry{Table: pipeline.TableMember, Match: member(f.Hosts[m.Host], j.ID), Do: call})
	}
	for _, r := range j.Regions {
		list = append(list, p4info.Entry{
			Table: pipeline.TableRegion, Priority: 1,
			Match: append(id[:1:1], p4info.Ternary("slot", uint64(r.Base), uint64(r.Mask()))), Do: do(r.Mode + "_slots"),
		})
	}
	if u := j.SendUp; u != nil {
		args := append([]p4info.Arg{arg("index", j.Index), arg("cookie", j.Cookie), arg("key", j.Key)}, upArgs(u)...)
		list = append(list, p4info.Entry{Table: pipeline.TableUplink, Match: id, Do: do("send_up", args...)})
	}
	if w := j.ToWorkers; w != nil {
		list = append(list, p4info.Entry{Table: pipeline.TablePublish, Match: id, Do: do("to_workers",
			arg("group", w.Group), arg("src_mac", mac(w.SrcMAC)), arg("dst_mac", mac(w.DstMAC)), arg("src", ipv4(w.Src)), arg("dst", ipv4(w.Dst)),
			arg("src_port", w.SrcPort), arg("dst_port", w.DstPort))})
	}
	if p := j.ToParent; p != nil {
		list = append(list, p4info.Entry{Table: pipeline.TablePublish, Match: id, Do: do("to_parent", append(upArgs(&p.SendUp), arg("bits", p.Bits))...)})
	}
	return list
}

func upArgs(u *vectors.SendUp) []p4info.Arg {
	return []p4info.Arg{
		arg("port", u.Port), arg("mac", mac(u.MAC)), arg("src", ipv4(u.Src)), arg("dst", ipv4(u.Dst)),
		arg("first_port", u.FirstPort), arg("port_mask", u.PortMask()),
	}
}

func do(action string, args ...p4info.Arg) p4info.Call {
	return p4info.Call{Action: action, Args: args}
}

func arg[T ~uint8 | ~uint16 | ~uint32 | ~uint64](param string, value T) p4info.Arg {
	return p4info.Arg{Param: param, Value: uint64(value)}
}

func ipv4(a netip.Addr) uint64 {
	b := a.As4()
	return uint64(binary.BigEndian.Uint32(b[:]))
}

func mac(m vectors.MAC) uint64 {
	return binary.BigEndian.Uint64(append([]byte{0, 0}, m[:]...))
}
