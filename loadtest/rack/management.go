package rack

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// managementInterface is a link of its own, as switches and servers have one: P4Runtime and what appliances have to say to each other do not cross the ports
// that the pipeline serves.
const managementInterface = "mgmt0"

// torManagement is the ToR's address on the management network.
var torManagement = netip.AddrFrom4([4]byte{10, 78, 0, 253})

// managementAddr is an appliance's.
func managementAddr(index int) netip.Addr {
	if index == 0 {
		return netip.AddrFrom4([4]byte{10, 78, 0, 254})
	}
	return netip.AddrFrom4([4]byte{10, 78, 0, byte(200 + index)})
}

// torListen is where the ToR serves P4Runtime.
const torListen = "10.78.0.253:9559"

// torDevice is the id of the ToR's one device.
const torDevice = 1

// addManagement joins the ToR and the aggregators' hosts: two by a cable, more by a switch of their own.
func (r *Rack) addManagement() error {
	switch {
	case len(r.appliances) > 1:
		return r.addManagementSwitch()
	case r.tor == nil:
		return nil
	}
	a := r.home()
	link, err := connect(a.host, managementInterface, nil, r.tor.namespace, managementInterface, nil, standardMTU)
	if err != nil {
		return err
	}
	a.management, r.tor.management = link.near, link.far
	if err := address(link.near, managementAddr(0)); err != nil {
		return err
	}
	return address(link.far, torManagement)
}

// addManagementSwitch makes a bridge in the switch's namespace, and everybody's link to it.
func (r *Rack) addManagementSwitch() error {
	bridge, err := makeBridge(r.sw, "management", standardMTU)
	if err != nil {
		return err
	}
	join := func(host *namespace, name string, addr netip.Addr) (hop, error) {
		link, err := connect(host, managementInterface, nil, r.sw, name, bridge, standardMTU)
		if err != nil {
			return hop{}, err
		}
		return link, address(link.near, addr)
	}
	for _, a := range r.appliances {
		link, err := join(a.host, fmt.Sprintf("mgmt%d", a.index), managementAddr(a.index))
		if err != nil {
			return err
		}
		a.management = link.far
	}
	if r.tor == nil {
		return nil
	}
	link, err := join(r.tor.namespace, "mgmt-tor", torManagement)
	r.tor.management = link.far
	return err
}

// setLink brings an end of a link up or down; the other end then has a carrier, or none.
func setLink(at end, up bool) error {
	link, err := at.in.link.LinkByIndex(at.index)
	if err != nil {
		return fmt.Errorf("find interface %s of %s: %w", at.name, at.in.name, err)
	}
	set, word := (*netlink.Handle).LinkSetDown, "down"
	if up {
		set, word = (*netlink.Handle).LinkSetUp, "up"
	}
	if err := set(at.in.link, link); err != nil {
		return fmt.Errorf("bring interface %s of %s %s: %w", at.name, at.in.name, word, err)
	}
	return nil
}
