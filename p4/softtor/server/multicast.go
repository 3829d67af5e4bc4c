package server

import (
	"fmt"
	"maps"
	"slices"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"spillway/p4/p4info"
	"spillway/p4/softtor/dataplane"
)

// What a group's numbers may be: both have 16 bits in the pipeline.
const (
	maxGroup    = 0xffff
	maxInstance = 0xffff
)

// portWidth is the width of a port number in bits.
const portWidth = 9

// group is a multicast group.
type group struct {
	message *p4v1.MulticastGroupEntry // as it is read
	ports   []dataplane.Port
}

func groupName(id uint32) string { return fmt.Sprintf("multicast_group_entry[%d]", id) }

func (s *state) updateReplication(kind p4v1.Update_Type, m *p4v1.PacketReplicationEngineEntry) (undo func() error, err error) {
	entry := m.GetMulticastGroupEntry()
	if entry == nil {
		return nil, notMulticast(m)
	}
	id := entry.GetMulticastGroupId()
	switch {
	case id == 0:
		return nil, refuse(codes.InvalidArgument, "multicast_group_entry", "multicast_group_id", "0 is no group")
	case id > maxGroup:
		return nil, refuse(codes.InvalidArgument, "multicast_group_entry", "multicast_group_id", "%d is over %d", id, maxGroup)
	}
	old := s.groups[id]
	switch {
	case kind == p4v1.Update_INSERT && old != nil:
		return nil, refuse(codes.AlreadyExists, groupName(id), "", "the group exists")
	case kind != p4v1.Update_INSERT && old == nil:
		return nil, refuse(codes.NotFound, groupName(id), "", "there is no such group")
	case kind == p4v1.Update_DELETE:
		// Entries may still name it: their packets are dropped then, as the specification wants.
		return s.replaceGroup(id, old, nil)
	}
	replacement, err := s.newGroup(entry)
	if err != nil {
		return nil, err
	}
	return s.replaceGroup(id, old, replacement)
}

func notMulticast(m *p4v1.PacketReplicationEngineEntry) *refusal {
	if m.GetType() == nil {
		return refuse(codes.InvalidArgument, "", "packet_replication_engine_entry", "its type is not set")
	}
	return refuse(codes.Unimplemented, "", "packet_replication_engine_entry", "the pipeline has no %T", m.GetType())
}

// newGroup checks the replicas of a group.
func (s *state) newGroup(m *p4v1.MulticastGroupEntry) (*group, error) {
	name := groupName(m.GetMulticastGroupId())
	if len(m.GetReplicas()) == 0 {
		return nil, refuse(codes.InvalidArgument, name, "replicas", "a group without ports")
	}
	out := &group{message: &p4v1.MulticastGroupEntry{MulticastGroupId: m.GetMulticastGroupId(), Metadata: m.GetMetadata()}}
	instances := map[dataplane.Port]uint32{}
	for n, replica := range m.GetReplicas() {
		field := fmt.Sprintf("replicas[%d]", n)
		if len(replica.GetBackupReplicas()) > 0 {
			return nil, refuse(codes.Unimplemented, name, field+".backup_replicas", "there are no backups here")
		}
		if replica.GetInstance() > maxInstance {
			return nil, refuse(codes.InvalidArgument, name, field+".instance", "%d is over %d", replica.GetInstance(), maxInstance)
		}
		canonical := proto.Clone(replica).(*p4v1.Replica)
		number, err := replicaPort(replica)
		if err != nil {
			return nil, refuse(codes.OutOfRange, name, field+".port", "%v", err)
		}
		switch replica.GetPortKind().(type) {
		case nil:
			return nil, refuse(codes.InvalidArgument, name, field+".port", "it is not set")
		case *p4v1.Replica_Port:
			canonical.PortKind = &p4v1.Replica_Port{Port: p4info.Bytes(number)}
		}
		if err := s.checkPort(name, field+".port", number); err != nil {
			return nil, err
		}
		port := dataplane.Port(number)
		if instance, ok := instances[port]; ok {
			if instance == replica.GetInstance() {
				return nil, refuse(codes.InvalidArgument, name, field, "port %d with instance %d is there twice", number, instance)
			}
			return nil, refuse(codes.Unimplemented, name, field, "a second copy to port %d", number)
		}
		instances[port] = replica.GetInstance()
		out.message.Replicas = append(out.message.Replicas, canonical)
		out.ports = append(out.ports, port)
	}
	slices.Sort(out.ports)
	return out, nil
}

// replicaPort is the port number of a replica, as controllers say it now or as they did before 1.4.
func replicaPort(replica *p4v1.Replica) (uint64, error) {
	if b, ok := replica.GetPortKind().(*p4v1.Replica_Port); ok {
		return p4info.Value(b.Port, portWidth)
	}
	return uint64(replica.GetEgressPort()), nil //lint:ignore SA1019 controllers may still use it
}

func (s *state) replaceGroup(id uint32, old, replacement *group) (undo func() error, err error) {
	if s.live {
		var ports []dataplane.Port
		if replacement != nil {
			ports = replacement.ports
		}
		if err := s.dataplane.SetMulticast(uint16(id), ports); err != nil {
			return nil, err
		}
	}
	if replacement != nil {
		s.groups[id] = replacement
	} else {
		delete(s.groups, id)
	}
	return func() error {
		_, err := s.replaceGroup(id, replacement, old)
		return err
	}, nil
}

// readReplication gives one group, or all.
func (s *state) readReplication(m *p4v1.PacketReplicationEngineEntry, found func(*p4v1.Entity) error) error {
	if m.GetMulticastGroupEntry() == nil {
		return notMulticast(m)
	}
	id := m.GetMulticastGroupEntry().GetMulticastGroupId()
	if _, ok := s.groups[id]; !ok && id != 0 {
		return refuse(codes.NotFound, groupName(id), "", "there is no such group")
	}
	for _, other := range slices.Sorted(maps.Keys(s.groups)) {
		if id != 0 && other != id {
			continue
		}
		if err := found(&p4v1.Entity{Entity: &p4v1.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4v1.PacketReplicationEngineEntry{
			Type: &p4v1.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: s.groups[other].message},
		}}}); err != nil {
			return err
		}
	}
	return nil
}
