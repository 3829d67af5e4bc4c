package fixedpoint

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// block is the number of elements that the assembly takes at a time.
const block = 32

var hasAVX2 = cpu.X86.HasAVX2

// whole is how many of n elements the assembly takes.
func whole(n int) int {
	if !hasAVX2 {
		return 0
	}
	return n &^ (block - 1)
}

func magnitudeBlocks(x []float32) (done int, m uint32) {
	if done = whole(len(x)); done > 0 {
		m = magnitudeAVX2(&x[0], done)
	}
	return done, m
}

func quantiseBlocks(dst []byte, x []float32, scale float64) int {
	done := whole(min(len(x), len(dst)/4))
	if done > 0 {
		quantiseAVX2(&dst[0], &x[0], done, scale)
	}
	return done
}

func dequantiseBlocks(x []float32, src []byte, scale float64) int {
	done := whole(min(len(x), len(src)/4))
	if done > 0 {
		dequantiseAVX2(&x[0], &src[0], done, scale)
	}
	return done
}

func encodeBlocks(dst []byte, x []int32) int {
	done := whole(min(len(x), len(dst)/4))
	if done > 0 {
		swapAVX2(unsafe.Pointer(&dst[0]), unsafe.Pointer(&x[0]), done)
	}
	return done
}

func decodeBlocks(x []int32, src []byte) int {
	done := whole(min(len(x), len(src)/4))
	if done > 0 {
		swapAVX2(unsafe.Pointer(&x[0]), unsafe.Pointer(&src[0]), done)
	}
	return done
}

// n is a multiple of block and not 0 in all of these.

//go:noescape
func magnitudeAVX2(x *float32, n int) uint32

//go:noescape
func quantiseAVX2(dst *byte, x *float32, n int, scale float64)

//go:noescape
func dequantiseAVX2(x *float32, src *byte, n int, scale float64)

// swapAVX2 reverses the bytes of each of n words.
//
//go:noescape
func swapAVX2(dst, src unsafe.Pointer, n int)
