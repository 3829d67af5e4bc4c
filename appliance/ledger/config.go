package ledger

import (
	"net/netip"

	"spillway/xdp"
)

// MaxID is the highest id of a job. An id is also the index of the job in the counters of the ToR, which has as many.
const MaxID = 255

// Config is what there is to give.
type Config struct {
	// Slots are the aggregator's, by size class. None at all are xdp.DefaultSlots.
	Slots xdp.Slots
	// MaxJobs bounds ids as xdp.Config does: 0 < id < MaxJobs. 0 is xdp.DefaultMaxJobs.
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
	// Memory is of the aggregator, in bytes.
	Memory   uint64
	TorSlots uint32
	Jobs     uint32
}
