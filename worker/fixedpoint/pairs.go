package fixedpoint

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// The functions of this file put two elements into each int32 of a packet: q0 * 2^16 + q1, with the elements' integers in two's complement, so that a q1 below 0
// borrows from the upper half. Sums of such words are the words of the sums, whoever adds them up and in whatever order: as long as n addends keep every
// field within 2^15 - 1, fields do not run into each other, and the word lies within 2^31 - 2^15, where nobody saturates. A data plane needs to know nothing of it.

// MostPaired is the largest number of ranks whose elements can share words: more would leave fewer than 3 bits of each.
const MostPaired = 1 << 12

// PairBits is to pairs what Bits is to whole words: the largest k for which n times 2^k - 1 is below 2^15, for n in [1, MostPaired]. Up to 256 ranks it is
// 15 - ceil(log2 n).
func PairBits(n int) int { return bits.Len(uint(math.MaxInt16/n+1)) - 1 }

// PairWords is how many words n elements take; in the last one of an odd number the lower half is 0.
func PairWords(n int) int { return (n + 1) / 2 }

// PairExponent is the smallest e with round(|x| * 2^(k-e)) < 2^k for every element of the chunk: that of Exponent, or one more where the largest element is within
// half a step of 2^e and would be rounded up to it. In [Least, Greatest+1], or Zero, or NonFinite.
func PairExponent(x []float32, k int) int32 {
	done, m := magnitudeBlocks(x)
	return pairExponent(max(m, magnitudePortable(x[done:])), k)
}

// pairExponent is the exponent for a largest magnitude. Half a step added to it carries into the exponent's bits where it must; below the normal numbers 2^e is
// half as many units of the last place.
func pairExponent(m uint32, k int) int32 {
	switch {
	case m == 0:
		return Zero
	case m >= infinity:
		return NonFinite
	case m < 1<<23:
		return int32((m+1<<(22-k))>>23) + Least
	default:
		return int32((m+1<<(23-k))>>23) + Least
	}
}

// ValidPairs is Valid for PairExponent.
func ValidPairs(e int32) bool { return e == Zero || e >= Least && e <= Greatest+1 }

// QuantisePairs writes round(x * 2^(k-e)), ties to even, two elements to each big-endian word of dst, which has 4 * PairWords(len(x)) bytes. e is Zero (then zeros are
// written whatever x is) or at least PairExponent of x; k is PairBits of the job's ranks.
func QuantisePairs(dst []byte, x []float32, e int32, k int) {
	if e == Zero {
		clear(dst[:4*PairWords(len(x))])
		return
	}
	scale := power(int32(k) - e)
	done := quantisePairBlocks(dst, x, scale)
	quantisePairsPortable(dst[2*done:], x[done:], scale)
}

func quantisePairsPortable(dst []byte, x []float32, scale float64) {
	for len(x) >= 8 && len(dst) >= 16 {
		s, d := (*[8]float32)(x), (*[16]byte)(dst)
		binary.BigEndian.PutUint32(d[0:4], fixed(s[0], scale)<<16+fixed(s[1], scale))
		binary.BigEndian.PutUint32(d[4:8], fixed(s[2], scale)<<16+fixed(s[3], scale))
		binary.BigEndian.PutUint32(d[8:12], fixed(s[4], scale)<<16+fixed(s[5], scale))
		binary.BigEndian.PutUint32(d[12:16], fixed(s[6], scale)<<16+fixed(s[7], scale))
		x, dst = x[8:], dst[16:]
	}
	for ; len(x) >= 2; x, dst = x[2:], dst[4:] {
		binary.BigEndian.PutUint32(dst, fixed(x[0], scale)<<16+fixed(x[1], scale))
	}
	if len(x) == 1 {
		binary.BigEndian.PutUint32(dst, fixed(x[0], scale)<<16)
	}
}

// unpair is the two integers of a word.
func unpair(word uint32) (upper, lower int32) {
	lower = int32(int16(word))
	return int32(word-uint32(lower)) >> 16, lower
}

// DequantisePairs writes float32(q * 2^(e-k) / n), rounded once, for the integers q of the words of src into x: of a sum with n = 1, of an average with n the number of
// ranks. e and k are as for QuantisePairs.
func DequantisePairs(x []float32, src []byte, e int32, k, n int) {
	if e == Zero {
		clear(x)
		return
	}
	d := divisionBy(n, e-int32(k))
	if d.divisor != 1 {
		dequantisePairs(x, src, d, func(v float64) float32 { return float32(v) })
		return
	}
	done := dequantisePairBlocks(x, src, d.scale)
	dequantisePairsPortable(x[done:], src[2*done:], d.scale)
}

func dequantisePairsPortable(x []float32, src []byte, scale float64) {
	for len(x) >= 4 && len(src) >= 8 {
		d, s := (*[4]float32)(x), (*[8]byte)(src)
		u, l := unpair(binary.BigEndian.Uint32(s[0:4]))
		d[0], d[1] = float32(float64(u)*scale), float32(float64(l)*scale)
		u, l = unpair(binary.BigEndian.Uint32(s[4:8]))
		d[2], d[3] = float32(float64(u)*scale), float32(float64(l)*scale)
		x, src = x[4:], src[8:]
	}
	for i := range x {
		u, l := unpair(binary.BigEndian.Uint32(src[i&^1*2:]))
		if i&1 != 0 {
			u = l
		}
		x[i] = float32(float64(u) * scale)
	}
}

// dequantisePairs is DequantisePairs to any type that round makes of a quotient.
func dequantisePairs[T any](x []T, src []byte, d division, round func(float64) T) {
	for ; len(x) >= 2; x, src = x[2:], src[4:] {
		u, l := unpair(binary.BigEndian.Uint32(src))
		x[0], x[1] = round(d.of(u)), round(d.of(l))
	}
	if len(x) == 1 {
		u, _ := unpair(binary.BigEndian.Uint32(src))
		x[0] = round(d.of(u))
	}
}

// PairExponentFloat16 is PairExponent of Float16.
func PairExponentFloat16(x []Float16, k int) int32 {
	m := largestHalf(x)
	if m >= infinity16 {
		return NonFinite
	}
	return pairExponent(math.Float32bits(m.Float32()), k)
}

// PairExponentBFloat16 is PairExponent of BFloat16.
func PairExponentBFloat16(x []BFloat16, k int) int32 {
	return pairExponent(math.Float32bits(largestHalf(x).Float32()), k)
}

// QuantisePairsFloat16 is QuantisePairs of Float16.
func QuantisePairsFloat16(dst []byte, x []Float16, e int32, k int) {
	quantiseHalfPairs(dst, x, e, k)
}

// QuantisePairsBFloat16 is QuantisePairs of BFloat16.
func QuantisePairsBFloat16(dst []byte, x []BFloat16, e int32, k int) {
	quantiseHalfPairs(dst, x, e, k)
}

func quantiseHalfPairs[T interface{ Float32() float32 }](dst []byte, x []T, e int32, k int) {
	var wide [widened]float32
	for len(x) > 0 {
		n := min(len(x), widened)
		for i, v := range x[:n] {
			wide[i] = v.Float32()
		}
		QuantisePairs(dst, wide[:n], e, k)
		x, dst = x[n:], dst[4*PairWords(n):]
	}
}

// DequantisePairsFloat16 is DequantisePairs to Float16.
func DequantisePairsFloat16(x []Float16, src []byte, e int32, k, n int) {
	if e == Zero {
		clear(x)
		return
	}
	dequantisePairs(x, src, divisionBy(n, e-int32(k)), ToFloat16)
}

// DequantisePairsBFloat16 is DequantisePairs to BFloat16.
func DequantisePairsBFloat16(x []BFloat16, src []byte, e int32, k, n int) {
	if e == Zero {
		clear(x)
		return
	}
	dequantisePairs(x, src, divisionBy(n, e-int32(k)), ToBFloat16)
}
