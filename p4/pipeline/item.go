package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/encoding/prototext"

	"spillway/p4/p4info"
)

// Key is what P4Runtime tells entities of a pipeline apart by, in words: table, match and priority, or the number of a multicast
// group.
type Key string

// An Item is a table entry or a multicast group in canonical form. Two that mean the same have the same Key, and the same Value too when
// they do the same, whatever the order of keys, parameters and replicas in their messages and however long their bytestrings are.
type Item struct {
	Key   Key
	Value string
	// Entity is the message that it was made of.
	Entity *p4v1.Entity
	// Table is the table's name, empty for a multicast group.
	Table string
	rank  int
}

// order is how tables depend on each other: an entry names what is earlier, and members open the door to packets.
var order = []string{TableForward, TableBridge, TableGroup, TablePublish, TableUplink, TableRegion, TableJob, TableMember}

// A Stage is a part of an order of writing. What is in one stage may be in one batch.
type Stage int

// The stages in the order of insertion; deletions go the other way.
const (
	StageGroups Stage = iota
	StageTables
	StageMembers
	Stages
)

// Stage is the item's.
func (i Item) Stage() Stage {
	switch i.Table {
	case "":
		return StageGroups
	case TableMember:
		return StageMembers
	}
	return StageTables
}

// Before compares the places of two items in an order of insertion, which is the same for every set of items.
func (i Item) Before(other Item) int {
	if i.rank != other.rank {
		return i.rank - other.rank
	}
	return strings.Compare(string(i.Key), string(other.Key))
}

// Update is what inserts, modifies or deletes the item; a deletion names it only.
func (i Item) Update(kind p4v1.Update_Type) *p4v1.Update {
	if kind != p4v1.Update_DELETE {
		return &p4v1.Update{Type: kind, Entity: i.Entity}
	}
	if i.Table == "" {
		return &p4v1.Update{Type: kind, Entity: Multicast(i.Group())}
	}
	e := i.Entity.GetTableEntry()
	return &p4v1.Update{Type: kind, Entity: &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: &p4v1.TableEntry{
		TableId: e.GetTableId(), Match: e.GetMatch(), Priority: e.GetPriority(),
	}}}}
}

// Group is the number of a multicast group, 0 for a table entry.
func (i Item) Group() uint16 {
	return uint16(i.Entity.GetPacketReplicationEngineEntry().GetMulticastGroupEntry().GetMulticastGroupId())
}

// Ports are those of a multicast group.
func (i Item) Ports() []uint16 {
	var ports []uint16
	for _, r := range i.Entity.GetPacketReplicationEngineEntry().GetMulticastGroupEntry().GetReplicas() {
		ports = append(ports, uint16(replicaPort(r)))
	}
	slices.Sort(ports)
	return ports
}

// NewItem makes an item of an entity. It refuses what is neither an entry of the program's tables nor a multicast group.
func NewItem(info *p4info.Info, entity *p4v1.Entity) (Item, error) {
	if group := entity.GetPacketReplicationEngineEntry().GetMulticastGroupEntry(); group != nil {
		return Item{Key: groupKey(group.GetMulticastGroupId()), Value: replicas(group), Entity: entity, rank: -1}, nil
	}
	if entity.GetTableEntry() == nil {
		return Item{}, fmt.Errorf("%T is neither a table entry nor a multicast group", entity.GetEntity())
	}
	e, err := info.Decode(entity.GetTableEntry())
	if err != nil {
		return Item{}, err
	}
	return Item{Key: entryKey(e), Value: callValue(e.Do), Entity: entity, Table: e.Table, rank: slices.Index(order, e.Table)}, nil
}

// Items are those of updates, as Entries and HostEntries make them.
func Items(info *p4info.Info, updates []*p4v1.Update) ([]Item, error) {
	items := make([]Item, len(updates))
	for n, u := range updates {
		var err error
		if items[n], err = NewItem(info, u.GetEntity()); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// ReadItems reads all entries of all tables and all multicast groups. Default entries and those of the program are left out: they are
// not a controller's to add or to take away. An entry that the P4Info does not explain has its message for a key.
func ReadItems(ctx context.Context, tor Reader, info *p4info.Info) ([]Item, error) {
	found, err := tor.Read(ctx, &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: &p4v1.TableEntry{}}}, Multicast(0))
	if err != nil {
		return nil, fmt.Errorf("read the tables and the multicast groups: %w", err)
	}
	items := make([]Item, 0, len(found))
	for _, entity := range found {
		entry := entity.GetTableEntry()
		if entry.GetIsDefaultAction() || entry.GetIsConst() {
			continue
		}
		if table, ok := info.TableByID(entry.GetTableId()); ok && table.Const {
			continue
		}
		item, err := NewItem(info, entity)
		if err != nil {
			item = Item{Key: Key(prototext.MarshalOptions{}.Format(entity)), Entity: entity, Table: fmt.Sprintf("table %#x", entry.GetTableId()), rank: len(order)}
		}
		items = append(items, item)
	}
	return items, nil
}

func groupKey(id uint32) Key { return Key("multicast group " + strconv.FormatUint(uint64(id), 10)) }

// replicas are the copies that a group makes, in the order of ports.
func replicas(group *p4v1.MulticastGroupEntry) string {
	var copies []string
	for _, r := range group.GetReplicas() {
		text := fmt.Sprintf("%d.%d", replicaPort(r), r.GetInstance())
		if len(r.GetBackupReplicas()) > 0 {
			text += fmt.Sprint(r.GetBackupReplicas())
		}
		copies = append(copies, text)
	}
	slices.Sort(copies)
	return strings.Join(copies, " ")
}

// replicaPort is a replica's port, as servers say it now or as they did before P4Runtime 1.4. Of a port with more than 64 bits it is no port's.
func replicaPort(r *p4v1.Replica) uint64 {
	if b, ok := r.GetPortKind().(*p4v1.Replica_Port); ok {
		port, err := p4info.Value(b.Port, p4info.MaxWidth)
		if err != nil {
			return ^uint64(0)
		}
		return port
	}
	return uint64(r.GetEgressPort()) //lint:ignore SA1019 servers may still use it
}

func entryKey(e p4info.Entry) Key {
	b := append(make([]byte, 0, 64), e.Table...)
	for _, m := range e.Match {
		b = append(append(append(b, ' '), m.Key...), "=0x"...)
		b = strconv.AppendUint(b, m.Value, 16)
		if m.Prefix != 0 {
			b = strconv.AppendInt(append(b, '/'), int64(m.Prefix), 10)
		}
		if m.Mask != 0 {
			b = strconv.AppendUint(append(b, "&0x"...), m.Mask, 16)
		}
	}
	if e.Priority != 0 {
		b = strconv.AppendInt(append(b, " priority "...), int64(e.Priority), 10)
	}
	return Key(b)
}

func callValue(c p4info.Call) string {
	b := append(make([]byte, 0, 64), c.Action...)
	for _, a := range c.Args {
		b = append(append(append(b, ' '), a.Param...), "=0x"...)
		b = strconv.AppendUint(b, a.Value, 16)
	}
	return string(b)
}
