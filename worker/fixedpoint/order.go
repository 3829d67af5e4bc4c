package fixedpoint

import (
	"encoding/binary"
	"math"
)

// The integers of this file order as the floats that they stand for do, with -0 below +0: a float's bits, and those of a negative one below its sign
// turned round. They are for MAX and MIN. A NaN is the largest integer for MAX and the smallest for MIN, so that the result has a NaN, always the same
// one, wherever a rank has any.

// Extreme says for which operation floats are encoded.
type Extreme bool

// The operations.
const (
	Maximum Extreme = true
	Minimum Extreme = false
)

// ordered maps the bits of a float, in the upper ones of an int32, to an integer, and back.
func ordered(bits int32) int32 { return bits ^ bits>>31&magnitude }

// EncodeOrdered writes x as big-endian integers into dst, which has 4 bytes for each element of x.
func EncodeOrdered(dst []byte, x []float32, extreme Extreme) {
	nan := extreme.nan()
	for i, v := range x {
		bits := math.Float32bits(v)
		value := ordered(int32(bits))
		if bits&magnitude > infinity {
			value = nan
		}
		binary.BigEndian.PutUint32(dst[4*i:], uint32(value))
	}
}

// DecodeOrdered reads what became of the integers of EncodeOrdered.
func DecodeOrdered(x []float32, src []byte) {
	for i := range x {
		bits := uint32(ordered(int32(binary.BigEndian.Uint32(src[4*i:]))))
		if bits&magnitude > infinity {
			bits = infinity | 1<<22
		}
		x[i] = math.Float32frombits(bits)
	}
}

// EncodeOrderedFloat16 is EncodeOrdered of Float16.
func EncodeOrderedFloat16(dst []byte, x []Float16, extreme Extreme) {
	encodeOrderedHalf(dst, x, infinity16, extreme)
}

// DecodeOrderedFloat16 is DecodeOrdered of Float16.
func DecodeOrderedFloat16(x []Float16, src []byte) { decodeOrderedHalf(x, src, infinity16, 0x200) }

// EncodeOrderedBFloat16 is EncodeOrdered of BFloat16.
func EncodeOrderedBFloat16(dst []byte, x []BFloat16, extreme Extreme) {
	encodeOrderedHalf(dst, x, infinityB16, extreme)
}

// DecodeOrderedBFloat16 is DecodeOrdered of BFloat16.
func DecodeOrderedBFloat16(x []BFloat16, src []byte) { decodeOrderedHalf(x, src, infinityB16, 0x40) }

// encodeOrderedHalf has the bits of a half in the upper ones of the integer.
func encodeOrderedHalf[T Float16 | BFloat16](dst []byte, x []T, infinity T, extreme Extreme) {
	nan := extreme.nan()
	for i, v := range x {
		value := ordered(int32(uint32(v) << 16))
		if v&halfMagnitude > infinity {
			value = nan
		}
		binary.BigEndian.PutUint32(dst[4*i:], uint32(value))
	}
}

func decodeOrderedHalf[T Float16 | BFloat16](x []T, src []byte, infinity, quiet T) {
	for i := range x {
		v := T(uint32(ordered(int32(binary.BigEndian.Uint32(src[4*i:])))) >> 16)
		if v&halfMagnitude > infinity {
			v = infinity | quiet
		}
		x[i] = v
	}
}

func (e Extreme) nan() int32 {
	if e == Maximum {
		return math.MaxInt32
	}
	return math.MinInt32
}
