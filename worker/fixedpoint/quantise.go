package fixedpoint

import (
	"encoding/binary"
	"math"
)

// shifter is 1.5 * 2^52. Adding it to a float64 of magnitude below 2^51 leaves no bits for a fraction, so the processor rounds
// to the nearest integer, ties to even, and the low 32 bits of the sum are that integer in two's complement.
const shifter = 1 << 52 * 1.5

// power is 2^exponent as a float64, for exponents of normal numbers.
func power(exponent int32) float64 { return math.Float64frombits(uint64(1023+exponent) << 52) }

// Quantise writes round(x * 2^(k-e)), ties to even, as big-endian int32 into dst, which has 4 bytes for each element of x.
// e is Zero (then zeros are written whatever x is) or a Valid exponent with |x| < 2^e for every x; k is in [0, 31].
func Quantise(dst []byte, x []float32, e int32, k int) {
	if e == Zero {
		clear(dst[:4*len(x)])
		return
	}
	// The product is exact (24 bits of mantissa times a power of two, far from float64's limits), so it makes no difference
	// that arm64 fuses it with the addition.
	scale := power(int32(k) - e)
	done := quantiseBlocks(dst, x, scale)
	quantisePortable(dst[4*done:], x[done:], scale)
}

func quantisePortable(dst []byte, x []float32, scale float64) {
	for len(x) >= 8 && len(dst) >= 32 {
		s, d := (*[8]float32)(x), (*[32]byte)(dst)
		binary.BigEndian.PutUint32(d[0:4], fixed(s[0], scale))
		binary.BigEndian.PutUint32(d[4:8], fixed(s[1], scale))
		binary.BigEndian.PutUint32(d[8:12], fixed(s[2], scale))
		binary.BigEndian.PutUint32(d[12:16], fixed(s[3], scale))
		binary.BigEndian.PutUint32(d[16:20], fixed(s[4], scale))
		binary.BigEndian.PutUint32(d[20:24], fixed(s[5], scale))
		binary.BigEndian.PutUint32(d[24:28], fixed(s[6], scale))
		binary.BigEndian.PutUint32(d[28:32], fixed(s[7], scale))
		x, dst = x[8:], dst[32:]
	}
	for _, v := range x {
		binary.BigEndian.PutUint32(dst, fixed(v, scale))
		dst = dst[4:]
	}
}

// fixed is the two's complement of x * scale rounded to the nearest integer, ties to even.
func fixed(x float32, scale float64) uint32 {
	return uint32(math.Float64bits(float64(x)*scale + shifter))
}

// Dequantise writes float32(q * 2^(e-k)), rounded once, for the big-endian int32 q of src into x; src has 4 bytes for each
// element of x. A sum beyond the range of float32 becomes an infinity, as it would in floating point. e and k are as for Quantise.
func Dequantise(x []float32, src []byte, e int32, k int) {
	if e == Zero {
		clear(x)
		return
	}
	scale := power(e - int32(k))
	done := dequantiseBlocks(x, src, scale)
	dequantisePortable(x[done:], src[4*done:], scale)
}

func dequantisePortable(x []float32, src []byte, scale float64) {
	for len(x) >= 8 && len(src) >= 32 {
		d, s := (*[8]float32)(x), (*[32]byte)(src)
		d[0] = float(binary.BigEndian.Uint32(s[0:4]), scale)
		d[1] = float(binary.BigEndian.Uint32(s[4:8]), scale)
		d[2] = float(binary.BigEndian.Uint32(s[8:12]), scale)
		d[3] = float(binary.BigEndian.Uint32(s[12:16]), scale)
		d[4] = float(binary.BigEndian.Uint32(s[16:20]), scale)
		d[5] = float(binary.BigEndian.Uint32(s[20:24]), scale)
		d[6] = float(binary.BigEndian.Uint32(s[24:28]), scale)
		d[7] = float(binary.BigEndian.Uint32(s[28:32]), scale)
		x, src = x[8:], src[32:]
	}
	for i := range x {
		x[i] = float(binary.BigEndian.Uint32(src), scale)
		src = src[4:]
	}
}

// float is q * scale rounded to float32. The product of an int32 and a power of two is exact in float64.
func float(q uint32, scale float64) float32 { return float32(float64(int32(q)) * scale) }
