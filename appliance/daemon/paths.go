package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"spillway/appliance/jobs"
	"spillway/appliance/refusal"
)

// resolution is how long the kernel may take to find a neighbour's Ethernet address: it asks three times, a second apart, so the answer to a
// first question that was lost comes in time.
const resolution = 1500 * time.Millisecond

// paths says which way leads to an address, as the kernel's routing table has it at that moment.
type paths struct{ interfaces *interfaces }

// To is the way to an address. It waits up to resolution for the next hop's Ethernet address, and leaves that out when the hop does not answer.
func (p *paths) To(_ context.Context, addr netip.Addr) (jobs.Path, error) {
	routes, err := netlink.RouteGet(addr.AsSlice())
	if err != nil || len(routes) == 0 {
		return jobs.Path{}, refusal.New(codes.FailedPrecondition, refusal.Unreachable, "no route leads to %s: give the worker an address that an interface of the aggregator (%s) reaches: %w",
			addr, p, errors.Join(err))
	}
	route := routes[0]
	if route.Type != unix.RTN_UNICAST {
		return jobs.Path{}, refusal.New(codes.FailedPrecondition, refusal.Unreachable, "%s is no other host's address: a worker must be on another host, or network namespace, than its aggregator", addr)
	}
	at := p.at(route.LinkIndex)
	if at == nil {
		return jobs.Path{}, refusal.New(codes.FailedPrecondition, refusal.Unreachable, "the way to %s is interface %s, on which the aggregator does not sit (it sits on %s): add it to interfaces, or give the worker an address there",
			addr, nameOf(route.LinkIndex), p)
	}
	link, err := netlink.LinkByIndex(at.index)
	if err != nil {
		return jobs.Path{}, refusal.New(codes.FailedPrecondition, refusal.Unreachable, "interface %s, which leads to %s: %w", at.name, addr, err)
	}
	mtu := link.Attrs().MTU
	if route.MTU > 0 {
		mtu = min(mtu, route.MTU)
	}
	hop := net.IP(addr.AsSlice())
	if route.Gw != nil {
		hop = route.Gw
	}
	mac, err := neighbour(at.index, hop)
	if err != nil {
		return jobs.Path{}, refusal.New(codes.Internal, refusal.Internal, "the Ethernet address of %s on %s: %w", hop, at.name, err)
	}
	return jobs.Path{Ifindex: at.index, Interface: at.name, Home: at.address, MTU: mtu, MAC: mac}, nil
}

func (p *paths) at(index int) *home {
	for _, h := range p.interfaces.list() {
		if h.index == index {
			return &h
		}
	}
	return nil
}

func (p *paths) String() string {
	var names []string
	for _, h := range p.interfaces.list() {
		names = append(names, h.name)
	}
	return strings.Join(names, ", ")
}

func nameOf(index int) string {
	if link, err := netlink.LinkByIndex(index); err == nil {
		return link.Attrs().Name
	}
	return fmt.Sprint(index)
}

// known are the states of a neighbour in which its Ethernet address can be used.
const known = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT | netlink.NUD_NOARP

// neighbour is the Ethernet address of a neighbour; nil if nobody answers for it. It has the kernel ask, and listens for what comes of it from before it
// does so.
func neighbour(ifindex int, ip net.IP) (net.HardwareAddr, error) {
	done := make(chan struct{})
	updates := make(chan netlink.NeighUpdate)
	if err := netlink.NeighSubscribe(updates, done); err != nil {
		return nil, fmt.Errorf("listen for neighbours: %w", err)
	}
	defer func() {
		close(done)
		for range updates { // its sender ends when it sees that done is closed, and waits for nobody then
		}
	}()
	neighbours, err := netlink.NeighList(ifindex, unix.AF_INET)
	if err != nil {
		return nil, fmt.Errorf("list the neighbours: %w", err)
	}
	for _, n := range neighbours {
		if mac := usable(&n, ifindex, ip); mac != nil {
			return mac, nil
		}
	}
	ask := &netlink.Neigh{LinkIndex: ifindex, Family: unix.AF_INET, IP: ip, State: netlink.NUD_NONE, Flags: netlink.NTF_USE}
	if err := netlink.NeighSet(ask); err != nil {
		return nil, fmt.Errorf("have the kernel ask for %s: %w", ip, err)
	}
	deadline := time.NewTimer(resolution)
	defer deadline.Stop()
	for {
		select {
		case n, ok := <-updates:
			if !ok {
				return nil, errors.New("the kernel stopped telling of neighbours")
			}
			if mac := usable(&n.Neigh, ifindex, ip); mac != nil {
				return mac, nil
			}
			if n.State&netlink.NUD_FAILED != 0 && n.LinkIndex == ifindex && n.IP.Equal(ip) {
				return nil, nil
			}
		case <-deadline.C:
			return nil, nil
		}
	}
}

// usable is the Ethernet address of a neighbour, if it is the one that is asked for.
func usable(n *netlink.Neigh, ifindex int, ip net.IP) net.HardwareAddr {
	if n.LinkIndex != ifindex || !n.IP.Equal(ip) || n.State&known == 0 || len(n.HardwareAddr) != 6 {
		return nil
	}
	return n.HardwareAddr
}
