package main

import (
	"math"
)

// A pattern is what the workers sum: a deterministic function of the seed, the
// rank, the iteration and the element, that every worker fills in by itself.
//
// Iterations differ by a transform that carries over to the sum exactly, so that
// the expected sum is computed once: float32 tensors are scaled by a power of two, int32
// tensors have a multiple of rank + 1 added. A result of another iteration is therefore
// wrong in all its elements but zeros.
type pattern struct {
	seed    uint64
	rank    int
	workers int
}

// variants is after how many iterations the transform is back at its start.
const variants = 8

// stretch is the number of elements that have a magnitude in common: it is shorter
// than any chunk, so that chunks see several, and their exponents differ.
const stretch = 16

// random is splitmix64 (Steele et al., OOPSLA 2014) at position i of this rank's stream.
func (p pattern) random(i uint64) uint64 {
	z := p.seed ^ uint64(p.rank+1)*0xd1342543de82ef95
	z += (i + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// fillFloat32 writes the elements from position first on, as they are at an iteration:
// ±(0 … 2^24)·2^magnitude with a magnitude that differs from stretch to stretch, one stretch in 16 all zeros.
func (p pattern) fillFloat32(to []float32, first, iteration int) {
	variant := iteration % variants
	var scale float32
	for i := range to {
		at := uint64(first + i)
		if i == 0 || at%stretch == 0 {
			// Streams of elements count from 0, those of stretches from 2^63.
			switch draw := p.random(1<<63 | at/stretch); {
			case draw&15 == 0:
				scale = 0
			default:
				scale = float32(math.Ldexp(1, int(draw>>4&15)-32+variant))
			}
		}
		to[i] = float32(int32(p.random(at)>>39)-1<<24) * scale
	}
}

// fillInt32 writes elements in ±2^23, so that 64 workers cannot saturate.
func (p pattern) fillInt32(to []int32, first, iteration int) {
	for i := range to {
		to[i] = int32(p.random(uint64(first+i))>>40) - 1<<23 + int32(iteration%variants*(p.rank+1))
	}
}

// wrongFloat32 returns the index of the first element of a result that does not
// have the bits it must have at an iteration, given the sum at iteration 0; -1 if all have.
func wrongFloat32(result, expected []float32, iteration int) int {
	scale := float32(math.Ldexp(1, iteration%variants))
	for i, want := range expected {
		if math.Float32bits(result[i]) != math.Float32bits(want*scale) {
			return i
		}
	}
	return -1
}

// wrongInt32 is wrongFloat32 for int32 sums.
func (p pattern) wrongInt32(result, expected []int32, iteration int) int {
	added := int32(iteration % variants * p.workers * (p.workers + 1) / 2)
	for i, want := range expected {
		if result[i] != want+added {
			return i
		}
	}
	return -1
}
