package pipeline

import (
	"net/netip"
	"slices"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"

	"spillway/p4/p4info"
)

// Entries are the updates that put a job into the ToR, in the order in which they must be made: what entries refer to comes before
// them, and the members, which open the door to packets, come last. It refuses a job that cannot be (see Job.Validate).
func Entries(info *p4info.Info, job Job) ([]*p4v1.Update, error) {
	entities, err := entities(info, job)
	if err != nil {
		return nil, err
	}
	return updates(p4v1.Update_INSERT, entities), nil
}

// Removal are the updates that take a job out again, in the reverse order.
func Removal(info *p4info.Info, job Job) ([]*p4v1.Update, error) {
	entities, err := entities(info, job)
	if err != nil {
		return nil, err
	}
	slices.Reverse(entities)
	return updates(p4v1.Update_DELETE, entities), nil
}

func updates(kind p4v1.Update_Type, entities []*p4v1.Entity) []*p4v1.Update {
	out := make([]*p4v1.Update, len(entities))
	for n, entity := range entities {
		out[n] = &p4v1.Update{Type: kind, Entity: entity}
	}
	return out
}

func entities(info *p4info.Info, job Job) ([]*p4v1.Entity, error) {
	if err := job.Validate(); err != nil {
		return nil, err
	}
	id := p4info.Exact("job", uint64(job.ID))
	list := []p4info.Entry{
		{Table: TableGroup, Match: []p4info.Match{p4info.Exact("dst", address(job.Group))}, Do: do("to_group", arg("group", job.MulticastGroup))},
		{Table: TablePublish, Match: []p4info.Match{id}, Do: job.publish()},
		{Table: TableUplink, Match: []p4info.Match{id}, Do: do("send_up",
			arg("index", job.Index), arg("port", job.HomePort), arg("mac", job.HomeMAC.number()),
			arg("src", address(job.TorAddr)), arg("dst", address(job.Home.Addr())),
			arg("first_port", job.Home.Port()), arg("port_mask", max(job.HomePorts, 1)-1),
			arg("cookie", job.Cookie), arg("key", job.Key))},
	}
	if r := job.Region; r != nil {
		list = append(list, p4info.Entry{
			Table: TableRegion, Priority: 1,
			Match: []p4info.Match{id, p4info.Ternary("slot", uint64(r.Base), uint64(r.Mask()))},
			Do:    do(modeActions[r.Mode]),
		})
	}
	list = append(list, p4info.Entry{Table: TableJob, Match: []p4info.Match{id}, Do: do("set_job",
		arg("index", job.Index), arg("generation", job.Generation), arg("cookie", job.Cookie), arg("key", job.Key))})
	list = append(list, job.members(id)...)

	out := []*p4v1.Entity{Multicast(job.MulticastGroup, job.replicas()...)}
	for _, e := range list {
		entity, err := tableEntity(info, e)
		if err != nil {
			return nil, err
		}
		out = append(out, entity)
	}
	return out, nil
}

// publish is the way of a complete chunk: down to the workers, in the home's name, or up to the parent.
func (j *Job) publish() p4info.Call {
	if p := j.Parent; p != nil {
		return do("to_parent", arg("port", p.Port), arg("mac", p.MAC.number()),
			arg("src", address(j.TorAddr)), arg("dst", address(p.Addr.Addr())),
			arg("first_port", p.Addr.Port()), arg("port_mask", max(p.Ports, 1)-1), arg("bits", p.Bits))
	}
	return do("to_workers", arg("group", j.MulticastGroup), arg("src_mac", j.HomeMAC.number()), arg("dst_mac", MulticastMAC(j.Group).number()),
		arg("src", address(j.Home.Addr())), arg("dst", address(j.Group)),
		arg("src_port", j.Home.Port()), arg("dst_port", j.WorkerPort))
}

func (j *Job) members(id p4info.Match) []p4info.Entry {
	member := func(port uint16, addr netip.Addr, call p4info.Call) p4info.Entry {
		return p4info.Entry{Table: TableMember, Match: []p4info.Match{
			p4info.Exact("port", uint64(port)), p4info.Exact("src", address(addr)), id,
		}, Do: call}
	}
	list := []p4info.Entry{member(j.HomePort, j.Home.Addr(), do("home"))}
	if p := j.Parent; p != nil && (p.Port != j.HomePort || p.Addr.Addr() != j.Home.Addr()) {
		list = append(list, member(p.Port, p.Addr.Addr(), do("home")))
	}
	if j.EchoPort != 0 {
		list = append(list, member(j.EchoPort, j.Home.Addr(), do("echo")))
	}
	for _, w := range j.Workers {
		list = append(list, member(w.Port, w.Addr, do("worker", arg("bits", w.Bits), arg("rest", j.Full()&^w.Bits))))
	}
	return list
}

// replicas are the ports of the job's multicast group: a port with several workers gets one copy.
func (j *Job) replicas() []uint16 {
	var ports []uint16
	for _, w := range j.Workers {
		ports = append(ports, w.Port)
	}
	if j.EchoPort != 0 {
		ports = append(ports, j.EchoPort)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// Multicast is the entity of a multicast group that sends a copy to each of the ports.
func Multicast(group uint16, ports ...uint16) *p4v1.Entity {
	entry := &p4v1.MulticastGroupEntry{MulticastGroupId: uint32(group)}
	for n, port := range ports {
		entry.Replicas = append(entry.Replicas, &p4v1.Replica{
			PortKind: &p4v1.Replica_Port{Port: p4info.Bytes(uint64(port))},
			Instance: uint32(n + 1),
		})
	}
	return &p4v1.Entity{Entity: &p4v1.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4v1.PacketReplicationEngineEntry{
		Type: &p4v1.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: entry},
	}}}
}

// MulticastMAC is the Ethernet address of an IPv4 multicast group (RFC 1112, section 6.4).
func MulticastMAC(group netip.Addr) MAC {
	b := group.As4()
	return MAC{0x01, 0x00, 0x5e, b[1] & 0x7f, b[2], b[3]}
}

func tableEntity(info *p4info.Info, e p4info.Entry) (*p4v1.Entity, error) {
	entry, err := info.Encode(e)
	if err != nil {
		return nil, err
	}
	return &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: entry}}, nil
}

func do(action string, args ...p4info.Arg) p4info.Call {
	return p4info.Call{Action: action, Args: args}
}

func arg[T uint8 | uint16 | uint32 | uint64](param string, value T) p4info.Arg {
	return p4info.Arg{Param: param, Value: uint64(value)}
}

// address is an IPv4 address as a number.
func address(a netip.Addr) uint64 {
	b := a.As4()
	return uint64(b[0])<<24 | uint64(b[1])<<16 | uint64(b[2])<<8 | uint64(b[3])
}
