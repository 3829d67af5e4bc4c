package chaos

import (
	"fmt"
	"io"
	"time"

	"spillway/loadtest/rack"
)

// WorkerCommand is the hidden command of this program that calls RunWorker.
const WorkerCommand = "chaos-worker"

// Options say how a campaign is run.
type Options struct {
	Count int // faults
	Seed  uint64
	// Workers of the job; Size of a tensor of the pattern in bytes; Rate of a worker's link in bit/s.
	Workers int
	Size    int64
	Rate    uint64
	// Appliances of the rack, where the scenario needs several; 0 is as many as it needs.
	Appliances int
	// Deadline is how long the job may take to go on after a fault.
	Deadline time.Duration
	// Duration is how long a soak lasts.
	Duration time.Duration
	// Daemon and Tor run spillwayd and the software ToR.
	Daemon, Tor rack.Command
	// Stderr takes progress; Verbose adds what workers, daemons and ToR say.
	Stderr  io.Writer
	Verbose bool
}

// Limits of the options.
const (
	MaxCount    = 10_000
	maxSize     = 64 << 20
	elementSize = 4
)

// Validate says what cannot be meant.
func (o *Options) Validate() error {
	switch {
	case o.Count < 0 || o.Count == 0 && o.Duration == 0 || o.Count > MaxCount:
		return fmt.Errorf("--count is %d, want 1 to %d", o.Count, MaxCount)
	case o.Workers < 2 || o.Workers > rack.MaxWorkers-1:
		return fmt.Errorf("--workers is %d, want 2 to %d", o.Workers, rack.MaxWorkers-1)
	case o.Size < elementSize || o.Size > maxSize || o.Size%elementSize != 0:
		return fmt.Errorf("--size is %d bytes, want a multiple of %d up to %d", o.Size, elementSize, maxSize)
	case o.Deadline <= 0:
		return fmt.Errorf("--deadline is %v, want a time above zero", o.Deadline)
	case o.Duration < 0:
		return fmt.Errorf("--duration is %v", o.Duration)
	}
	return nil
}
