package worker

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"spillway/worker/engine"
	"spillway/worker/transport"
)

// Params are what a worker must know of its job.
type Params struct {
	Job        uint16
	Generation uint8
	Cookie     uint32
	// Rank is this worker's, in [0, Workers).
	Rank    int
	Workers int
	// Level is what this worker is at its home if that is a node of a tree, as in a job of several racks; nil: its bit is its rank.
	Level *Level
	// Elements is E, the elements of a full chunk: a multiple of 32 from 32 to 832, such that 56 + 4E bytes fit the MTU.
	Elements int
	// Window is W, the chunks in flight.
	Window int
	// WireBits is what an element of a SUM or an average of float32, float16 or bfloat16 takes of a packet: 32 (or 0), or 16, which are half the traffic and a
	// coarser result (Reduce says by how much). All else has 32 bits in any job.
	WireBits int
	// Elastic says that the job may go on with fewer or more ranks: Rejoin.
	Elastic bool
	// Policy is what the job does about stragglers; the zero Policy waits for them.
	Policy Policy
	// Priority is the urgency of the job's chunks in the ToR, 1 to 127 if Tor is set; Tor is the job's share of the ToR's slots, if it has one.
	Priority uint8
	Tor      *TorRegion
	// Homes are the aggregators, one for each shard of the job's chunks in order; the same one can be there several times.
	Homes []Home
	// Group is the job's multicast group; without one the homes send to each worker.
	Group netip.Addr
	// WorkerPort is the UDP port of every worker of the job.
	WorkerPort uint16
	// Addr is this worker's own address; without one it is that of the interface that leads to the first home.
	Addr netip.Addr
	// MinRTO and MaxRTO bound the retransmission timer, Silence is how long a collective waits without any progress before it
	// fails. Zero values are DefaultMinRTO, DefaultMaxRTO and DefaultSilence.
	MinRTO  time.Duration
	MaxRTO  time.Duration
	Silence time.Duration
}

// Home is an aggregator's address and first port, and the number of its ports, a power of two (0 is 1): chunk seq is sent to home (seq / 64) mod n of n, and
// there to port (seq / 64 / n) mod Ports from the first.
type Home = transport.Home

// TorRegion is the part of the ToR's slots that a job was given.
type TorRegion = engine.TorRegion

// Level is a worker's place among the children of its home.
type Level = engine.Level

// Defaults of the times in Params.
const (
	DefaultMinRTO  = time.Millisecond
	DefaultMaxRTO  = 250 * time.Millisecond
	DefaultSilence = 30 * time.Second
)

// withDefaults fills in what may be left out.
func (p Params) withDefaults() Params {
	p.Homes = slices.Clone(p.Homes)
	for i := range p.Homes {
		p.Homes[i].Ports = max(p.Homes[i].Ports, 1)
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&p.MinRTO, DefaultMinRTO}, {&p.MaxRTO, max(DefaultMaxRTO, p.MinRTO)}, {&p.Silence, DefaultSilence}} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	return p
}

// Validate says everything that is wrong with the parameters, joined into one error.
func (p Params) Validate() error {
	p = p.withDefaults()
	var errs []error
	for _, h := range p.Homes {
		if err := h.Validate(); err != nil {
			errs = append(errs, err)
		} else if p.Addr == h.Addr.Addr() {
			errs = append(errs, fmt.Errorf("own address %s is that of a home: a host drops multicast that comes from itself", p.Addr))
		}
	}
	if p.Group.IsValid() && (!p.Group.Is4() || !p.Group.IsMulticast()) {
		errs = append(errs, fmt.Errorf("group %s is not an IPv4 multicast address", p.Group))
	}
	if p.WorkerPort == 0 {
		errs = append(errs, errors.New("worker port is 0"))
	}
	if p.Addr.IsValid() && (!p.Addr.Is4() || p.Addr.IsMulticast() || p.Addr.IsUnspecified()) {
		errs = append(errs, fmt.Errorf("own address %s is not an IPv4 unicast address", p.Addr))
	}
	cfg := p.engine()
	if err := cfg.Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("job parameters: %w", err)
	}
	return nil
}

func (p Params) engine() engine.Config {
	return engine.Config{
		Job: p.Job, Generation: p.Generation, Cookie: p.Cookie, Rank: p.Rank, Workers: p.Workers, Level: p.Level, Elements: p.Elements, Window: p.Window,
		WireBits: p.WireBits, Policy: p.Policy.engine(), Priority: p.Priority, Tor: p.Tor, Shards: len(p.Homes), MinRTO: int64(p.MinRTO), MaxRTO: int64(p.MaxRTO), Silence: int64(p.Silence),
	}
}

func (p Params) transport() transport.Config {
	return transport.Config{
		Homes: p.Homes, Group: p.Group, Addr: p.Addr, WorkerPort: p.WorkerPort, Elements: p.Elements, Window: p.Window,
	}
}

// addressTowards is the address from which this host sends to the home.
func addressTowards(home netip.AddrPort) (netip.Addr, error) {
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(home))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the own address towards home %s: %w", home, err)
	}
	addr := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	return addr, conn.Close()
}
