//go:build amd64 || arm64

package fixedpoint

import "unsafe"

// block is the number of elements that the assembly takes at a time.
const block = 32

// whole is how many of n elements the assembly takes.
func whole(n int) int {
	if !hasVectors {
		return 0
	}
	return n &^ (block - 1)
}

// narrowScale is a scale as a float32, in which the assembly multiplies, if that gives the bits of the portable loops, which do so in float64. Both then multiply by the
// same power of two, and products are exact unless they leave the normal numbers: on the way out those are rounded to 0 in either, and on the way back there are none,
// as an integer other than 0 is 1 at least and so no product is less than the scale. An int32 of more than 24 bits is rounded when it is converted, the same as after
// an exact product. Exponents beyond this are for the portable loops.
func narrowScale(scale float64) (float32, bool) {
	return float32(scale), scale >= 0x1p-126 && scale <= 0x1p127
}

func magnitudeBlocks(x []float32) (done int, m uint32) {
	if done = whole(len(x)); done > 0 {
		m = magnitudeVectors(&x[0], done)
	}
	return done, m
}

func quantiseBlocks(dst []byte, x []float32, scale float64) int {
	done := whole(min(len(x), len(dst)/4))
	s, ok := narrowScale(scale)
	if done == 0 || !ok {
		return 0
	}
	quantiseVectors(&dst[0], &x[0], done, s)
	return done
}

func dequantiseBlocks(x []float32, src []byte, scale float64) int {
	done := whole(min(len(x), len(src)/4))
	s, ok := narrowScale(scale)
	if done == 0 || !ok {
		return 0
	}
	dequantiseVectors(&x[0], &src[0], done, s)
	return done
}

func quantisePairBlocks(dst []byte, x []float32, scale float64) int {
	done := whole(min(len(x), len(dst)/2))
	s, ok := narrowScale(scale)
	if done == 0 || !ok {
		return 0
	}
	quantisePairVectors(&dst[0], &x[0], done, s)
	return done
}

func dequantisePairBlocks(x []float32, src []byte, scale float64) int {
	done := whole(min(len(x), len(src)/2))
	s, ok := narrowScale(scale)
	if done == 0 || !ok {
		return 0
	}
	dequantisePairVectors(&x[0], &src[0], done, s)
	return done
}

func encodeBlocks(dst []byte, x []int32) int {
	done := whole(min(len(x), len(dst)/4))
	if done > 0 {
		swapVectors(unsafe.Pointer(&dst[0]), unsafe.Pointer(&x[0]), done)
	}
	return done
}

func decodeBlocks(x []int32, src []byte) int {
	done := whole(min(len(x), len(src)/4))
	if done > 0 {
		swapVectors(unsafe.Pointer(&x[0]), unsafe.Pointer(&src[0]), done)
	}
	return done
}

// n is a multiple of block and not 0 in all of these.

//go:noescape
func magnitudeVectors(x *float32, n int) uint32

//go:noescape
func quantiseVectors(dst *byte, x *float32, n int, scale float32)

//go:noescape
func dequantiseVectors(x *float32, src *byte, n int, scale float32)

//go:noescape
func quantisePairVectors(dst *byte, x *float32, n int, scale float32)

//go:noescape
func dequantisePairVectors(x *float32, src *byte, n int, scale float32)

// swapVectors reverses the bytes of each of n words.
//
//go:noescape
func swapVectors(dst, src unsafe.Pointer, n int)
