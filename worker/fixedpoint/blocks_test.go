package fixedpoint

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"
)

// TestBlocksMatchPortable: the loops that take whole blocks give the portable
// loops' bits, at every length and for every kind of number.
func TestBlocksMatchPortable(t *testing.T) {
	r := seeded(t)
	for round := range 3000 {
		n := r.IntN(200)
		x := make([]float32, n)
		q := make([]int32, n)
		for i := range x {
			x[i], q[i] = arbitrary(r), int32(r.Uint32())
			if round%10 == 0 && r.IntN(50) == 0 {
				x[i] = math.Float32frombits(r.Uint32()) // NaNs and infinities too
			}
		}
		done, m := magnitudeBlocks(x)
		if got, want := max(m, magnitudePortable(x[done:])), magnitudePortable(x); got != want {
			t.Fatalf("magnitude of %v: %#x, portable %#x", x, got, want)
		}
		want, got := make([]byte, 4*n), make([]byte, 4*n)
		encodePortable(want, q)
		EncodeInt32(got, q)
		if !bytes.Equal(got, want) {
			t.Fatalf("encode %v: %x, portable %x", q, got, want)
		}
		decoded := make([]int32, n)
		DecodeInt32(decoded, got)
		if !slices.Equal(decoded, q) {
			t.Fatalf("decode %x: %v", got, decoded)
		}
		e := Exponent(x)
		if e == NonFinite || e == Zero {
			continue
		}
		if round%2 == 0 { // of any magnitude: scales beyond float32 too
			by := r.IntN(int(e)-Least+1) - (int(e) - Least)
			for i := range x {
				x[i] = float32(math.Ldexp(float64(x[i]), by))
			}
			if e = Exponent(x); e == Zero {
				continue
			}
		}
		e += r.Int32N(min(40, Greatest-e+1)) // another rank's may be larger
		k := Bits(1 + r.IntN(64))
		quantisePortable(want, x, power(int32(k)-e))
		Quantise(got, x, e, k)
		if !bytes.Equal(got, want) {
			t.Fatalf("quantise %v with e %d, k %d: %x, portable %x", x, e, k, got, want)
		}
		for i := range n {
			binary.BigEndian.PutUint32(got[4*i:], r.Uint32()) // sums use the whole range
		}
		a, b := make([]float32, n), make([]float32, n)
		dequantisePortable(a, got, power(e-int32(k)))
		Dequantise(b, got, e, k)
		for i := range a {
			if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
				t.Fatalf("dequantise %x with e %d, k %d: %v, portable %v", got[4*i:4*i+4], e, k, b[i], a[i])
			}
		}
		k = PairBits(pairRanks(r))
		e = PairExponent(x, k)
		e += r.Int32N(min(40, Greatest+2-e))
		want, got = make([]byte, 4*PairWords(n)), make([]byte, 4*PairWords(n))
		quantisePairsPortable(want, x, power(int32(k)-e))
		QuantisePairs(got, x, e, k)
		if !bytes.Equal(got, want) {
			t.Fatalf("pairs of %v with e %d, k %d: %x, portable %x", x, e, k, got, want)
		}
		for i := range got {
			got[i] = byte(r.Uint32())
		}
		dequantisePairsPortable(a, got, power(e-int32(k)))
		DequantisePairs(b, got, e, k, 1)
		for i := range a {
			if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
				t.Fatalf("element %d of the pairs %x with e %d, k %d: %v, portable %v", i, got, e, k, b[i], a[i])
			}
		}
	}
}

// TestConversionsDoNotAllocate: nor do they touch what lies behind their range.
func TestConversionsDoNotAllocate(t *testing.T) {
	const n = 255
	x, ints, f16, bf16 := make([]float32, n), make([]int32, n), make([]Float16, n), make([]BFloat16, n)
	for i := range x {
		x[i] = float32(i) - 100.25
		f16[i], bf16[i] = ToFloat16(float64(x[i])), ToBFloat16(float64(x[i]))
	}
	packet, back := make([]byte, 4*n), make([]float32, n)
	for name, do := range map[string]func(){
		"exponent":                 func() { Exponent(x) },
		"quantise":                 func() { Quantise(packet, x, 8, 29) },
		"dequantise":               func() { Dequantise(back, packet, 8, 29) },
		"average":                  func() { Average(back, packet, 8, 29, 3) },
		"encode":                   func() { EncodeInt32(packet, ints) },
		"decode":                   func() { DecodeInt32(ints, packet) },
		"pair exponent":            func() { PairExponent(x, 13) },
		"quantise pairs":           func() { QuantisePairs(packet, x, 8, 13) },
		"dequantise pairs":         func() { DequantisePairs(back, packet, 8, 13, 1) },
		"average of pairs":         func() { DequantisePairs(back, packet, 8, 13, 3) },
		"pair exponent of float16": func() { PairExponentFloat16(f16, 13) },
		"pairs of float16":         func() { QuantisePairsFloat16(packet, f16, 8, 13); DequantisePairsFloat16(f16, packet, 8, 13, 3) },
		"pairs of bfloat16":        func() { QuantisePairsBFloat16(packet, bf16, 8, 13); DequantisePairsBFloat16(bf16, packet, 8, 13, 3) },
	} {
		if allocations := testing.AllocsPerRun(20, do); allocations != 0 {
			t.Errorf("%s: %v allocations", name, allocations)
		}
	}
	const words, mark = (n + 1) / 2, 0xa5
	for i := range packet {
		packet[i] = mark
	}
	QuantisePairs(packet, x, 8, 13)
	for i, b := range packet[4*words:] {
		if b != mark {
			t.Fatalf("byte %d behind the pairs was written", i)
		}
	}
}
