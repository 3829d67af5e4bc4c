package dataplane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Sizes of the tables, as in bpf/tables.h, which TestTableSizes holds them to.
const (
	maxRoutes  = 1024
	maxMembers = 4096
	maxJobs    = 256 // entries of the table job
	maxGroups  = 1024
)

// Errors of writing tables that callers decide on.
var (
	ErrNoEntry = errors.New("no such entry")
	ErrFull    = errors.New("table is full")
	ErrInvalid = errors.New("invalid entry")
)

// SetForward writes an entry of the table forward; nil deletes it.
func (d *Dataplane) SetForward(prefix netip.Prefix, to *ToPort) error {
	if !prefix.Addr().Is4() || prefix.Masked() != prefix {
		return fmt.Errorf("forward %v: %w: want an IPv4 prefix without host bits", prefix, ErrInvalid)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := torPrefix{Length: uint32(prefix.Bits()), Addr: networkOrder(prefix.Addr())}
	traffic, known := d.routes[prefix]
	if to == nil {
		if !known {
			return fmt.Errorf("forward %v: %w", prefix, ErrNoEntry)
		}
		if err := d.objects.Forward.Delete(key); err != nil {
			return fmt.Errorf("forward %v: delete: %w", prefix, err)
		}
		delete(d.routes, prefix)
		d.freeRoutes = append(d.freeRoutes, traffic)
		return nil
	}
	if err := checkPort(to.Port); err != nil {
		return fmt.Errorf("forward %v: %w", prefix, err)
	}
	if !known {
		var err error
		if traffic, err = takeCounter(&d.freeRoutes, d.objects.ForwardTraffic); err != nil {
			return fmt.Errorf("forward %v: %w", prefix, err)
		}
	}
	value := torRoute{Port: uint16(to.Port), Mac: to.MAC, Traffic: uint16(traffic)}
	if to.Drop {
		value.Drop = 1
	}
	if err := d.objects.Forward.Put(key, value); err != nil {
		if !known {
			d.freeRoutes = append(d.freeRoutes, traffic)
		}
		return fmt.Errorf("forward %v: %w", prefix, err)
	}
	d.routes[prefix] = traffic
	return nil
}

// SetGroupRoute writes an entry of the table group: to which replication group
// packets to a multicast address go. nil deletes it.
func (d *Dataplane) SetGroupRoute(addr netip.Addr, group *uint16) error {
	if !addr.Is4() || !addr.IsMulticast() {
		return fmt.Errorf("group %v: %w: want an IPv4 multicast address", addr, ErrInvalid)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if group == nil {
		return tableError(d.objects.GroupRoutes.Delete(networkOrder(addr)), "group %v", addr)
	}
	return tableError(d.objects.GroupRoutes.Put(networkOrder(addr), uint32(*group)), "group %v", addr)
}

// SetBridge writes an entry of the table bridge; nil deletes it.
func (d *Dataplane) SetBridge(mac MAC, to *BridgeTo) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := torBridgeKey{Mac: mac}
	if to == nil {
		return tableError(d.objects.Bridge.Delete(key), "bridge %x", mac)
	}
	value := torBridgeTo{Kind: bridgeLink, Value: uint16(to.Port)}
	switch {
	case to.Drop:
		value = torBridgeTo{Kind: bridgeDrop}
	case to.Flood:
		value = torBridgeTo{Kind: bridgeFlood, Value: to.Group}
	default:
		if err := checkPort(to.Port); err != nil {
			return fmt.Errorf("bridge %x: %w", mac, err)
		}
	}
	return tableError(d.objects.Bridge.Put(key, value), "bridge %x", mac)
}

// BRIDGE_ of bpf/tables.h.
const (
	bridgeDrop  = 0
	bridgeLink  = 1
	bridgeFlood = 2
)

// SetMember writes an entry of the table member; nil deletes it.
func (d *Dataplane) SetMember(key MemberKey, member *Member) error {
	if !key.Addr.Is4() {
		return fmt.Errorf("member %v: %w: want an IPv4 address", key, ErrInvalid)
	}
	if err := checkPort(key.Port); err != nil {
		return fmt.Errorf("member %v: %w", key, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k := torMemberKey{Addr: networkOrder(key.Addr), Port: uint16(key.Port), Job: key.Job}
	traffic, known := d.members[key]
	if member == nil {
		if !known {
			return fmt.Errorf("member %v: %w", key, ErrNoEntry)
		}
		if err := d.objects.Members.Delete(k); err != nil {
			return fmt.Errorf("member %v: delete: %w", key, err)
		}
		delete(d.members, key)
		d.freeMembers = append(d.freeMembers, traffic)
		return nil
	}
	if member.Role > Echo {
		return fmt.Errorf("member %v: %w: role %d", key, ErrInvalid, member.Role)
	}
	if member.Bits&member.Rest != 0 || member.Role == Worker && member.Bits == 0 {
		return fmt.Errorf("member %v: %w: bits %#x, rest %#x: want bits, and the two apart", key, ErrInvalid, member.Bits, member.Rest)
	}
	if !known {
		var err error
		if traffic, err = takeCounter(&d.freeMembers, d.objects.MemberTraffic); err != nil {
			return fmt.Errorf("member %v: %w", key, err)
		}
	}
	value := torMember{Bits: member.Bits, Full: member.Bits | member.Rest, Role: uint32(member.Role), Traffic: traffic}
	if err := d.objects.Members.Put(k, value); err != nil {
		if !known {
			d.freeMembers = append(d.freeMembers, traffic)
		}
		return fmt.Errorf("member %v: %w", key, err)
	}
	d.members[key] = traffic
	return nil
}

// takeCounter hands out a free counter of an entry, at 0.
func takeCounter(free *[]uint32, counters *ebpf.Map) (uint32, error) {
	if len(*free) == 0 {
		return 0, ErrFull
	}
	last := len(*free) - 1
	index := (*free)[last]
	if err := zero[torTraffic](counters, index); err != nil {
		return 0, err
	}
	*free = (*free)[:last]
	return index, nil
}

// tableError puts err into the words of this package.
func tableError(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	what := fmt.Sprintf(format, args...)
	switch {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		return fmt.Errorf("%s: %w", what, ErrNoEntry)
	case errors.Is(err, unix.E2BIG):
		return fmt.Errorf("%s: %w", what, ErrFull)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func checkPort(port Port) error {
	if port > MaxPort {
		return fmt.Errorf("%w: port %d: want at most %d", ErrInvalid, port, MaxPort)
	}
	return nil
}

// networkOrder is the address as the program sees it: its bytes as they are on
// the wire, read as an integer of the machine.
func networkOrder(addr netip.Addr) uint32 {
	b := addr.As4()
	return binary.NativeEndian.Uint32(b[:])
}
