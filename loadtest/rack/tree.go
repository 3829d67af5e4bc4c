package rack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"

	"spillway/wire"
	"spillway/xdp"
)

// Several racks are a bridge each, with its workers and the aggregator that is their home, and one bridge more, the spine, that joins the aggregators with
// the one at the root:
//
//	worker 0 ── eth0 ═ w0 ┐
//	worker 1 ── eth0 ═ w1 ┼ bridge rack0 ── eth0 ── aggregator of rack 0 ── eth1 ┐
//	     …            …   ┘                                                      ┼ bridge spine ── eth0 ── root
//	worker 4 ── eth0 ═ w4 ┬ bridge rack1 ── eth0 ── aggregator of rack 1 ── eth1 ┘
//
// Workers have no way out of their rack but through its aggregator's sums. The aggregators are in this process, without daemons: jobs are put into them as an
// appliance would, and workers are given their parameters with the invitation.

// spineInterface is the name of a rack's aggregator's interface to the spine.
const spineInterface = "eth1"

// The ports of a tree: of the racks' homes, of the root, and of what it sends to the racks.
const (
	treeHomePort = 9700
	treeRootPort = 9736
	treeSelfPort = 9740
)

// A forest is the aggregators of several racks, and the root's.
type forest struct {
	spine netlink.Link
	nodes []*treeNode // by rack, and the root last
	jobs  map[string]uint16
	// cookies are the jobs', by id.
	cookies []uint32
	mode    xdp.Mode
}

// A treeNode is an aggregator's host in a tree.
type treeNode struct {
	host      *namespace
	plane     *xdp.Aggregator
	down, up  end // the interfaces to its children, and to the root; the root has no other
	links     []attachment
	receivers []*receiver
}

// rackHomeAddr is the address of the aggregator of a rack in it, spineAddr that on the spine.
func rackHomeAddr(rack int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, byte(rack), 254}) }
func spineAddr(rack int) netip.Addr    { return netip.AddrFrom4([4]byte{10, 77, 255, byte(rack + 1)}) }

// rackWorkerAddr is the address of a worker of a rack.
func rackWorkerAddr(rack, worker int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 77, byte(rack), byte(worker + 1)})
}

// addRacks builds all of several racks.
func (r *Rack) addRacks(ctx context.Context) (err error) {
	r.forest = &forest{jobs: make(map[string]uint16)}
	if r.forest.spine, err = makeBridge(r.sw, "spine", r.config.mtu()); err != nil {
		return err
	}
	for rack := range r.config.Racks {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := r.addRack(rack); err != nil {
			return fmt.Errorf("rack %d: %w", rack, err)
		}
	}
	root := &treeNode{}
	r.forest.nodes = append(r.forest.nodes, root)
	if root.host, err = newNamespace("the root's aggregator"); err != nil {
		return err
	}
	if root.down, err = r.graft(root, hostInterface, "root", r.forest.spine, spineAddr(r.config.Racks)); err != nil {
		return err
	}
	return r.loadForest()
}

// addRack makes a rack's bridge, aggregator and workers.
func (r *Rack) addRack(rack int) error {
	bridge, err := makeBridge(r.sw, fmt.Sprintf("rack%d", rack), r.config.mtu())
	if err != nil {
		return err
	}
	node := &treeNode{}
	r.forest.nodes = append(r.forest.nodes, node)
	if node.host, err = newNamespace(fmt.Sprintf("the aggregator of rack %d", rack)); err != nil {
		return err
	}
	if node.down, err = r.graft(node, hostInterface, fmt.Sprintf("home%d", rack), bridge, rackHomeAddr(rack)); err != nil {
		return err
	}
	if node.up, err = r.graft(node, spineInterface, fmt.Sprintf("spine%d", rack), r.forest.spine, spineAddr(rack)); err != nil {
		return err
	}
	for i := range r.config.Workers {
		rank := rack*r.config.Workers + i
		worker, err := newNamespace(fmt.Sprintf("worker %d", rank))
		if err != nil {
			return err
		}
		r.workers = append(r.workers, worker)
		settings := workerOffloads
		if r.config.singly() {
			settings = workerSingly
		}
		joined, err := r.wire(worker, hostInterface, fmt.Sprintf("w%d", rank), bridge, rackWorkerAddr(rack, i), settings)
		if err != nil {
			return err
		}
		r.links = append(r.links, joined)
		if err := errors.Join(shape(joined.host(), r.config.Rate), shape(joined.port(), r.config.Rate), addNeighbour(worker, rackHomeAddr(rack))); err != nil {
			return err
		}
	}
	return nil
}

// wire joins a host to a bridge.
func (r *Rack) wire(host *namespace, as, name string, bridge netlink.Link, addr netip.Addr, settings offloads) (attachment, error) {
	mac := hardwareAddr(addr)
	only, err := connect(host, as, mac, r.sw, name, bridge, r.config.mtu())
	if err != nil {
		return nil, err
	}
	joined := attachment{only}
	return joined, errors.Join(addForwarding(joined.port(), mac), offload(joined.host(), settings.host), offload(joined.port(), settings.port), address(joined.host(), addr))
}

// graft joins an aggregator to a bridge, whose port is one that takes what XDP sends.
func (r *Rack) graft(node *treeNode, as, name string, bridge netlink.Link, addr netip.Addr) (end, error) {
	settings := homeOffloads
	if r.config.singly() {
		settings.port = homePortSingly
	}
	joined, err := r.wire(node.host, as, name, bridge, addr, settings)
	if err != nil {
		return end{}, err
	}
	node.links = append(node.links, joined)
	if bridge == r.forest.spine && as == spineInterface {
		r.spineLinks = append(r.spineLinks, joined)
	}
	return joined.host(), r.sw.do(func() error {
		receiver, err := newReceiver(joined.port().index)
		node.receivers = append(node.receivers, receiver)
		return err
	})
}

// loadForest loads the aggregators and attaches them.
func (r *Rack) loadForest() error {
	var loading errgroup.Group
	loading.SetLimit(lookups)
	for _, node := range r.forest.nodes {
		loading.Go(func() (err error) {
			node.plane, err = xdp.Load(xdp.Config{Slots: r.config.Slots, MaxJobs: treeJobs, FirstPort: wire.BasePort, Ports: treePorts})
			return err
		})
	}
	if err := loading.Wait(); err != nil {
		return err
	}
	for _, node := range r.forest.nodes {
		for _, at := range []end{node.down, node.up} {
			if at.in == nil {
				continue
			}
			err := node.host.do(func() (err error) {
				r.forest.mode, err = node.plane.Attach(at.index)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	treeJobs  = 16
	treePorts = 64
	lookups   = 2 // aggregators that are loaded at a time
)

// close takes the aggregators off.
func (f *forest) close() error {
	if f == nil {
		return nil
	}
	var all []error
	for _, node := range f.nodes {
		if node.plane != nil {
			all = append(all, node.host.do(node.plane.Close))
		}
		for _, receiver := range node.receivers {
			all = append(all, receiver.close())
		}
		if node.host != nil {
			all = append(all, node.host.close())
		}
	}
	return errors.Join(all...)
}
