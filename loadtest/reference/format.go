package reference

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
)

// Format is a type of floats, all of whose numbers a float64 holds.
type Format struct {
	Name   string
	Digits int // of the significand, with the one before the point
	Least  int // 2^Least is the smallest normal number
	Most   int // all finite numbers are below 2^Most
	Floor  int // the smallest exponent of a chunk that is not all zeros
}

// The formats of collectives.
var (
	Float32  = Format{"float32", 24, -126, 128, subnormalExponent}
	Float64  = Format{"float64", 53, -1022, 1024, -900}
	Float16  = Format{"float16", 11, -14, 16, subnormalExponent}
	BFloat16 = Format{"bfloat16", 8, -126, 128, subnormalExponent}
)

// FractionBits is k of section 5 for n contributions of this format.
func (f Format) FractionBits(n int) int {
	if f.Digits > 31 {
		return 30 - (bits.Len(uint(n)) - 1)
	}
	return FractionBits(n)
}

// Exponent is what the numbers of a chunk, of all ranks, ask for.
func (f Format) Exponent(x []float64) (int, error) {
	exponent := zeroExponent
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, ErrNotFinite
		}
		if v != 0 {
			_, e := math.Frexp(v) // |v| is in [2^(e-1), 2^e)
			exponent = max(exponent, e, f.Floor)
		}
	}
	return exponent, nil
}

// Sum is the block fixed point SUM of one contribution a rank, in numbers of the format, or with average its AVG. It is computed in integers and fractions of any
// size; otherwise it is as SumFloat32.
func (f Format) Sum(contributions [][]float64, elements int, average bool) ([]float64, error) {
	return f.sum(contributions, elements, average, f.FractionBits(len(contributions)), f.Exponent)
}

// sum is Sum in chunks of so many elements with k bits each, and the exponent that the numbers of a chunk ask for.
func (f Format) sum(contributions [][]float64, elements int, average bool, k int, exponentOf func([]float64) (int, error)) ([]float64, error) {
	n, err := length(contributions)
	if err != nil {
		return nil, err
	}
	if elements < 1 {
		return nil, fmt.Errorf("%w: chunks of %d elements", ErrShape, elements)
	}
	result := make([]float64, n)
	for from := 0; from < n; from += elements {
		to := min(from+elements, n)
		var chunk []float64
		for _, contribution := range contributions {
			chunk = append(chunk, contribution[from:to]...)
		}
		exponent, err := exponentOf(chunk)
		if err != nil {
			return nil, err
		}
		if exponent == zeroExponent {
			continue
		}
		for i := range to - from {
			sum := new(big.Int)
			for rank := range contributions {
				sum.Add(sum, nearest(scaled(chunk[rank*(to-from)+i], k-exponent)))
			}
			value := new(big.Rat).Mul(new(big.Rat).SetInt(sum), powerOfTwo(exponent-k))
			if average {
				value.Quo(value, new(big.Rat).SetInt64(int64(len(contributions))))
			}
			result[from+i] = f.Round(value)
		}
	}
	return result, nil
}

// Round is the number of the format nearest to a value, ties to even, or an infinity.
func (f Format) Round(value *big.Rat) float64 {
	if value.Sign() == 0 {
		return 0
	}
	// The place of the first digit, from the lengths of numerator and denominator, may be one too high.
	first := value.Num().BitLen() - value.Denom().BitLen()
	if new(big.Rat).Abs(value).Cmp(powerOfTwo(first)) < 0 {
		first--
	}
	step := max(first, f.Least) - (f.Digits - 1)
	rounded := new(big.Rat).Mul(new(big.Rat).SetInt(nearest(new(big.Rat).Mul(value, powerOfTwo(-step)))), powerOfTwo(step))
	if new(big.Rat).Abs(rounded).Cmp(powerOfTwo(f.Most)) >= 0 {
		return math.Inf(value.Sign())
	}
	v, _ := rounded.Float64()                      // exact
	return math.Copysign(v, float64(value.Sign())) // also of what is rounded to 0
}

// scaled is x * 2^exponent.
func scaled(x float64, exponent int) *big.Rat {
	return new(big.Rat).Mul(new(big.Rat).SetFloat64(x), powerOfTwo(exponent))
}

func powerOfTwo(exponent int) *big.Rat {
	p := new(big.Int).Lsh(big.NewInt(1), uint(max(exponent, -exponent)))
	if exponent < 0 {
		return new(big.Rat).SetFrac(big.NewInt(1), p)
	}
	return new(big.Rat).SetInt(p)
}

// nearest is the nearest integer, ties to even.
func nearest(value *big.Rat) *big.Int {
	twice := new(big.Int).Lsh(value.Denom(), 1)
	odd := new(big.Int).Add(new(big.Int).Lsh(value.Num(), 1), value.Denom()) // 2v + 1 as a fraction of 2
	rest := new(big.Int)
	result, rest := new(big.Int).DivMod(odd, twice, rest) // floor of v + 1/2
	if rest.Sign() == 0 && result.Bit(0) == 1 {
		result.Sub(result, big.NewInt(1))
	}
	return result
}
