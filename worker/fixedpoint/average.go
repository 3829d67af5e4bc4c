package fixedpoint

import (
	"encoding/binary"
	"math/bits"
)

// division takes an element q of a sum for q * 2^exponent / n, rounded to a float64. Rounding that once more, to a format of p <= 24 bits, is as good as
// rounding once: a quotient that is not exactly in the middle between two of its numbers is, relatively, at least 2^-31 or 2^-(p+1) / n away from there,
// which rounding to 53 bits cannot bridge for n up to 2^24.
type division struct {
	scale   float64
	divisor float64 // 1 if the scale has n in it, which it can when n is a power of two
}

func divisionBy(n int, exponent int32) division {
	if n&(n-1) == 0 {
		return division{power(exponent - int32(bits.TrailingZeros(uint(n)))), 1}
	}
	return division{power(exponent), float64(n)}
}

// of divides before it scales: the quotient is an ordinary number whatever the exponent is.
func (d division) of(element int32) float64 {
	q := float64(element)
	if d.divisor != 1 {
		q /= d.divisor
	}
	return q * d.scale
}

// at is of the big-endian element at the beginning of src.
func (d division) at(src []byte) float64 { return d.of(int32(binary.BigEndian.Uint32(src))) }

// Average writes float32(q * 2^(e-k) / n), rounded once, for the big-endian int32 q of src into x; otherwise it is as Dequantise. n is in [1, 2^24].
func Average(x []float32, src []byte, e int32, k, n int) {
	if n&(n-1) == 0 && e != Zero {
		// Dividing by a power of two moves the exponent, which need not be one of an honest rank.
		Dequantise(x, src, e, k+bits.TrailingZeros(uint(n)))
		return
	}
	if e == Zero {
		clear(x)
		return
	}
	d := divisionBy(n, e-int32(k))
	for i := range x {
		x[i] = float32(d.at(src[4*i:]))
	}
}
