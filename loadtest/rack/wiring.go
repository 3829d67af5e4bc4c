package rack

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// attach joins a host to the switch, gives it its address, and sets the offloads of all that is in between. A
// cable is asked for where a link needs queues or faults: with a ToR, what it redirects passes below both.
func (r *Rack) attach(host *namespace, name string, addr netip.Addr, cable bool, offloads offloads) (attachment, error) {
	joined, err := r.join(host, name, addr, cable)
	if err != nil {
		return nil, err
	}
	if r.tor == nil {
		if err := addForwarding(joined[len(joined)-1].far, hardwareAddr(addr)); err != nil {
			return nil, err
		}
	}
	atHost := offloads.host
	if r.tor != nil && len(joined) == 1 {
		atHost = with(atHost, checksummed)
	}
	if err := errors.Join(offload(joined.host(), atHost), offload(joined.port(), offloads.port)); err != nil {
		return nil, err
	}
	for _, second := range joined[1:] {
		inCable, atTor := with(offloads.cable, checksummed), ring
		if r.config.Tor.Kind == TorBMv2 {
			inCable, atTor = bmv2Cable, bmv2Port
		}
		if err := errors.Join(offload(second.near, inCable), offload(second.far, atTor)); err != nil {
			return nil, err
		}
	}
	return joined, address(joined.host(), addr)
}

// join makes the links of an attachment.
func (r *Rack) join(host *namespace, name string, addr netip.Addr, cable bool) (attachment, error) {
	mtu, mac := r.config.mtu(), hardwareAddr(addr)
	if r.tor == nil && !(cable && r.config.Rings) {
		only, err := connect(host, hostInterface, mac, r.sw, name, r.bridge, mtu)
		return attachment{only}, err
	}
	if r.tor != nil && !cable {
		only, err := connect(host, hostInterface, mac, r.tor.namespace, name, nil, mtu)
		return attachment{only}, err
	}
	inside, err := makeBridge(r.sw, "cable-"+name, mtu)
	if err != nil {
		return nil, err
	}
	first, err := connect(host, hostInterface, mac, r.sw, name, inside, mtu)
	if err != nil {
		return nil, err
	}
	second, err := r.plug(name, mtu)
	if err != nil {
		return nil, err
	}
	near, err := r.sw.link.LinkByIndex(second.near.index)
	if err != nil {
		return nil, fmt.Errorf("find interface %s: %w", second.near.name, err)
	}
	if err := r.sw.link.LinkSetMaster(near, inside.(*netlink.Bridge)); err != nil {
		return nil, fmt.Errorf("plug %s into its cable: %w", second.near.name, err)
	}
	return attachment{first, second}, nil
}

// plug makes the second hop of a cable: to a port of the ToR, or of the bridge.
func (r *Rack) plug(name string, mtu int) (hop, error) {
	if r.tor == nil {
		return connect(r.sw, name+"-rack", nil, r.sw, name+"-port", r.bridge, mtu)
	}
	return connect(r.sw, name+"-tor", nil, r.tor.namespace, name, nil, mtu)
}

// addWorker makes a worker's namespace and its link, shaped both ways.
func (r *Rack) addWorker(rank int) error {
	worker, err := newNamespace(fmt.Sprintf("worker %d", rank))
	if err != nil {
		return err
	}
	r.workers = append(r.workers, worker)
	cable := r.config.Rate != 0 || r.config.singly() || r.config.Tor.Kind == TorBMv2
	joined, err := r.attach(worker, fmt.Sprintf("w%d", rank), WorkerAddr(rank), cable, r.config.workerOffloads())
	if err != nil {
		return err
	}
	r.links = append(r.links, joined)
	if err := shape(joined.host(), r.config.Rate); err != nil {
		return err
	}
	if r.config.Rings && len(joined) > 1 {
		if err := shape(joined[1].near, r.config.Rate); err != nil {
			return err
		}
	}
	if r.tor == nil || cable {
		if err := shape(joined.port(), r.config.Rate); err != nil {
			return err
		}
	}
	for _, a := range r.appliances {
		if err := introduce(a.host, ApplianceAddr(a.index), worker, WorkerAddr(rank)); err != nil {
			return err
		}
	}
	return nil
}
