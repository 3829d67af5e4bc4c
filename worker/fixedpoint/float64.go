package fixedpoint

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Exponents that a rank may announce for a chunk of float64, beside Zero and NonFinite.
const (
	// LeastFloat64 is the smallest: above Zero, and such that all scales are normal numbers. Chunks of smaller numbers have it.
	LeastFloat64 = -900
	// GreatestFloat64 is the exponent of the largest finite float64.
	GreatestFloat64 = 1024
)

// ValidFloat64 is Valid for chunks of float64.
func ValidFloat64(e int32) bool { return e == Zero || e >= LeastFloat64 && e <= GreatestFloat64 }

// BitsFloat64 is Bits for contributions of float64, which have more bits than fit, and so may be rounded up to 2^k: n times 2^k itself is below 2^31.
func BitsFloat64(n int) int { return 31 - bits.Len(uint(n)) }

// ExponentFloat64 is Exponent of float64: in [LeastFloat64, GreatestFloat64] if it is neither Zero nor NonFinite.
func ExponentFloat64(x []float64) int32 {
	var m, o uint64
	for len(x) >= 4 {
		s := (*[4]float64)(x)
		m = max(m, math.Float64bits(s[0])&(1<<63-1), math.Float64bits(s[2])&(1<<63-1))
		o = max(o, math.Float64bits(s[1])&(1<<63-1), math.Float64bits(s[3])&(1<<63-1))
		x = x[4:]
	}
	for _, v := range x {
		m = max(m, math.Float64bits(v)&(1<<63-1))
	}
	switch m = max(m, o); {
	case m == 0:
		return Zero
	case m >= 0x7ff<<52:
		return NonFinite
	}
	return max(int32(m>>52)-1022, LeastFloat64)
}

// QuantiseFloat64 is Quantise of float64.
func QuantiseFloat64(dst []byte, x []float64, e int32, k int) {
	if e == Zero {
		clear(dst[:4*len(x)])
		return
	}
	scale := power(int32(k) - e)
	for len(x) >= 4 && len(dst) >= 16 {
		s, d := (*[4]float64)(x), (*[16]byte)(dst)
		binary.BigEndian.PutUint32(d[0:4], fixedFloat64(s[0], scale))
		binary.BigEndian.PutUint32(d[4:8], fixedFloat64(s[1], scale))
		binary.BigEndian.PutUint32(d[8:12], fixedFloat64(s[2], scale))
		binary.BigEndian.PutUint32(d[12:16], fixedFloat64(s[3], scale))
		x, dst = x[4:], dst[16:]
	}
	for _, v := range x {
		binary.BigEndian.PutUint32(dst, fixedFloat64(v, scale))
		dst = dst[4:]
	}
}

// fixedFloat64 is fixed of a float64. The product is exact, or so small that it is rounded to 0 either way.
func fixedFloat64(x, scale float64) uint32 { return uint32(math.Float64bits(x*scale + shifter)) }

// DequantiseFloat64 writes q * 2^(e-k) / n, rounded once, for the big-endian int32 q of src into x; otherwise it is as Dequantise.
func DequantiseFloat64(x []float64, src []byte, e int32, k, n int) {
	if e == Zero {
		clear(x)
		return
	}
	d := divisionBy(n, e-int32(k))
	for i := range x {
		x[i] = d.at(src[4*i:])
	}
}
