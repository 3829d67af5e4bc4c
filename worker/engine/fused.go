package engine

import (
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"sort"

	"spillway/wire"
	"spillway/worker/fixedpoint"
)

// Fused are several tensors of one type that are reduced as one, in the order given: they share descriptor, exponents and chunks, which saves small ones most of what they
// cost. Their elements stay where they are.
type Fused struct {
	parts  []buffer
	ends   []int  // of each part, in elements of the whole
	layout uint32 // of the lengths, below 2^31 and above 0
}

// Fuse puts tensors together. There must be one at least, and none may be empty.
func Fuse[T float32 | float64 | fixedpoint.Float16 | fixedpoint.BFloat16 | int32](tensors [][]T) (*Fused, error) {
	if len(tensors) == 0 {
		return nil, fmt.Errorf("there are no tensors to fuse")
	}
	f := &Fused{parts: make([]buffer, len(tensors)), ends: make([]int, len(tensors))}
	tensors = slices.Clone(tensors) // which the caller may use for others meanwhile
	total := 0
	var length [4]byte
	for i := range tensors {
		n := len(tensors[i])
		if n == 0 {
			return nil, fmt.Errorf("tensor %d of those to fuse is empty", i)
		}
		if total += n; total > math.MaxInt32 {
			return nil, fmt.Errorf("%d tensors to fuse have more than %d elements", len(tensors), math.MaxInt32)
		}
		switch t := any(&tensors[i]).(type) {
		case *[]float32:
			f.parts[i] = (*float32s)(t)
		case *[]float64:
			f.parts[i] = (*float64s)(t)
		case *[]fixedpoint.Float16:
			f.parts[i] = (*float16s)(t)
		case *[]fixedpoint.BFloat16:
			f.parts[i] = (*bfloat16s)(t)
		case *[]int32:
			f.parts[i] = (*int32s)(t)
		}
		f.ends[i] = total
		for b := range length {
			length[b] = byte(n >> (24 - 8*b))
		}
		f.layout = crc32.Update(f.layout, crc32.IEEETable, length[:])
	}
	f.layout = max(f.layout&math.MaxInt32, 1)
	return f, nil
}

// part is the part that an element is in, where that begins and ends in the whole, no further than to.
func (f *Fused) part(at, to int) (b buffer, begin, end int) {
	i := sort.SearchInts(f.ends, at+1)
	if i > 0 {
		begin = f.ends[i-1]
	}
	return f.parts[i], begin, min(f.ends[i], to)
}

func (f *Fused) dtype() Kind        { return f.parts[0].dtype() }
func (f *Fused) len() int           { return f.ends[len(f.ends)-1] }
func (f *Fused) valid(e int32) bool { return f.parts[0].valid(e) }

func (f *Fused) exponent(from, to int) int32 {
	largest := int32(math.MinInt32)
	for from < to {
		b, begin, end := f.part(from, to)
		largest = max(largest, b.exponent(from-begin, end-begin))
		from = end
	}
	return largest
}

func (f *Fused) quantise(packet []byte, from, to int, exponent int32, ranks int) {
	for from < to {
		b, begin, end := f.part(from, to)
		n := (end - from) * wire.ElementSize
		b.quantise(packet[:n], from-begin, end-begin, exponent, ranks)
		packet, from = packet[n:], end
	}
}

func (f *Fused) dequantise(packet []byte, from, to int, exponent int32, ranks, divisor int) {
	for from < to {
		b, begin, end := f.part(from, to)
		n := (end - from) * wire.ElementSize
		b.dequantise(packet[:n], from-begin, end-begin, exponent, ranks, divisor)
		packet, from = packet[n:], end
	}
}

func (f *Fused) encode(packet []byte, from, to int, op wire.Op) {
	for from < to {
		b, begin, end := f.part(from, to)
		n := (end - from) * wire.ElementSize
		b.encode(packet[:n], from-begin, end-begin, op)
		packet, from = packet[n:], end
	}
}

func (f *Fused) decode(packet []byte, from, to int) {
	for from < to {
		b, begin, end := f.part(from, to)
		n := (end - from) * wire.ElementSize
		b.decode(packet[:n], from-begin, end-begin)
		packet, from = packet[n:], end
	}
}
