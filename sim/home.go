package sim

import (
	"fmt"
	"net/netip"

	"spillway/xdp"
)

// Home is the aggregator as a node: every frame goes through the compiled
// program in the kernel.
type Home struct {
	aggregator *xdp.Aggregator
	job        xdp.Job
	Wipes      int
}

// NewHome adds the job to the aggregator; Close takes it out again. Homes with
// different job ids may share one aggregator.
func NewHome(a *xdp.Aggregator, job xdp.Job) (*Home, error) {
	if err := a.AddJob(job); err != nil {
		return nil, err
	}
	return &Home{aggregator: a, job: job}, nil
}

// Close removes the job.
func (h *Home) Close() error { return h.aggregator.RemoveJob(h.job.ID) }

// Addr is the home's address.
func (h *Home) Addr() netip.Addr { return h.job.Home.Addr() }

// Receive runs the frame through the program.
func (h *Home) Receive(_ int64, frame []byte) ([][]byte, error) {
	verdict, out, err := h.aggregator.Process(frame)
	if err != nil {
		return nil, err
	}
	switch verdict {
	case xdp.Drop:
		return nil, nil
	case xdp.Transmit:
		return [][]byte{out}, nil
	}
	return nil, fmt.Errorf("the aggregator passed on a frame of %d bytes", len(frame))
}

// Wake has nothing to do: the program has no clock.
func (h *Home) Wake(int64) ([][]byte, int64, error) { return nil, never, nil }

// Wipe makes the home forget every sum, as a reboot does that the workers do not notice.
func (h *Home) Wipe() error {
	h.Wipes++
	if err := h.aggregator.RemoveJob(h.job.ID); err != nil {
		return err
	}
	return h.aggregator.AddJob(h.job)
}

// Counters are the job's, since the last Wipe.
func (h *Home) Counters() (map[string]uint64, error) { return h.aggregator.Counters(h.job.ID) }
