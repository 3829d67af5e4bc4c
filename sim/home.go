package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"spillway/wire"
	"spillway/xdp"
)

// Home is the aggregator as a node: every frame goes through the compiled
// program in the kernel.
type Home struct {
	aggregator *xdp.Aggregator
	addr       netip.Addr
	jobs       map[uint16]xdp.Job
	published  map[uint16]map[uint32]published // of jobs with a policy, by job and seq
	before     map[string]uint64               // counters of jobs that were taken out
	dead       bool
	Wipes      int
}

// published is what a RESULT says, which no other of its chunk may contradict in the same generation. In a later one a home may say something
// else as long as no worker has taken this one.
type published struct {
	generation uint8
	flags      wire.Flags
	bitmap     uint64
	elements   []byte
}

// NewHome is a home at an address. Homes with different job ids may share one aggregator.
func NewHome(a *xdp.Aggregator, addr netip.Addr) *Home {
	return &Home{
		aggregator: a, addr: addr, jobs: make(map[uint16]xdp.Job), published: make(map[uint16]map[uint32]published), before: make(map[string]uint64),
	}
}

// Serve adds a job to the aggregator, in place of an earlier generation of it.
func (h *Home) Serve(job xdp.Job) error {
	job.Home = netip.AddrPortFrom(h.addr, job.Home.Port())
	if err := h.Drop(job.ID); err != nil {
		return err
	}
	if err := h.aggregator.AddJob(job); err != nil {
		return err
	}
	h.jobs[job.ID] = job
	if job.Policy.Quorum != 0 && h.published[job.ID] == nil {
		h.published[job.ID] = make(map[uint32]published)
	}
	return nil
}

// Drop takes a job out of the aggregator, if it is there.
func (h *Home) Drop(id uint16) error {
	if _, ok := h.jobs[id]; !ok {
		return nil
	}
	counters, err := h.aggregator.Counters(id)
	if err != nil {
		return err
	}
	for name, n := range counters {
		h.before[name] += n
	}
	delete(h.jobs, id)
	return h.aggregator.RemoveJob(id)
}

// Close removes the jobs. It is what the death of a host does to its memory, too.
func (h *Home) Close() error {
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(h.jobs)) {
		errs = append(errs, h.Drop(id))
	}
	return errors.Join(errs...)
}

// Addr is the home's address.
func (h *Home) Addr() netip.Addr { return h.addr }

// Receive runs the frame through the program.
func (h *Home) Receive(now int64, frame []byte) ([][]byte, error) {
	if h.dead {
		return nil, nil
	}
	results := h.resultsOf(frame)
	if results != nil {
		if err := h.aggregator.SetClock(binary.BigEndian.Uint16(frame[HeaderBytes+4:]), time.Duration(now)); err != nil {
			return nil, err
		}
	}
	verdict, out, err := h.aggregator.Process(frame)
	if err != nil {
		return nil, err
	}
	switch verdict {
	case xdp.Drop:
		return nil, nil
	case xdp.Transmit:
		if results != nil {
			if err := note(results, out); err != nil {
				return nil, err
			}
		}
		return [][]byte{out}, nil
	case xdp.Pass:
		if copies := h.replicate(out); copies != nil {
			return copies, nil
		}
	}
	return nil, fmt.Errorf("the aggregator passed on a frame of %d bytes", len(frame))
}

// replicate does what the tc program does where a job has no group: a copy to each member. nil: the frame is not for it.
func (h *Home) replicate(frame []byte) (copies [][]byte) {
	if len(frame) < HeaderBytes+wire.HeaderSize || !bytes.Equal(frame[26:30], frame[30:34]) {
		return nil
	}
	job, ok := h.jobs[binary.BigEndian.Uint16(frame[HeaderBytes+4:])]
	if !ok || job.Group.IsValid() {
		return nil
	}
	for _, m := range job.Members {
		if m.MAC == nil {
			continue // a ToR
		}
		port := m.Port
		if port == 0 {
			port = job.WorkerPort
		}
		own := bytes.Clone(frame)
		copy(own, m.MAC)
		copy(own[30:], m.Addr.AsSlice())
		binary.BigEndian.PutUint16(own[36:], port)
		binary.BigEndian.PutUint16(own[24:], 0)
		binary.BigEndian.PutUint16(own[24:], checksum(own[14:34]))
		copies = append(copies, own)
	}
	return copies
}

// resultsOf are those of the frame's job, nil if it has no policy or is not here.
func (h *Home) resultsOf(frame []byte) map[uint32]published {
	if len(frame) < HeaderBytes+wire.HeaderSize {
		return nil
	}
	id := binary.BigEndian.Uint16(frame[HeaderBytes+4:])
	if _, ok := h.jobs[id]; !ok {
		return nil
	}
	return h.published[id]
}

// note keeps what a RESULT says, and fails if another one of its chunk said something else.
func note(results map[uint32]published, frame []byte) error {
	var header wire.Header
	elements, err := header.Decode(frame[HeaderBytes:])
	if err != nil || header.Type != wire.Result {
		return err
	}
	was, again := results[header.Seq]
	if !again || was.generation != header.Generation {
		results[header.Seq] = published{header.Generation, header.Flags, header.Bitmap, bytes.Clone(elements)}
	} else if was.bitmap != header.Bitmap || !bytes.Equal(was.elements, elements) {
		return fmt.Errorf("two RESULTs of chunk %d: of %#x and of %#x", header.Seq, was.bitmap, header.Bitmap)
	}
	return nil
}

// Wake has nothing to do: the program has no clock.
func (h *Home) Wake(int64) ([][]byte, int64, error) { return nil, never, nil }

// Wipe makes the home forget every sum, as a reboot does. Jobs that wait for all do not notice; those with a policy go on in a new generation, and Wipe returns
// them for the workers to be told.
func (h *Home) Wipe() (renewed []xdp.Job, err error) {
	h.Wipes++
	for _, id := range slices.Sorted(maps.Keys(h.jobs)) {
		job := h.jobs[id]
		if job.Policy.Quorum != 0 {
			job.Generation++
			job.Resumed = true
			renewed = append(renewed, job)
		}
		if err := h.Serve(job); err != nil {
			return renewed, err
		}
	}
	return renewed, nil
}

// Events are how often each rule of the home was used in this run, over all jobs.
func (h *Home) Events() (map[string]uint64, error) {
	all, err := h.Counters()
	events := maps.Clone(h.before)
	for _, counters := range all {
		for name, n := range counters {
			events[name] += n
		}
	}
	maps.DeleteFunc(events, func(_ string, n uint64) bool { return n == 0 })
	return events, err
}

// Counters are those of each job, in its present generation.
func (h *Home) Counters() ([]map[string]uint64, error) {
	var all []map[string]uint64
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(h.jobs)) {
		counters, err := h.aggregator.Counters(id)
		all, errs = append(all, counters), append(errs, err)
	}
	return all, errors.Join(errs...)
}
