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

// A port is the switch's end of a link.
type port struct {
	name  string
	index int
}

// makeBridge makes the rack's switch. It floods multicast to all ports: the
// rack's groups are the jobs, and every worker is in one.
func makeBridge(sw *namespace, mtu int) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "rack", mtu
	snooping := false
	bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
	if err := sw.link.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("make the bridge: %w", err)
	}
	if err := sw.link.LinkSetUp(bridge); err != nil {
		return nil, fmt.Errorf("bring the bridge up: %w", err)
	}
	// Without these a host's netfilter settings for bridges would apply to the rack.
	for _, setting := range []string{"arptables", "iptables", "ip6tables"} {
		if err := sw.sysctl("bridge/bridge-nf-call-"+setting, "0"); err != nil {
			return nil, err
		}
	}
	return bridge, nil
}

// connect joins a host's namespace to the bridge: a veth pair whose one end is
// made in the host's namespace right away, its address, and a forwarding entry.
func connect(sw *namespace, bridge netlink.Link, host *namespace, portName string, addr netip.Addr, mtu int) (port, error) {
	mac := hardwareAddr(addr)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.MasterIndex = portName, mtu, bridge.Attrs().Index
	veth := &netlink.Veth{
		LinkAttrs:        attrs,
		PeerName:         hostInterface,
		PeerHardwareAddr: mac,
		PeerNamespace:    netlink.NsFd(int(host.handle)),
		PeerMTU:          uint32(mtu),
	}
	if err := sw.link.LinkAdd(veth); err != nil {
		return port{}, fmt.Errorf("make the link of %s: %w", host.name, err)
	}
	at := port{name: portName, index: veth.Attrs().Index}
	if err := sw.link.LinkSetUp(veth); err != nil {
		return port{}, fmt.Errorf("bring the port of %s up: %w", host.name, err)
	}
	inside, err := host.link.LinkByName(hostInterface)
	if err != nil {
		return port{}, fmt.Errorf("find the interface of %s: %w", host.name, err)
	}
	ip := &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(prefixLength, 32)}
	if err := host.link.AddrAdd(inside, &netlink.Addr{IPNet: ip}); err != nil {
		return port{}, fmt.Errorf("give %s the address %s: %w", host.name, ip, err)
	}
	if err := host.link.LinkSetUp(inside); err != nil {
		return port{}, fmt.Errorf("bring the interface of %s up: %w", host.name, err)
	}
	entry := &netlink.Neigh{
		LinkIndex:    at.index,
		Family:       unix.AF_BRIDGE,
		State:        netlink.NUD_NOARP,
		Flags:        netlink.NTF_MASTER,
		HardwareAddr: mac,
	}
	if err := sw.link.NeighSet(entry); err != nil {
		return port{}, fmt.Errorf("forwarding entry of %s: %w", host.name, err)
	}
	return at, nil
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
