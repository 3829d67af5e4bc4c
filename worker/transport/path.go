package transport

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// paths are the ways from one interface to the homes, as the kernel's tables of routes and neighbours have them. They are looked up again when the kernel
// says that a table has changed.
type paths struct {
	ifindex  int
	own      hardwareAddr
	mtu      int // of the interface
	handle   *netlink.Handle
	monitor  int         // a netlink socket that hears of changes
	message  []byte      // what it says is not read closer
	resolved []bool      // by home: its header is good
	headers  []header    // by home
	next     []net.IP    // by home: the neighbour on its way
	stamps   []uint32    // by home: which look it is of
	looks    uint32      // stamps given out
	used     []time.Time // by home: when the kernel was told that the neighbour is in use
}

// usedEvery is how often the kernel is told that a neighbour is in use. It sees nothing of what goes by the rings; told so, it finds out within seconds when a neighbour has
// another hardware address (RFC 826, RFC 4861 section 7.3), as it does for sockets.
const usedEvery = time.Second

// openPaths follows the tables of the calling thread's network namespace.
func openPaths(link netlink.Link) (p *paths, err error) {
	attrs := link.Attrs()
	p = &paths{ifindex: attrs.Index, mtu: attrs.MTU, monitor: -1, message: make([]byte, 1<<12)}
	if len(attrs.HardwareAddr) != len(p.own) {
		return nil, fmt.Errorf("interface %s is not Ethernet: its hardware address is %q", attrs.Name, attrs.HardwareAddr)
	}
	copy(p.own[:], attrs.HardwareAddr)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return p, fmt.Errorf("open a netlink socket: %w", err)
	}
	if p.monitor, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE); err != nil {
		return p, fmt.Errorf("open a netlink socket: %w", err)
	}
	const groups = unix.RTMGRP_NEIGH | unix.RTMGRP_IPV4_ROUTE | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_LINK
	if err = unix.Bind(p.monitor, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		return p, fmt.Errorf("follow changes of routes and neighbours: %w", err)
	}
	return p, nil
}

// changed reports whether the kernel has told of changes since the last call.
func (p *paths) changed() bool {
	for said := false; ; said = true {
		_, _, err := unix.Recvfrom(p.monitor, p.message, 0)
		switch err {
		case nil, unix.ENOBUFS: // more than it could keep: changes all the same
		case unix.EINTR:
		default:
			return said
		}
	}
}

// look looks the ways to the homes up. A home without one by this interface now is left to the sockets.
func (p *paths) look(from [4]byte, port uint16, homes []home) {
	if len(p.resolved) != len(homes) {
		p.resolved, p.headers, p.next = make([]bool, len(homes)), make([]header, len(homes)), make([]net.IP, len(homes))
		p.stamps, p.used = make([]uint32, len(homes)), make([]time.Time, len(homes))
	}
	link, err := p.handle.LinkByIndex(p.ifindex)
	up := err == nil && link.Attrs().Flags&net.FlagUp != 0 && len(link.Attrs().HardwareAddr) == len(p.own)
	if up {
		copy(p.own[:], link.Attrs().HardwareAddr)
		p.mtu = link.Attrs().MTU
	}
	neighbours, err := p.handle.NeighList(p.ifindex, unix.AF_INET)
	for i := range homes {
		p.resolved[i] = false
		if !up || err != nil {
			continue
		}
		p.next[i] = p.nextHop(from, homes[i].addr)
		if mac, ok := resolve(neighbours, p.next[i]); ok {
			p.headers[i] = newHeader(p.own, mac, from, port, homes[i].addr)
			p.resolved[i] = true
			p.looks++
			p.stamps[i] = p.looks
		}
	}
}

// nextHop is the neighbour on the way to an address, nil if that way is not by this interface.
func (p *paths) nextHop(from, to [4]byte) net.IP {
	routes, err := p.handle.RouteGetWithOptions(to[:], &netlink.RouteGetOptions{SrcAddr: from[:]})
	if err != nil || len(routes) != 1 || routes[0].LinkIndex != p.ifindex || routes[0].Via != nil || routes[0].MTU != 0 && routes[0].MTU < p.mtu {
		return nil
	}
	if gateway := routes[0].Gw; gateway != nil {
		return gateway.To4()
	}
	return to[:]
}

// resolve finds a neighbour whose hardware address is known.
func resolve(neighbours []netlink.Neigh, next net.IP) (mac hardwareAddr, ok bool) {
	if next == nil {
		return mac, false
	}
	const good = unix.NUD_PERMANENT | unix.NUD_NOARP | unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE
	for _, n := range neighbours {
		if n.IP.Equal(next) && n.State&good != 0 && len(n.HardwareAddr) == len(mac) {
			copy(mac[:], n.HardwareAddr)
			return mac, true
		}
	}
	return mac, false
}

// use tells the kernel that the neighbour on the way to a home is in use, unless it was told within the last while.
func (p *paths) use(i int, now time.Time) {
	if now.Sub(p.used[i]) < usedEvery {
		return
	}
	p.used[i] = now
	// An error means that the neighbour has just gone, which comes as a change.
	_ = p.handle.NeighSet(&netlink.Neigh{LinkIndex: p.ifindex, Family: unix.AF_INET, IP: p.next[i], Flags: unix.NTF_USE})
}

func (p *paths) close() error {
	if p.handle != nil {
		p.handle.Close()
	}
	if p.monitor < 0 {
		return nil
	}
	err := unix.Close(p.monitor)
	p.monitor = -1
	if err != nil {
		return fmt.Errorf("close a netlink socket: %w", err)
	}
	return nil
}
