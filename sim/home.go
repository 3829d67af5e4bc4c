package sim

import (
	"errors"
	"fmt"
	"net/netip"

	"spillway/xdp"
)

// Home is the aggregator as a node: every frame goes through the compiled
// program in the kernel.
type Home struct {
	aggregator *xdp.Aggregator
	jobs       []xdp.Job // all at one address
	Wipes      int
}

// NewHome adds the jobs to the aggregator; Close takes them out again. Homes with
// different job ids may share one aggregator.
func NewHome(a *xdp.Aggregator, jobs ...xdp.Job) (*Home, error) {
	h := &Home{aggregator: a}
	for _, job := range jobs {
		if err := a.AddJob(job); err != nil {
			return nil, errors.Join(err, h.Close())
		}
		h.jobs = append(h.jobs, job)
	}
	return h, nil
}

// Close removes the jobs.
func (h *Home) Close() error {
	var errs []error
	for _, job := range h.jobs {
		errs = append(errs, h.aggregator.RemoveJob(job.ID))
	}
	return errors.Join(errs...)
}

// Addr is the home's address.
func (h *Home) Addr() netip.Addr { return h.jobs[0].Home.Addr() }

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
	for _, job := range h.jobs {
		if err := h.aggregator.RemoveJob(job.ID); err != nil {
			return err
		}
		if err := h.aggregator.AddJob(job); err != nil {
			return err
		}
	}
	return nil
}

// Counters are those of each job, since the last Wipe.
func (h *Home) Counters() ([]map[string]uint64, error) {
	var all []map[string]uint64
	var errs []error
	for _, job := range h.jobs {
		counters, err := h.aggregator.Counters(job.ID)
		all, errs = append(all, counters), append(errs, err)
	}
	return all, errors.Join(errs...)
}
