package worker

import (
	"context"
	"fmt"

	"spillway/wire"
	"spillway/worker/engine"
	"spillway/worker/fixedpoint"
)

// Float16 is an IEEE 754 binary16 by its bits, BFloat16 the upper half of a float32. ToFloat16 and ToBFloat16 round to them.
type (
	Float16  = fixedpoint.Float16
	BFloat16 = fixedpoint.BFloat16
)

// ToFloat16 is v rounded to the nearest Float16, ties to even; an infinity beyond its range.
func ToFloat16(v float64) Float16 { return fixedpoint.ToFloat16(v) }

// ToBFloat16 is v rounded to the nearest BFloat16, ties to even; an infinity beyond its range.
func ToBFloat16(v float64) BFloat16 { return fixedpoint.ToBFloat16(v) }

// Element is what a tensor may consist of.
type Element interface {
	float32 | float64 | Float16 | BFloat16 | int32
}

// Op is what Reduce does with the elements.
type Op uint8

// The operations.
const (
	Sum Op = iota
	Max
	Min
	Average // the sum divided by the number of ranks, of floats only
)

func (op Op) String() string {
	switch op {
	case Average:
		return "AVG"
	default:
		return wire.Op(op).String()
	}
}

// Reduce replaces data, at every rank, by its element-wise reduction over all ranks, with the same bits at every rank.
//
// The SUM of floats is in block fixed point: each rank's element is rounded to a multiple of 2^(e-k), where e is the smallest exponent with |x| < 2^e
// for the elements of a chunk at all ranks, so that with n ranks the sum is off by at most n * 2^(e-k-1); then it is rounded once to the type of the elements. For float32, float16 and
// bfloat16, k is 31 - ceil(log2 n), at least 25, so that contributions of the halves lose nothing unless they are 2^14 (float16) or 2^17 (bfloat16) times smaller than the
// largest of their chunk. For float64, k is 30 - floor(log2 n), and e at least -900: it has the range of float64, but not its precision. Average divides the same sum by n and
// rounds once: it is off by at most 2^(e-k-1) and one rounding. A SUM beyond the range of its type is an infinity; a NaN or an infinity in the input is a NonFiniteError at every rank.
//
// In a job whose elements have 16 bits on the wire (Params.WireBits), sums and averages of float32, float16 and bfloat16 have half the packets and coarser steps: there k is
// 15 - ceil(log2 n), so 13 bits and a sign for 4 ranks and 9 for 64, in the same bounds; e is one larger where the largest element of a chunk, of twice as many elements, would be
// rounded up to 2^e.
//
// MAX and MIN of float32, float16 and bfloat16 are exact, with -0 below 0 and infinities in their places; where any rank has a NaN the result is the positive quiet NaN. They are not
// defined for float64. Operations on int32 are exact; a SUM beyond its range is a SaturatedError at every rank, and Average is not defined.
//
// For contexts, errors and the buffer all is as for AllReduce.
func Reduce[T Element](ctx context.Context, w *Worker, data []T, op Op) error {
	c, err := collectiveOf(data, op)
	if err != nil {
		return fmt.Errorf("allreduce: %w", err)
	}
	_, err = w.reduce(ctx, c, nil)
	return err
}

// ReduceAsync is to Reduce what AllReduceAsync is to AllReduce.
func ReduceAsync[T Element](w *Worker, data []T, op Op) (*Handle, error) {
	c, err := collectiveOf(data, op)
	if err != nil {
		return nil, fmt.Errorf("allreduce: %w", err)
	}
	return w.issue(c, nil)
}

// ReduceAll is Reduce for several tensors at once, which share the packets: for many small ones it takes hardly longer than for one of their size together, while a collective for each takes packets
// and bookkeeping of its own. The tensors, their order and their lengths are the same at all ranks, or it is a DisagreementError at all. None is empty. In a SUM of floats elements of
// different tensors can be in the same chunk, and so share its exponent: tensors of very different magnitudes lose less apart. In a job whose elements have 16 bits on the wire, fused ones have 32.
func ReduceAll[T Element](ctx context.Context, w *Worker, tensors [][]T, op Op) error {
	c, err := fusedOf(tensors, op)
	if err != nil {
		return fmt.Errorf("allreduce: %w", err)
	}
	_, err = w.reduce(ctx, c, nil)
	return err
}

// ReduceAllAsync is to ReduceAll what AllReduceAsync is to AllReduce.
func ReduceAllAsync[T Element](w *Worker, tensors [][]T, op Op) (*Handle, error) {
	c, err := fusedOf(tensors, op)
	if err != nil {
		return nil, fmt.Errorf("allreduce: %w", err)
	}
	return w.issue(c, nil)
}

func fusedOf[T Element](tensors [][]T, op Op) (*engine.Collective, error) {
	c, err := collectiveOf([]T(nil), op)
	if err != nil {
		return nil, err
	}
	c.Fused, err = engine.Fuse(tensors)
	return c, err
}

func collectiveOf[T Element](data []T, op Op) (*engine.Collective, error) {
	c := &engine.Collective{Op: wire.Op(op)}
	if op == Average {
		c.Op, c.Average = wire.Sum, true
	} else if op > Average {
		return nil, fmt.Errorf("%w: %d", wire.ErrOp, uint8(op))
	}
	switch data := any(data).(type) {
	case []float32:
		c.F32 = data
	case []float64:
		c.F64 = data
	case []Float16:
		c.F16 = data
	case []BFloat16:
		c.BF16 = data
	case []int32:
		c.I32 = data
	}
	return c, nil
}
