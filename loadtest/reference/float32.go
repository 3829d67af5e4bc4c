// Package reference computes what a collective must give, by the text of
// docs/protocol.md section 5 alone: no chunks in flight, no network, and none of
// the worker library's code. What Spillway returns is compared with it bit for bit.
package reference

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// zeroExponent stands for a chunk in which every rank has only zeros.
const zeroExponent = -1000

// subnormalExponent is the exponent of float32 subnormals: all lie below 2^-126.
const subnormalExponent = -126

// Errors of the sums; they say that the contributions have no sum by the protocol.
var (
	ErrShape     = errors.New("contributions differ in length or there are none")
	ErrNotFinite = errors.New("contribution has a NaN or infinite element")
)

// SumFloat32 is the block fixed point SUM of one contribution a rank, of equal
// lengths, in a job whose chunks have the given number of elements (its E).
// It returns ErrShape or ErrNotFinite, with the values, where the protocol fails the collective.
func SumFloat32(contributions [][]float32, elements int) ([]float32, error) {
	n, err := length(contributions)
	if err != nil {
		return nil, err
	}
	if elements < 1 {
		return nil, fmt.Errorf("%w: chunks of %d elements", ErrShape, elements)
	}
	sum := make([]float32, n)
	k := FractionBits(len(contributions))
	for from := 0; from < n; from += elements {
		if err := sumChunk(sum, contributions, from, min(from+elements, n), k, math.MaxInt32, Exponent); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

// sumChunk sums the elements [from, to), which share one exponent: integers of k bits, whose sums are of no larger magnitude than most.
func sumChunk(sum []float32, contributions [][]float32, from, to, k int, most int64, exponentOf func(float32) (int, error)) error {
	exponent := zeroExponent
	for rank, contribution := range contributions {
		for i := from; i < to; i++ {
			e, err := exponentOf(contribution[i])
			if err != nil {
				return fmt.Errorf("%w: rank %d, element %d", err, rank, i)
			}
			exponent = max(exponent, e)
		}
	}
	if exponent == zeroExponent {
		return nil // sum holds zeros already
	}
	scale := math.Ldexp(1, k-exponent)
	for i := from; i < to; i++ {
		var fixed int64
		for _, contribution := range contributions {
			fixed += int64(math.RoundToEven(float64(contribution[i]) * scale))
		}
		if fixed > most || fixed < -most-1 {
			return fmt.Errorf("element %d: fixed-point sum %d is beyond %d, which section 5 rules out", i, fixed, most)
		}
		sum[i] = float32(math.Ldexp(float64(fixed), exponent-k))
	}
	return nil
}

// Exponent is the exponent one element asks of its chunk: the smallest e with
// |x| < 2^e, -126 for subnormals, -1000 for zero. NaN and infinities give ErrNotFinite.
func Exponent(x float32) (int, error) {
	v := float64(x)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fmt.Errorf("%w: %v", ErrNotFinite, x)
	case v == 0:
		return zeroExponent, nil
	}
	_, e := math.Frexp(v) // |v| = f * 2^e with 1/2 <= f < 1
	return max(e, subnormalExponent), nil
}

// FractionBits is k of section 5: how many bits a contribution may use so that
// n of them cannot leave the int32 range.
func FractionBits(n int) int {
	k := 31 - bits.Len(uint(n-1)) // ceil(log2 n), 0 for one rank
	if n > 128 {
		k--
	}
	return k
}

// length is the common length of the contributions.
func length[T any](contributions [][]T) (int, error) {
	if len(contributions) == 0 {
		return 0, fmt.Errorf("%w: no ranks", ErrShape)
	}
	n := len(contributions[0])
	for rank, c := range contributions {
		if len(c) != n {
			return 0, fmt.Errorf("%w: %d elements at rank %d, %d at rank 0", ErrShape, len(c), rank, n)
		}
	}
	return n, nil
}
