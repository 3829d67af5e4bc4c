package engine

import (
	"errors"

	"spillway/wire"
	"spillway/worker/fixedpoint"
)

// buffer is the caller's tensor by what a collective does with a range of its elements, [from, to). Each type is a slice's; a collective has a pointer
// to its own, which costs no allocation.
type buffer interface {
	dtype() Kind
	len() int

	// Of collectives in block fixed point. An average has ranks as its divisor, a sum 1.
	exponent(from, to int) int32
	valid(exponent int32) bool
	quantise(packet []byte, from, to int, exponent int32, ranks int)
	dequantise(packet []byte, from, to int, exponent int32, ranks, divisor int)

	// Of the others.
	encode(packet []byte, from, to int, op wire.Op)
	decode(packet []byte, from, to int)
}

// pairs is a buffer of which two elements can share a word of a packet: those of floats of up to 32 bits. Their collectives in block fixed point do in a job whose
// elements have 16 bits on the wire. All else goes as it does in other jobs: 16 bits are too few to tell int32s apart or to order floats by, and who has float64s has
// them for more digits than even 32 bits have.
type pairs interface {
	pairExponent(from, to, ranks int) int32
	quantisePairs(packet []byte, from, to int, exponent int32, ranks int)
	dequantisePairs(packet []byte, from, to int, exponent int32, ranks, divisor int)
}

// exponent is this rank's for a range of elements.
func (c *Collective) exponent(from, to int) int32 {
	if c.pairs != nil {
		return c.pairs.pairExponent(from, to, c.workers)
	}
	return c.buffer.exponent(from, to)
}

// valid reports whether honest ranks can agree on an exponent.
func (c *Collective) valid(exponent int32) bool {
	if c.pairs != nil {
		return fixedpoint.ValidPairs(exponent)
	}
	return c.buffer.valid(exponent)
}

func (c *Collective) quantise(packet []byte, from, to int, exponent int32) {
	if c.pairs != nil {
		c.pairs.quantisePairs(packet, from, to, exponent, c.workers)
	} else {
		c.buffer.quantise(packet, from, to, exponent, c.workers)
	}
}

func (c *Collective) dequantise(packet []byte, from, to int, exponent int32, divisor int) {
	if c.pairs != nil {
		c.pairs.dequantisePairs(packet, from, to, exponent, c.workers, divisor)
	} else {
		c.buffer.dequantise(packet, from, to, exponent, c.workers, divisor)
	}
}

// find is the buffer that is set, nil if none is.
func (c *Collective) find() (b buffer, err error) {
	set := 0
	if c.F32 != nil {
		b, set = (*float32s)(&c.F32), set+1
	}
	if c.I32 != nil {
		b, set = (*int32s)(&c.I32), set+1
	}
	if c.F64 != nil {
		b, set = (*float64s)(&c.F64), set+1
	}
	if c.F16 != nil {
		b, set = (*float16s)(&c.F16), set+1
	}
	if c.BF16 != nil {
		b, set = (*bfloat16s)(&c.BF16), set+1
	}
	if c.Fused != nil {
		b, set = c.Fused, set+1
	}
	if set > 1 {
		return nil, errors.New("a collective has more than one buffer")
	}
	return b, nil
}

// extreme is the operation as the conversions know it.
func extreme(op wire.Op) fixedpoint.Extreme { return op == wire.Max }

type float32s []float32

func (s *float32s) dtype() Kind             { return dtypeFloat32 }
func (s *float32s) len() int                { return len(*s) }
func (s *float32s) valid(e int32) bool      { return fixedpoint.Valid(e) }
func (s *float32s) exponent(i, j int) int32 { return fixedpoint.Exponent((*s)[i:j]) }
func (s *float32s) quantise(b []byte, i, j int, e int32, ranks int) {
	fixedpoint.Quantise(b, (*s)[i:j], e, fixedpoint.Bits(ranks))
}
func (s *float32s) dequantise(b []byte, i, j int, e int32, ranks, n int) {
	fixedpoint.Average((*s)[i:j], b, e, fixedpoint.Bits(ranks), n)
}
func (s *float32s) pairExponent(i, j, ranks int) int32 {
	return fixedpoint.PairExponent((*s)[i:j], fixedpoint.PairBits(ranks))
}
func (s *float32s) quantisePairs(b []byte, i, j int, e int32, ranks int) {
	fixedpoint.QuantisePairs(b, (*s)[i:j], e, fixedpoint.PairBits(ranks))
}
func (s *float32s) dequantisePairs(b []byte, i, j int, e int32, ranks, n int) {
	fixedpoint.DequantisePairs((*s)[i:j], b, e, fixedpoint.PairBits(ranks), n)
}
func (s *float32s) encode(b []byte, i, j int, op wire.Op) {
	fixedpoint.EncodeOrdered(b, (*s)[i:j], extreme(op))
}
func (s *float32s) decode(b []byte, i, j int) { fixedpoint.DecodeOrdered((*s)[i:j], b) }

type float64s []float64

func (s *float64s) dtype() Kind             { return dtypeFloat64 }
func (s *float64s) len() int                { return len(*s) }
func (s *float64s) valid(e int32) bool      { return fixedpoint.ValidFloat64(e) }
func (s *float64s) exponent(i, j int) int32 { return fixedpoint.ExponentFloat64((*s)[i:j]) }
func (s *float64s) quantise(b []byte, i, j int, e int32, ranks int) {
	fixedpoint.QuantiseFloat64(b, (*s)[i:j], e, fixedpoint.BitsFloat64(ranks))
}
func (s *float64s) dequantise(b []byte, i, j int, e int32, ranks, n int) {
	fixedpoint.DequantiseFloat64((*s)[i:j], b, e, fixedpoint.BitsFloat64(ranks), n)
}

// A float64 has no order in 32 bits; Validate refuses what would come here.
func (s *float64s) encode([]byte, int, int, wire.Op) { panic("float64 is only summed") }
func (s *float64s) decode([]byte, int, int)          { panic("float64 is only summed") }

type float16s []fixedpoint.Float16

func (s *float16s) dtype() Kind             { return dtypeFloat16 }
func (s *float16s) len() int                { return len(*s) }
func (s *float16s) valid(e int32) bool      { return fixedpoint.Valid(e) }
func (s *float16s) exponent(i, j int) int32 { return fixedpoint.ExponentFloat16((*s)[i:j]) }
func (s *float16s) quantise(b []byte, i, j int, e int32, ranks int) {
	fixedpoint.QuantiseFloat16(b, (*s)[i:j], e, fixedpoint.Bits(ranks))
}
func (s *float16s) dequantise(b []byte, i, j int, e int32, ranks, n int) {
	fixedpoint.DequantiseFloat16((*s)[i:j], b, e, fixedpoint.Bits(ranks), n)
}
func (s *float16s) pairExponent(i, j, ranks int) int32 {
	return fixedpoint.PairExponentFloat16((*s)[i:j], fixedpoint.PairBits(ranks))
}
func (s *float16s) quantisePairs(b []byte, i, j int, e int32, ranks int) {
	fixedpoint.QuantisePairsFloat16(b, (*s)[i:j], e, fixedpoint.PairBits(ranks))
}
func (s *float16s) dequantisePairs(b []byte, i, j int, e int32, ranks, n int) {
	fixedpoint.DequantisePairsFloat16((*s)[i:j], b, e, fixedpoint.PairBits(ranks), n)
}
func (s *float16s) encode(b []byte, i, j int, op wire.Op) {
	fixedpoint.EncodeOrderedFloat16(b, (*s)[i:j], extreme(op))
}
func (s *float16s) decode(b []byte, i, j int) { fixedpoint.DecodeOrderedFloat16((*s)[i:j], b) }

type bfloat16s []fixedpoint.BFloat16

func (s *bfloat16s) dtype() Kind             { return dtypeBFloat16 }
func (s *bfloat16s) len() int                { return len(*s) }
func (s *bfloat16s) valid(e int32) bool      { return fixedpoint.Valid(e) }
func (s *bfloat16s) exponent(i, j int) int32 { return fixedpoint.ExponentBFloat16((*s)[i:j]) }
func (s *bfloat16s) quantise(b []byte, i, j int, e int32, ranks int) {
	fixedpoint.QuantiseBFloat16(b, (*s)[i:j], e, fixedpoint.Bits(ranks))
}
func (s *bfloat16s) dequantise(b []byte, i, j int, e int32, ranks, n int) {
	fixedpoint.DequantiseBFloat16((*s)[i:j], b, e, fixedpoint.Bits(ranks), n)
}
func (s *bfloat16s) pairExponent(i, j, ranks int) int32 {
	return fixedpoint.PairExponentBFloat16((*s)[i:j], fixedpoint.PairBits(ranks))
}
func (s *bfloat16s) quantisePairs(b []byte, i, j int, e int32, ranks int) {
	fixedpoint.QuantisePairsBFloat16(b, (*s)[i:j], e, fixedpoint.PairBits(ranks))
}
func (s *bfloat16s) dequantisePairs(b []byte, i, j int, e int32, ranks, n int) {
	fixedpoint.DequantisePairsBFloat16((*s)[i:j], b, e, fixedpoint.PairBits(ranks), n)
}
func (s *bfloat16s) encode(b []byte, i, j int, op wire.Op) {
	fixedpoint.EncodeOrderedBFloat16(b, (*s)[i:j], extreme(op))
}
func (s *bfloat16s) decode(b []byte, i, j int) { fixedpoint.DecodeOrderedBFloat16((*s)[i:j], b) }

// int32s go as they are; they are never scaled.
type int32s []int32

func (s *int32s) dtype() Kind                                  { return dtypeInt32 }
func (s *int32s) len() int                                     { return len(*s) }
func (s *int32s) valid(int32) bool                             { return false }
func (s *int32s) exponent(int, int) int32                      { panic("int32 has no exponent") }
func (s *int32s) quantise([]byte, int, int, int32, int)        { panic("int32 is not scaled") }
func (s *int32s) dequantise([]byte, int, int, int32, int, int) { panic("int32 is not scaled") }
func (s *int32s) encode(b []byte, i, j int, _ wire.Op)         { fixedpoint.EncodeInt32(b, (*s)[i:j]) }
func (s *int32s) decode(b []byte, i, j int)                    { fixedpoint.DecodeInt32((*s)[i:j], b) }
