package ledger

import (
	"fmt"
	"net/netip"

	"spillway/xdp"
)

// MaxID is the highest id of a job. An id is also the index of the job in the counters of the ToR, which has as many.
const MaxID = 255

// Config is what there is to give.
type Config struct {
	// Slots are an aggregator's, by size class, of nodes that say nothing else. None at all are xdp.DefaultSlots.
	Slots xdp.Slots
	// MaxJobs bounds ids as xdp.Config does: 0 < id < MaxJobs, also at nodes that say nothing else. 0 is xdp.DefaultMaxJobs.
	MaxJobs uint32
	// Groups are the multicast addresses that jobs may have. Not valid: none.
	Groups netip.Prefix
	// FirstWorkerPort to LastWorkerPort are the ports of workers, one a job.
	FirstWorkerPort, LastWorkerPort uint16
	// SharedSlots are those of the ToR that jobs share, from slot 0 on, rounded down to a power of two; 0: none.
	SharedSlots uint32
	// Quota is the most that one job may have.
	Quota Quota
}

// Quota bounds a job, and the number of jobs. 0 is no bound.
type Quota struct {
	Workers, Window uint32
	// Memory is of the aggregators, in bytes.
	Memory   uint64
	TorSlots uint32
	Jobs     uint32
}

// withDefaults fills in what may be left out.
func (c Config) withDefaults() Config {
	if c.Slots == (xdp.Slots{}) {
		c.Slots = xdp.DefaultSlots
	}
	if c.MaxJobs == 0 {
		c.MaxJobs = xdp.DefaultMaxJobs
	}
	c.Groups = c.Groups.Masked()
	c.SharedSlots = min(floorPower(c.SharedSlots), maxRegion)
	return c
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.MaxJobs < 2:
		return fmt.Errorf("max_jobs %d: job ids begin at 1, want 2 at least", c.MaxJobs)
	case c.FirstWorkerPort == 0 || c.LastWorkerPort < c.FirstWorkerPort:
		return fmt.Errorf("worker ports %d to %d are no range above 0: write 9800-10055, for example", c.FirstWorkerPort, c.LastWorkerPort)
	case !c.Groups.IsValid():
		return nil
	case !c.Groups.Addr().Is4() || !c.Groups.Addr().IsMulticast() || c.Groups.Bits() < 4:
		return fmt.Errorf("groups %v are no IPv4 multicast addresses: write 239.77.0.0/16, for example", c.Groups)
	}
	return nil
}

// ids is how many there are.
func (c Config) ids() int { return int(min(c.MaxJobs-1, MaxID)) }

// groups is how many there are, as far as there can be jobs for them.
func (c Config) groups() int {
	if !c.Groups.IsValid() {
		return 0
	}
	return 1 << min(32-c.Groups.Bits(), 16)
}

// group is the n-th.
func (c Config) group(n int) netip.Addr {
	a := c.Groups.Addr().As4()
	low := (uint32(a[2])<<8 | uint32(a[3])) + uint32(n) // at most 2^16 of them, from a multiple of their number on
	return netip.AddrFrom4([4]byte{a[0], a[1], byte(low >> 8), byte(low)})
}

// workerPorts is how many there are.
func (c Config) workerPorts() int { return int(c.LastWorkerPort) - int(c.FirstWorkerPort) + 1 }
