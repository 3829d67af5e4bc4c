package engine

import (
	"fmt"

	"spillway/wire"
	"spillway/worker/fixedpoint"
)

// MaxWindow bounds W. With the largest chunks, 2W+2 results of this window take 220 MB.
const MaxWindow = 1 << 15

// MaxShards bounds the homes of a job: runs of 64 chunks go round them, and a window has few such runs.
const MaxShards = 64

// maxPriority bounds the priority of chunks for the ToR, which keeps urgencies in 31 bits.
const maxPriority = 127

// Config are the job's numbers as one worker sees them.
type Config struct {
	Job        uint16
	Generation uint8
	Cookie     uint32
	// Rank is this worker's, in [0, Workers).
	Rank, Workers int
	// Level is what this worker is at its home if that is a node of a tree; nil: the job has one level.
	Level *Level
	// Elements is E, the elements of a full chunk; Window is W, the chunks in flight.
	Elements, Window int
	// Priority is the urgency of the job's chunks in the ToR, 1 to 127 if Tor is set.
	Priority uint8
	// Tor is the job's share of the ToR; nil: it has none.
	Tor *TorRegion
	// WireBits is what an element of a SUM or an average of float32, float16 or bfloat16 takes of a packet: 32 (or 0), or 16. All ranks have the same.
	WireBits int
	// Policy is what the job does about stragglers; the zero Policy waits for them.
	Policy Policy
	// Shards is how many homes there are: that of chunk seq is number wire.Shard(seq, Shards). More than one needs a job without a Tor.
	Shards int
	// MinRTO and MaxRTO bound the retransmission timer; Silence is how long a collective may go without a new RESULT. Nanoseconds.
	MinRTO, MaxRTO, Silence int64
	// FirstSeq is the seq of the first chunk: 0 except in tests of the wrap.
	FirstSeq uint32
}

// Validate says what is wrong with the numbers, if anything is.
func (c *Config) Validate() error {
	if err := c.Policy.validate(c.Workers); err != nil {
		return err
	}
	switch {
	case c.Workers < 1 || c.Workers > c.most():
		return fmt.Errorf("workers %d is not between 1 and %d", c.Workers, c.most())
	case c.Rank < 0 || c.Rank >= c.Workers:
		return fmt.Errorf("rank %d is not between 0 and %d", c.Rank, c.Workers-1)
	case c.Elements < wire.MinElements || c.Elements > wire.MaxElements || c.Elements%wire.ElementStep != 0:
		return fmt.Errorf("elements %d is not a multiple of %d between %d and %d", c.Elements, wire.ElementStep, wire.MinElements, wire.MaxElements)
	case c.Window < 1 || c.Window > MaxWindow:
		return fmt.Errorf("window %d is not between 1 and %d", c.Window, MaxWindow)
	case c.Shards < 1 || c.Shards > MaxShards:
		return fmt.Errorf("%d homes are not between 1 and %d", c.Shards, MaxShards)
	case c.WireBits != 0 && c.WireBits != 16 && c.WireBits != 32:
		return fmt.Errorf("elements of %d bits on the wire are neither of 16 nor of 32", c.WireBits)
	case c.paired() && c.Workers > fixedpoint.MostPaired:
		return fmt.Errorf("%d workers are too many for elements of 16 bits on the wire, which are for up to %d", c.Workers, fixedpoint.MostPaired)
	case c.MinRTO <= 0 || c.MaxRTO < c.MinRTO:
		return fmt.Errorf("retransmission timeouts %d ns to %d ns are not a range above zero", c.MinRTO, c.MaxRTO)
	case c.Silence <= 0:
		return fmt.Errorf("silence of %d ns is not above zero", c.Silence)
	}
	if c.Level != nil {
		if err := c.Level.validate(c); err != nil {
			return err
		}
	}
	switch {
	case c.Tor == nil:
		return nil
	case c.Shards > 1:
		return fmt.Errorf("a job with a tor region has one home, not %d", c.Shards)
	case c.Priority < 1 || c.Priority > maxPriority:
		return fmt.Errorf("priority %d of a job with a tor region is not between 1 and %d", c.Priority, maxPriority)
	}
	return c.Tor.validate(c.Window)
}

// paired reports whether two elements share a word of a packet, where they can.
func (c *Config) paired() bool { return c.WireBits == 16 }
