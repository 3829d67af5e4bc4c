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
	}
}
