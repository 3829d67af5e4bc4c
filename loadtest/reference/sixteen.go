package reference

import (
	"fmt"
	"math"
)

// mostOf16 is the largest integer that half of an element of a packet holds.
const mostOf16 = 1<<15 - 1

// FractionBits16 is k of section 5 where elements have 16 bits on the wire: as many bits as n contributions may use, of 2^k - 1 at most each, so that their sum
// stays in half an element of a packet.
func FractionBits16(n int) int {
	k := 0
	for n*(1<<(k+1)-1) <= mostOf16 {
		k++
	}
	return k
}

// Exponent16 is the exponent one element asks of its chunk where k bits are used of 16: that of Exponent, or the next one if it would be rounded up to 2^k.
func Exponent16(x float32, k int) (int, error) {
	e, err := Exponent(x)
	if err != nil {
		return 0, err
	}
	return roomy(float64(x), e, k), nil
}

// roomy is the exponent e of x, or the next one if x would be rounded up to 2^k.
func roomy(x float64, e, k int) int {
	if e != zeroExponent && math.RoundToEven(math.Ldexp(math.Abs(x), k-e)) == math.Ldexp(1, k) {
		e++
	}
	return e
}

// SumFloat32In16 is SumFloat32 of a job whose elements have 16 bits on the wire: chunks have twice as many as a packet has elements.
func SumFloat32In16(contributions [][]float32, elements int) ([]float32, error) {
	n, err := length(contributions)
	if err != nil {
		return nil, err
	}
	if elements < 1 {
		return nil, fmt.Errorf("%w: chunks of %d elements", ErrShape, 2*elements)
	}
	sum := make([]float32, n)
	k := FractionBits16(len(contributions))
	exponent := func(x float32) (int, error) { return Exponent16(x, k) }
	for from := 0; from < n; from += 2 * elements {
		if err := sumChunk(sum, contributions, from, min(from+2*elements, n), k, mostOf16, exponent); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

// SumIn16 is Sum of a job whose elements have 16 bits on the wire. Float64 has 32 there too.
func (f Format) SumIn16(contributions [][]float64, elements int, average bool) ([]float64, error) {
	if f == Float64 {
		return f.Sum(contributions, elements, average)
	}
	k := FractionBits16(len(contributions))
	return f.sum(contributions, 2*elements, average, k, func(chunk []float64) (int, error) {
		exponent := zeroExponent
		for i := range chunk {
			e, err := f.Exponent(chunk[i : i+1])
			if err != nil {
				return 0, err
			}
			exponent = max(exponent, roomy(chunk[i], e, k))
		}
		return exponent, nil
	})
}
