package fixedpoint

import (
	"math"
	"math/bits"
)

// Exponents that a rank may announce for a chunk, and the marker of a chunk that cannot be summed.
const (
	// Zero is the exponent of a chunk that is all zeros: less than any other, so that it never decides a maximum.
	Zero = -1000
	// Least is the smallest exponent of a chunk that is not all zeros; subnormal numbers have it.
	Least = -126
	// Greatest is the exponent of the largest finite float32.
	Greatest = 128
	// NonFinite marks a chunk with a NaN or an infinity; the rank is added to it, so that the maximum names one.
	NonFinite = 1 << 30
)

const (
	magnitude = 0x7fffffff // a float32 without its sign
	infinity  = 0x7f800000 // magnitudes from here on are infinities and NaNs
)

// Exponent is the smallest e with |x| < 2^e for every element of the chunk: in [Least, Greatest], Zero when all elements are
// zero (or there are none), NonFinite when one is NaN or infinite.
func Exponent(x []float32) int32 {
	// Magnitudes of floats order as their bits do, so the largest is found with integer comparisons, and NaNs and infinities,
	// which are above all others, are found by the same scan.
	done, m := magnitudeBlocks(x)
	switch m = max(m, magnitudePortable(x[done:])); {
	case m == 0:
		return Zero
	case m >= infinity:
		return NonFinite
	default:
		return int32(m>>23) + Least
	}
}

// magnitudePortable is the largest magnitude. Four maxima keep the chains of dependent instructions apart.
func magnitudePortable(x []float32) uint32 {
	var a, b, c, d uint32
	for len(x) >= 8 {
		s := (*[8]float32)(x)
		a = max(a, math.Float32bits(s[0])&magnitude, math.Float32bits(s[4])&magnitude)
		b = max(b, math.Float32bits(s[1])&magnitude, math.Float32bits(s[5])&magnitude)
		c = max(c, math.Float32bits(s[2])&magnitude, math.Float32bits(s[6])&magnitude)
		d = max(d, math.Float32bits(s[3])&magnitude, math.Float32bits(s[7])&magnitude)
		x = x[8:]
	}
	for _, v := range x {
		a = max(a, math.Float32bits(v)&magnitude)
	}
	return max(a, b, c, d)
}

// Valid reports whether e is an exponent that honest ranks can agree on for a chunk that can be summed.
func Valid(e int32) bool { return e == Zero || e >= Least && e <= Greatest }

// Bits is k, the number of magnitude bits that a scaled contribution may use so that n addends (n >= 1) fit an int32:
// n times the largest scaled magnitude is below 2^31.
func Bits(n int) int {
	k := 31 - bits.Len(uint(n-1))
	if n > 128 {
		// Below 25 bits a scaled float32 is no longer an integer before it is rounded, and may be rounded up to 2^k.
		k--
	}
	return k
}
