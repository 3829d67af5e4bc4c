package pipeline

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
)

// MaxIndex is the highest index of a job in the counters; 0 is no job's.
const MaxIndex = 255

// MaxPort is the highest switch port, which has 9 bits.
const MaxPort = 511

// MAC is an Ethernet address.
type MAC [6]byte

func (m MAC) number() uint64 {
	var v uint64
	for _, b := range m {
		v = v<<8 | uint64(b)
	}
	return v
}

func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// Job is what the ToR must know of a job.
type Job struct {
	ID         uint16
	Generation uint8
	// Index is the job's place in the counters, 1 to MaxIndex, no other job's.
	Index  uint8
	Cookie uint32
	// Key is mixed into the chunks' ids in the slots, so that two jobs' chunks of the same seq differ: a random number of the job.
	Key     uint32
	Workers []Worker
	// Home is the aggregator's address and first port, HomePorts the number of its ports, a power of two (0 is 1).
	Home      netip.AddrPort
	HomePorts uint16
	// HomePort is the switch port that leads to it, HomeMAC its Ethernet address.
	HomePort uint16
	HomeMAC  MAC
	// TorAddr is the address that the ToR sends partial sums from: a member of the job at the home, with all bits.
	TorAddr netip.Addr
	// Group is the job's multicast address; its packets are replicated by MulticastGroup to all workers, at WorkerPort.
	Group          netip.Addr
	MulticastGroup uint16
	WorkerPort     uint16
	// Region is the job's slots; without one the ToR only forwards.
	Region *Region
	// Parent is where complete sums go, when this ToR is not the root; without one they are published to the workers.
	Parent *Parent
	// EchoPort is the port of a Tofino that takes a published RESULT back in, to free its slot; 0 without one.
	EchoPort uint16
}

// Worker is a member of a job.
type Worker struct {
	Addr netip.Addr
	// Port is the switch port it is at.
	Port uint16
	// Bits are those of the bitmap that it may set.
	Bits uint64
}

// Parent is the node of the tree that complete sums go to.
type Parent struct {
	// Addr is its address and first port, Ports the number of its ports, a power of two (0 is 1).
	Addr  netip.AddrPort
	Ports uint16
	// Port is the switch port that leads to it, MAC its Ethernet address.
	Port uint16
	MAC  MAC
	// Bits are this ToR's in the parent's bitmap.
	Bits uint64
}

// Full is the bitmap of a complete chunk.
func (j *Job) Full() uint64 {
	var full uint64
	for _, w := range j.Workers {
		full |= w.Bits
	}
	return full
}

// Validate says everything that is wrong with the job, joined into one error.
func (j *Job) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if j.Index == 0 {
		wrong("index is 0, which is no job's")
	}
	j.validateWorkers(wrong)
	validateNode(wrong, "home", j.Home, j.HomePorts, j.HomePort)
	if !isUnicast(j.TorAddr) {
		wrong("address of the ToR %q is not an IPv4 unicast address", j.TorAddr)
	}
	if !j.Group.Is4() || !j.Group.IsMulticast() {
		wrong("group %q is not an IPv4 multicast address", j.Group)
	}
	if j.MulticastGroup == 0 {
		wrong("multicast group is 0")
	}
	if j.WorkerPort == 0 || inBlock(j.WorkerPort) {
		wrong("worker port %d is 0 or one of the ports of homes, %d to %d", j.WorkerPort, FirstPort, FirstPort+Ports-1)
	}
	if j.EchoPort > MaxPort {
		wrong("echo port %d is over %d", j.EchoPort, MaxPort)
	}
	if j.Region != nil {
		if err := j.Region.Validate(0); err != nil {
			errs = append(errs, err)
		}
		if len(j.Workers) == 1 {
			wrong("a region for a job of one worker, which has nothing to sum")
		}
	}
	if p := j.Parent; p != nil {
		validateNode(wrong, "parent", p.Addr, p.Ports, p.Port)
		if p.Bits == 0 {
			wrong("parent: no bits for this ToR")
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("job %d: %w", j.ID, err)
	}
	return nil
}

func (j *Job) validateWorkers(wrong func(string, ...any)) {
	if len(j.Workers) == 0 || len(j.Workers) > 64 {
		wrong("%d workers, not 1 to 64", len(j.Workers))
	}
	var taken uint64
	type place struct {
		addr netip.Addr
		port uint16
	}
	seen := map[place]int{}
	for n, w := range j.Workers {
		if !isUnicast(w.Addr) {
			wrong("worker %d: address %q is not an IPv4 unicast address", n, w.Addr)
		}
		if w.Addr.IsValid() && (w.Addr == j.Home.Addr() || w.Addr == j.TorAddr) {
			wrong("worker %d: address %s is also the home's or the ToR's", n, w.Addr)
		}
		if w.Port > MaxPort {
			wrong("worker %d: switch port %d is over %d", n, w.Port, MaxPort)
		}
		if w.Bits == 0 {
			wrong("worker %d has no bits", n)
		}
		if w.Bits&taken != 0 {
			wrong("worker %d: bits %#x are another's", n, w.Bits&taken)
		}
		taken |= w.Bits
		at := place{w.Addr, w.Port}
		if first, ok := seen[at]; ok {
			wrong("workers %d and %d are both %s at switch port %d", first, n, w.Addr, w.Port)
		} else {
			seen[at] = n
		}
	}
}

// validateNode checks what a home and a parent have in common.
func validateNode(wrong func(string, ...any), name string, addr netip.AddrPort, ports, port uint16) {
	ports = max(ports, 1)
	if !isUnicast(addr.Addr()) {
		wrong("%s %q is not an IPv4 unicast address and port", name, addr)
	}
	if bits.OnesCount16(ports) != 1 {
		wrong("%s: %d ports, not a power of two", name, ports)
	}
	if !inBlock(addr.Port()) || int(addr.Port())+int(ports) > FirstPort+Ports {
		wrong("%s: ports %d to %d are not all within %d to %d, which the ToR looks at", name, addr.Port(), int(addr.Port())+int(ports)-1, FirstPort, FirstPort+Ports-1)
	}
	if port > MaxPort {
		wrong("%s: switch port %d is over %d", name, port, MaxPort)
	}
}

func inBlock(port uint16) bool { return port >= FirstPort && port < FirstPort+Ports }

func isUnicast(a netip.Addr) bool { return a.Is4() && !a.IsMulticast() && !a.IsUnspecified() }
