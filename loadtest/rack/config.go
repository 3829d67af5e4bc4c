package rack

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"spillway/loadtest/faults"
	"spillway/wire"
	"spillway/xdp"
)

// Limits and addresses of a rack.
const (
	// MaxWorkers is the number of children of one aggregator.
	MaxWorkers = wire.MaxChildren
	// MaxRacks is that of the root's.
	MaxRacks = wire.MaxChildren

	// BurstKB and latency of the shaped links, in bytes and microseconds. With a
	// burst of 64 kB a TCP peer would reach half of what it does with 256 kB, and a
	// comparison on such links would be unfair.
	BurstKB   = 256
	burst     = BurstKB << 10
	latencyUS = 50_000

	// standardMTU carries chunks of up to 352 elements. jumboMTU carries all that
	// the protocol has; native XDP on veth wants frame, headroom and
	// skb_shared_info in one 4 kB page, which leaves some 3500 bytes.
	standardMTU = 1500
	jumboMTU    = 3498
	// ipUDPHeaders is an IPv4 header without options and a UDP header.
	ipUDPHeaders = 20 + 8

	// EthernetHeader is what a link's token bucket counts beyond the IP packet.
	EthernetHeader = 14

	prefixLength = 24
)

// Config says what the rack is like. The zero value of a rate is an unshaped link.
type Config struct {
	// Workers is the number of worker namespaces, 1 to MaxWorkers; with several racks, of each.
	Workers int
	// Racks is how many racks there are, 1 to MaxRacks, with an aggregator each and one more at the root of all; 0 is 1. Several have neither ToR nor daemons.
	Racks int
	// Elements is the largest E of the jobs that will run here; it decides the MTU.
	// 0 is 256.
	Elements int
	// Rate shapes each worker's link, in bit/s, each way; 0 is unshaped.
	Rate uint64
	// HomeRate shapes the link to the aggregator, in bit/s, on the way to it only: XDP
	// answers from the driver, below any queue that could be shaped. 0 is unshaped.
	HomeRate uint64
	// Faults are injected at every worker's port, each way.
	Faults faults.Rates
	// Hooks makes room for faults that come later (SetFaults), where there are none yet.
	Hooks bool
	// Tor is what stands at the top of the rack; its zero value is a bridge.
	Tor Tor
	// Rings says that the workers' packets go by AF_XDP, which passes below the queues of their interfaces and takes packets one by one: a shaped uplink is then shaped
	// in a cable, and nothing is coalesced on the way to a worker.
	Rings bool
	// Appliances is the number of aggregators, each with a daemon of its own; 0 is 1. Several are a cluster.
	Appliances int
	// Server makes another host beside the aggregator's, for what others than Spillway have there. It needs a bridge.
	Server bool
	// Slots are the aggregator's, by size class; its zero value is xdp's default.
	Slots xdp.Slots
	// Daemon is what runs spillwayd in the aggregators' namespaces: a program that is given the arguments of spillwayd after its own.
	Daemon Command
	// Log takes the rack's messages; nil discards them.
	Log *slog.Logger
}

// Validate says what is wrong with the configuration, if anything.
func (c *Config) Validate() error {
	copied := *c
	return copied.setDefaults()
}

func (c *Config) setDefaults() error {
	if c.Workers < 1 || c.Workers > MaxWorkers {
		return fmt.Errorf("a rack has 1 to %d workers, not %d", MaxWorkers, c.Workers)
	}
	if c.Racks < 0 || c.Racks > MaxRacks {
		return fmt.Errorf("there are 1 to %d racks, not %d", MaxRacks, c.Racks)
	}
	if c.Racks > 1 && (c.Tor.Kind != TorNone && c.Tor.Kind != "" || c.Appliances > 1 || c.HomeRate != 0) {
		return errors.New("several racks have bridges, one aggregator each, and no limit to its rate")
	}
	if c.Appliances == 0 {
		c.Appliances = 1
	}
	if c.Appliances < 1 || c.Appliances > MaxAppliances {
		return fmt.Errorf("a rack has 1 to %d appliances, not %d", MaxAppliances, c.Appliances)
	}
	if c.Elements == 0 {
		c.Elements = 256
	}
	if c.Elements < wire.MinElements || c.Elements > wire.MaxElements || c.Elements%wire.ElementStep != 0 {
		return fmt.Errorf("elements per chunk: %d is not a multiple of %d from %d to %d",
			c.Elements, wire.ElementStep, wire.MinElements, wire.MaxElements)
	}
	for _, rate := range []uint64{c.Rate, c.HomeRate} {
		if rate != 0 && rate < minRate {
			return fmt.Errorf("a link of %d bit/s is slower than %d, the least a rack shapes to", rate, minRate)
		}
	}
	if err := c.Faults.Validate(); err != nil {
		return err
	}
	if err := c.Tor.setDefaults(c.Elements); err != nil {
		return err
	}
	if c.Server && c.Tor.Kind != TorNone {
		return errors.New("a rack with a server for others has a bridge, no ToR")
	}
	if c.Slots == (xdp.Slots{}) {
		c.Slots = xdp.DefaultSlots
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// singly reports whether each packet must meet the hooks at the workers' ports by itself.
func (c *Config) singly() bool { return c.Hooks || c.Faults.Any() }

// mtu is that of all links of the rack.
func (c *Config) mtu() int {
	if ipUDPHeaders+wire.HeaderSize+wire.ElementSize*c.Elements <= standardMTU {
		return standardMTU
	}
	return jumboMTU
}

// WorkerAddr is the address of the worker with this rank.
func WorkerAddr(rank int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, byte(rank + 1)}) }

// hardwareAddr is a locally administered MAC address derived from an IPv4 one.
func hardwareAddr(addr netip.Addr) net.HardwareAddr {
	ip := addr.As4()
	return net.HardwareAddr{0x02, 0x00, ip[0], ip[1], ip[2], ip[3]}
}
