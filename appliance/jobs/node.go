package jobs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"spillway/wire"
	"spillway/xdp"
)

// ErrNodeAway: an appliance did not answer, so nobody knows whether it did what it was asked for. What calls an appliance over the network wraps it.
var ErrNodeAway = errors.New("the appliance does not answer")

// Node is an appliance that jobs can be homed at.
type Node struct {
	// Name is what the cluster knows it by; it is written down with what jobs hold there.
	Name string
	// Aggregator and Paths are that node's, also where it is another host.
	Aggregator Aggregator
	Paths      Paths
	// Slots are the aggregator's, by size class. None at all are those of Config.Ledger.
	Slots xdp.Slots
	// MaxJobs bounds the ids of jobs that the aggregator takes, as in xdp.Config; 0 is that of Config.Ledger.
	MaxJobs uint32
	// MTU is the least of the interfaces that lead to workers, in bytes of an IP packet.
	MTU int
	// Rack is where it stands; empty: there is only one rack.
	Rack string
}

// validate says what is wrong with the node.
func (n *Node) validate() error {
	if n.Aggregator == nil || n.Paths == nil {
		return fmt.Errorf("node %q has no aggregator or no paths", n.Name)
	}
	if least := packetBytes(wire.MinElements); n.MTU < least {
		return fmt.Errorf("node %q: an MTU of %d does not carry a chunk of %d elements: want %d at least", n.Name, n.MTU, wire.MinElements, least)
	}
	return nil
}

// Aggregator is where jobs are homed: that of this host by Local, another host's by a client. Its methods may be called from several goroutines at once.
// A call that ends with ctx, or gets no answer, fails with an error that wraps ErrNodeAway; the Manager cancels ctx when the node is lost.
type Aggregator interface {
	// AddJob fails with an error that wraps xdp.ErrJobExists when there is a job with the id.
	AddJob(ctx context.Context, job xdp.Job) error
	// RemoveJob fails with an error that wraps xdp.ErrNoJob when there is none.
	RemoveJob(ctx context.Context, id uint16) error
	// Jobs are those that are there, those of daemons before this one included.
	Jobs(ctx context.Context) ([]xdp.Job, error)
}

// Paths knows which way an aggregator reaches an address.
type Paths interface {
	// To fails when nothing leads to the address; its text says what was looked for and where. When the node does not answer, it fails as Aggregator does.
	To(ctx context.Context, addr netip.Addr) (Path, error)
}

// Path is the way to an address.
type Path struct {
	// Ifindex and Interface are the interface that leads there. The program of the aggregator is on it.
	Ifindex   int
	Interface string
	// Home is the aggregator's own address on the interface.
	Home netip.Addr
	// MTU is the interface's, in bytes of an IP packet.
	MTU int
	// MAC is the Ethernet address of the next hop.
	MAC net.HardwareAddr
}

// Local is the aggregator of this host.
func Local(plane *xdp.Aggregator) Aggregator { return local{plane} }

// local is an aggregator that always answers.
type local struct{ plane *xdp.Aggregator }

func (l local) AddJob(_ context.Context, job xdp.Job) error  { return l.plane.AddJob(job) }
func (l local) RemoveJob(_ context.Context, id uint16) error { return l.plane.RemoveJob(id) }
func (l local) Jobs(context.Context) ([]xdp.Job, error)      { return l.plane.Jobs(), nil }
