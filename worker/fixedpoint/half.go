package fixedpoint

import "math"

// Float16 is an IEEE 754 binary16 by its bits: 1 of sign, 5 of exponent, 10 of fraction.
type Float16 uint16

// BFloat16 is the upper half of a float32: 1 bit of sign, 8 of exponent, 7 of fraction.
type BFloat16 uint16

const (
	halfMagnitude = 0x7fff // either half without its sign
	infinity16    = 0x7c00 // magnitudes of Float16 from here on are infinities and NaNs
	infinityB16   = 0x7f80 // the same of BFloat16
)

// Float32 is the same number; a NaN stays one.
func (h Float16) Float32() float32 {
	// Ten bits of fraction in the place of a float32's, with an exponent that is too small by 127 - 15: the product is exact, and normal for subnormals
	// of Float16 as well.
	magnitude := uint32(h & halfMagnitude)
	v := math.Float32bits(math.Float32frombits(magnitude<<13) * 0x1p112)
	if magnitude >= infinity16 {
		v = infinity | magnitude<<13
	}
	return math.Float32frombits(v | uint32(h&^halfMagnitude)<<16)
}

// Float32 is the same number.
func (b BFloat16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// ToFloat16 is v rounded to the nearest Float16, ties to even; beyond the range it is an infinity. NaN gives the quiet NaN.
func ToFloat16(v float64) Float16 {
	if v != v {
		return infinity16 | 0x200
	}
	return Float16(narrow(v, 10, -14, 0x1.ffep15, infinity16))
}

// ToBFloat16 is v rounded to the nearest BFloat16, ties to even; beyond the range it is an infinity. NaN gives the quiet NaN.
func ToBFloat16(v float64) BFloat16 {
	if v != v {
		return infinityB16 | 0x40
	}
	return BFloat16(narrow(v, 7, -126, 0x1.ffp127, infinityB16))
}

// The bits, as a float64, of the smallest normal numbers and of where the infinities begin.
const (
	leastBits16  = (1023 - 14) << 52         // 2^-14
	limitBits16  = (1023+15)<<52 | 0xffe<<40 // 0x1.ffep15
	leastBitsB16 = (1023 - 126) << 52        // 2^-126
	limitBitsB16 = (1023+127)<<52 | 0xff<<44 // 0x1.ffp127
)

// narrow rounds v, once, to a format of 16 bits with so many bits of fraction whose smallest normal number is 2^least. From limit on, half a step
// above the largest finite number, it is the infinity.
func narrow(v float64, fraction, least int32, limit float64, infinity uint16) uint16 {
	bits := math.Float64bits(v)
	sign := uint16(bits >> 63 << 15)
	bits &= 1<<63 - 1
	switch m := math.Float64frombits(bits); {
	case m >= limit:
		return sign | infinity
	case m < power(least):
		// As in Quantise, the addition rounds to a multiple of the smallest subnormal; what is rounded up to 2^least has the bits of that already.
		return sign | uint16(math.Float64bits(m+power(least-fraction+52)))
	}
	// Half a step, less one if the last bit that stays is 0, so that a tie only carries into an odd number. A carry out of the fraction is right as it is.
	drop := uint(52 - fraction)
	bits += 1<<(drop-1) - 1 + bits>>drop&1
	return sign | (uint16(bits>>drop) - uint16(1023+least-1)<<fraction)
}

// widened is how many halves are made float32 at a time, which the loops for those then take.
const widened = 128

// ExponentFloat16 is Exponent of Float16: in [-23, 16] if it is neither Zero nor NonFinite.
func ExponentFloat16(x []Float16) int32 {
	m := largestHalf(x)
	if m >= infinity16 {
		return NonFinite
	}
	return Exponent([]float32{m.Float32()})
}

// ExponentBFloat16 is Exponent of BFloat16.
func ExponentBFloat16(x []BFloat16) int32 {
	return Exponent([]float32{largestHalf(x).Float32()})
}

// largestHalf is the largest magnitude.
func largestHalf[T Float16 | BFloat16](x []T) (m T) {
	for _, v := range x {
		m = max(m, v&halfMagnitude)
	}
	return m
}

// QuantiseFloat16 is Quantise of Float16.
func QuantiseFloat16(dst []byte, x []Float16, e int32, k int) {
	var wide [widened]float32
	for len(x) > 0 {
		n := min(len(x), widened)
		for i, v := range x[:n] {
			wide[i] = v.Float32()
		}
		Quantise(dst, wide[:n], e, k)
		x, dst = x[n:], dst[4*n:]
	}
}

// QuantiseBFloat16 is Quantise of BFloat16.
func QuantiseBFloat16(dst []byte, x []BFloat16, e int32, k int) {
	var wide [widened]float32
	for len(x) > 0 {
		n := min(len(x), widened)
		for i, v := range x[:n] {
			wide[i] = v.Float32()
		}
		Quantise(dst, wide[:n], e, k)
		x, dst = x[n:], dst[4*n:]
	}
}

// DequantiseFloat16 writes q * 2^(e-k) / n, rounded once to a Float16, for the big-endian int32 q of src into x; otherwise it is as Dequantise.
func DequantiseFloat16(x []Float16, src []byte, e int32, k, n int) {
	if e == Zero {
		clear(x)
		return
	}
	d := divisionBy(n, e-int32(k))
	for i := range x {
		v := d.at(src[4*i:])
		// What narrow does with normal numbers, which are almost all, with its numbers known.
		bits := math.Float64bits(v)
		m := bits & (1<<63 - 1)
		if m-leastBits16 >= limitBits16-leastBits16 {
			if x[i] = 0; m != 0 { // the integer 0 is no -0
				x[i] = ToFloat16(v)
			}
			continue
		}
		m += 1<<41 - 1 + m>>42&1
		x[i] = Float16(bits>>63<<15) | (Float16(m>>42) - (1023-15)<<10&0xffff)
	}
}

// DequantiseBFloat16 is to BFloat16 what DequantiseFloat16 is to Float16.
func DequantiseBFloat16(x []BFloat16, src []byte, e int32, k, n int) {
	if e == Zero {
		clear(x)
		return
	}
	d := divisionBy(n, e-int32(k))
	for i := range x {
		v := d.at(src[4*i:])
		bits := math.Float64bits(v)
		m := bits & (1<<63 - 1)
		if m-leastBitsB16 >= limitBitsB16-leastBitsB16 {
			if x[i] = 0; m != 0 {
				x[i] = ToBFloat16(v)
			}
			continue
		}
		m += 1<<44 - 1 + m>>45&1
		x[i] = BFloat16(bits>>63<<15) | (BFloat16(m>>45) - (1023-127)<<7&0xffff)
	}
}
