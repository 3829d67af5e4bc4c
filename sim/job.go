package sim

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"spillway/loadtest/reference"
	"spillway/p4/softtor/dataplane"
	"spillway/wire"
	"spillway/worker/engine"
	"spillway/xdp"
)

// Job is a job of a Scenario: its numbers, and what it reduces when.
type Job struct {
	Workers     int
	Elements    int
	Window      int
	WireBits    int // of an element of a sum of floats: 16, or else 32
	HomePorts   uint16
	FirstSeq    uint32
	Collectives []Collective
	// Start is when each worker issues each collective: Start[rank][i].
	Start [][]int64
	// Policy is what the job does about stragglers; its quorum is 0 or less than all.
	Policy xdp.Policy
	Share  *Share // nil: nothing of the ToR is the job's
}

// Share is what a job has of the ToR.
type Share struct {
	Region   engine.TorRegion
	Mode     dataplane.RegionMode
	Priority uint8
	Key      uint32 // seq XOR Key is a chunk's id in the ToR
}

// Collective is one collective of a Job, with every rank's input.
type Collective struct {
	Op     wire.Op
	F32    [][]float32 // by rank; or
	I32    [][]int32   // or
	Floats *Floats
	// What every rank must get instead of a sum, if anything.
	NonFinite, Saturates bool
	Rescale              bool // in a job with a policy
}

// workerPort is not in the block of ports that a ToR takes for homes'.
const workerPort = 9800

func workerAddr(job, rank int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 77, byte(job), byte(rank + 1)})
}

// identity is the n-th job of a scenario as the aggregator knows it.
func (j *Job) identity(seed uint64, n int, id uint16) xdp.Job {
	job := xdp.Job{
		ID: id, Generation: uint8(seed) + uint8(n), Cookie: uint32((seed + uint64(n)<<32) * 0x9e3779b97f4a7c15 >> 16),
		Elements: j.Elements, Window: j.Window, Workers: j.Workers,
		Home: netip.AddrPortFrom(homeAddr(0), homePort), HomePorts: j.HomePorts, Policy: j.Policy,
		Group: netip.AddrFrom4([4]byte{239, 77, byte(id >> 8), byte(id)}), WorkerPort: workerPort,
	}
	for rank := range j.Workers {
		job.Members = append(job.Members, xdp.Member{Addr: workerAddr(n, rank), Bits: 1 << rank})
	}
	if j.Share != nil {
		job.Members = append(job.Members, xdp.Member{Addr: torAddr, Bits: wire.FullBitmap(j.Workers)})
	}
	return job
}

// of is the collective as one rank issues it, on a copy of its input.
func (c *Collective) of(rank int) *engine.Collective {
	if c.Floats != nil {
		return c.Floats.of(rank, c.Op)
	}
	if c.F32 != nil {
		return &engine.Collective{F32: slices.Clone(c.F32[rank]), Op: c.Op}
	}
	return &engine.Collective{I32: slices.Clone(c.I32[rank]), Op: c.Op}
}

// check compares every worker's i-th collective with the sum of the inputs, bit for bit.
func (c *Collective) check(workers []*Worker, i int, job *Job) error {
	var wantF32 []float32
	var wantI32 []int32
	var wantFloats []float64
	var err error
	switch {
	case c.NonFinite || c.Saturates:
	case c.Floats != nil:
		wantFloats, err = c.Floats.want(c.Op, job)
	case c.F32 != nil:
		sum := reference.SumFloat32
		if job.WireBits == 16 {
			sum = reference.SumFloat32In16
		}
		wantF32, err = sum(c.F32, job.Elements)
	default:
		var saturated bool
		wantI32, saturated, err = reference.ReduceInt32(c.I32, c.Op)
		if saturated {
			return fmt.Errorf("collective %d: the inputs have no sum in int32", i)
		}
	}
	if err != nil {
		return fmt.Errorf("collective %d: the reference: %w", i, err)
	}
	for rank, w := range workers {
		got := w.Finished[i]
		var nonFinite *engine.NonFiniteError
		var saturated *engine.SaturatedError
		switch {
		case c.NonFinite:
			if !errors.As(got.Err(), &nonFinite) {
				return fmt.Errorf("collective %d, rank %d: got %v, want a NonFiniteError", i, rank, got.Err())
			}
		case c.Saturates:
			if !errors.As(got.Err(), &saturated) {
				return fmt.Errorf("collective %d, rank %d: got %v, want a SaturatedError", i, rank, got.Err())
			}
		case got.Err() != nil:
			return fmt.Errorf("collective %d, rank %d: %w", i, rank, got.Err())
		}
		if wantFloats != nil {
			if err := c.Floats.check(got, wantFloats); err != nil {
				return fmt.Errorf("collective %d, rank %d, %s: %w", i, rank, c.Op, err)
			}
		}
		for j, want := range wantF32 {
			if math.Float32bits(got.F32[j]) != math.Float32bits(want) {
				return fmt.Errorf("collective %d, rank %d, element %d: got %x (%v), want %x (%v)", i, rank, j,
					math.Float32bits(got.F32[j]), got.F32[j], math.Float32bits(want), want)
			}
		}
		for j, want := range wantI32 {
			if got.I32[j] != want {
				return fmt.Errorf("collective %d, rank %d, element %d: got %d, want %d", i, rank, j, got.I32[j], want)
			}
		}
	}
	return nil
}
