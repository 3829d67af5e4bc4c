package rack

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// hostInterface is the name of the one interface of a worker or aggregator.
const hostInterface = "eth0"

// An end is one end of a veth pair.
type end struct {
	in    *namespace
	name  string
	index int
}

// A hop is a veth pair; near is the end on the host's side.
type hop struct{ near, far end }

// An attachment is how a host is joined to the switch: one hop to the bridge or to a port of the ToR, or
// two with a cable between.
type attachment []hop

// host is the host's interface.
func (a attachment) host() end { return a[0].near }

// port is the end that the host's interface talks to: where its downlink is shaped and faults are injected.
func (a attachment) port() end { return a[0].far }

// makeBridge makes the rack's switch, or a cable. It floods multicast to all ports: the
// rack's groups are the jobs, and every worker is in one.
func makeBridge(sw *namespace, name string, mtu int) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, mtu
	snooping := false
	bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
	if err := sw.link.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("make the bridge %s: %w", name, err)
	}
	if err := sw.link.LinkSetUp(bridge); err != nil {
		return nil, fmt.Errorf("bring the bridge %s up: %w", name, err)
	}
	// Without these a host's netfilter settings for bridges would apply to the rack.
	for _, setting := range []string{"arptables", "iptables", "ip6tables"} {
		if err := sw.sysctl("bridge/bridge-nf-call-"+setting, "0"); err != nil {
			return nil, err
		}
	}
	return bridge, nil
}

// connect joins two namespaces with a veth pair, both ends up. The far end gets a bridge as its master, unless
// that is nil; the near end gets a hardware address, unless that is nil.
func connect(near *namespace, nearName string, mac net.HardwareAddr, far *namespace, farName string, bridge netlink.Link, mtu int) (hop, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = farName, mtu
	if bridge != nil {
		attrs.MasterIndex = bridge.Attrs().Index
	}
	veth := &netlink.Veth{
		LinkAttrs:        attrs,
		PeerName:         nearName,
		PeerHardwareAddr: mac,
		PeerNamespace:    netlink.NsFd(int(near.handle)),
		PeerMTU:          uint32(mtu),
	}
	if err := far.link.LinkAdd(veth); err != nil {
		return hop{}, fmt.Errorf("make the link from %s to %s: %w", near.name, far.name, err)
	}
	inside, err := near.link.LinkByName(nearName)
	if err != nil {
		return hop{}, fmt.Errorf("find interface %s of %s: %w", nearName, near.name, err)
	}
	if err := errors.Join(far.link.LinkSetUp(veth), near.link.LinkSetUp(inside)); err != nil {
		return hop{}, fmt.Errorf("bring the link from %s to %s up: %w", near.name, far.name, err)
	}
	return hop{end{near, nearName, inside.Attrs().Index}, end{far, farName, veth.Attrs().Index}}, nil
}

// address gives a host its address.
func address(at end, addr netip.Addr) error {
	inside, err := at.in.link.LinkByIndex(at.index)
	if err != nil {
		return fmt.Errorf("find the interface of %s: %w", at.in.name, err)
	}
	ip := &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(prefixLength, 32)}
	if err := at.in.link.AddrAdd(inside, &netlink.Addr{IPNet: ip}); err != nil {
		return fmt.Errorf("give %s the address %s: %w", at.in.name, ip, err)
	}
	return nil
}

// addForwarding tells a bridge what hardware address is behind a port of it.
func addForwarding(port end, mac net.HardwareAddr) error {
	entry := &netlink.Neigh{
		LinkIndex:    port.index,
		Family:       unix.AF_BRIDGE,
		State:        netlink.NUD_NOARP,
		Flags:        netlink.NTF_MASTER,
		HardwareAddr: mac,
	}
	if err := port.in.link.NeighSet(entry); err != nil {
		return fmt.Errorf("forwarding entry of port %s: %w", port.name, err)
	}
	return nil
}

// introduce gives two hosts each other's hardware address.
func introduce(a *namespace, addrA netip.Addr, b *namespace, addrB netip.Addr) error {
	return errors.Join(addNeighbour(a, addrB), addNeighbour(b, addrA))
}

func addNeighbour(host *namespace, peer netip.Addr) error {
	inside, err := host.link.LinkByName(hostInterface)
	if err != nil {
		return fmt.Errorf("find the interface of %s: %w", host.name, err)
	}
	entry := &netlink.Neigh{
		LinkIndex:    inside.Attrs().Index,
		Family:       unix.AF_INET,
		State:        netlink.NUD_PERMANENT,
		IP:           peer.AsSlice(),
		HardwareAddr: hardwareAddr(peer),
	}
	if err := host.link.NeighSet(entry); err != nil {
		return fmt.Errorf("neighbour %s at %s: %w", peer, host.name, err)
	}
	return nil
}
