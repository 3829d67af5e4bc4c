package fixedpoint

import (
	"encoding/binary"
	"math"
	"math/big"
	"testing"
)

// half is what is tested of both formats of 16 bits.
type half struct {
	name            string
	fraction, least int
	infinity, quiet uint16
	widen           func(uint16) float32
	round           func(float64) uint16
	exponent        func([]uint16) int32
	quantise        func([]byte, []uint16, int32, int)
	dequantise      func(q int32, e int32, k, n int) uint16
	encode          func([]byte, []uint16, Extreme)
	decode          func([]uint16, []byte)
}

func convert[A, B ~uint16](x []A) []B {
	y := make([]B, len(x))
	for i, v := range x {
		y[i] = B(v)
	}
	return y
}

var halves = []half{
	{
		"float16", 10, -14, 0x7c00, 0x7e00,
		func(v uint16) float32 { return Float16(v).Float32() },
		func(v float64) uint16 { return uint16(ToFloat16(v)) },
		func(x []uint16) int32 { return ExponentFloat16(convert[uint16, Float16](x)) },
		func(dst []byte, x []uint16, e int32, k int) { QuantiseFloat16(dst, convert[uint16, Float16](x), e, k) },
		func(q, e int32, k, n int) uint16 {
			var x [1]Float16
			DequantiseFloat16(x[:], binary.BigEndian.AppendUint32(nil, uint32(q)), e, k, n)
			return uint16(x[0])
		},
		func(dst []byte, x []uint16, extreme Extreme) {
			EncodeOrderedFloat16(dst, convert[uint16, Float16](x), extreme)
		},
		func(x []uint16, src []byte) {
			y := make([]Float16, len(x))
			DecodeOrderedFloat16(y, src)
			copy(x, convert[Float16, uint16](y))
		},
	},
	{
		"bfloat16", 7, -126, 0x7f80, 0x7fc0,
		func(v uint16) float32 { return BFloat16(v).Float32() },
		func(v float64) uint16 { return uint16(ToBFloat16(v)) },
		func(x []uint16) int32 { return ExponentBFloat16(convert[uint16, BFloat16](x)) },
		func(dst []byte, x []uint16, e int32, k int) {
			QuantiseBFloat16(dst, convert[uint16, BFloat16](x), e, k)
		},
		func(q, e int32, k, n int) uint16 {
			var x [1]BFloat16
			DequantiseBFloat16(x[:], binary.BigEndian.AppendUint32(nil, uint32(q)), e, k, n)
			return uint16(x[0])
		},
		func(dst []byte, x []uint16, extreme Extreme) {
			EncodeOrderedBFloat16(dst, convert[uint16, BFloat16](x), extreme)
		},
		func(x []uint16, src []byte) {
			y := make([]BFloat16, len(x))
			DecodeOrderedBFloat16(y, src)
			copy(x, convert[BFloat16, uint16](y))
		},
	},
}

// value is the definition of a finite half.
func (h half) value(bits uint16) float64 {
	fraction, exponent := float64(bits&(1<<h.fraction-1)), int(bits&0x7fff)>>h.fraction
	v := math.Ldexp(fraction, h.least-h.fraction)
	if exponent > 0 {
		v = math.Ldexp(fraction+math.Ldexp(1, h.fraction), h.least-h.fraction+exponent-1)
	}
	if bits>>15 == 1 {
		v = -v
	}
	return v
}

// TestHalves goes through all numbers of both formats, and through the places where rounding changes from one to the next.
func TestHalves(t *testing.T) {
	for _, h := range halves {
		for bits := uint16(0); bits < h.infinity; bits++ {
			for _, sign := range []uint16{0, 1 << 15} {
				v := h.value(bits | sign)
				if got := h.widen(bits | sign); float64(got) != v || math.Signbit(float64(got)) != (sign != 0) {
					t.Fatalf("%s: %#x is %v, want %v", h.name, bits|sign, got, v)
				}
				next := h.value(bits + 1) // of the infinity, where the next number would be
				middle := (h.value(bits) + next) / 2
				even := bits + bits&1
				if sign != 0 {
					middle = -middle
				}
				for x, want := range map[float64]uint16{v: bits, math.Nextafter(middle, v): bits, middle: even, math.Nextafter(middle, middle*2): bits + 1} {
					if got := h.round(x); got != want|sign {
						t.Fatalf("%s: %v is rounded to %#x, want %#x", h.name, x, got, want|sign)
					}
				}
			}
			if e := h.exponent([]uint16{0, bits | 1<<15, bits}); e != exponentOf([]float32{float32(h.value(bits))}) {
				t.Fatalf("%s: the exponent of %#x is %d", h.name, bits, e)
			}
		}
		for bits := uint32(h.infinity); bits < 1<<15; bits++ {
			v := float64(h.widen(uint16(bits)))
			if (bits == uint32(h.infinity)) != math.IsInf(v, 1) || (bits != uint32(h.infinity)) != math.IsNaN(v) {
				t.Fatalf("%s: %#x is %v", h.name, bits, v)
			}
			if e := h.exponent([]uint16{1, uint16(bits) | 1<<15}); e != NonFinite {
				t.Fatalf("%s: the exponent of %#x is %d", h.name, bits, e)
			}
		}
		for v, want := range map[float64]uint16{math.Inf(1): h.infinity, math.Inf(-1): h.infinity | 1<<15, math.MaxFloat64: h.infinity, 5e-324: 0} {
			if got := h.round(v); got != want {
				t.Errorf("%s: %v is rounded to %#x, want %#x", h.name, v, got, want)
			}
		}
		if got := h.round(math.NaN()); got != h.quiet {
			t.Errorf("%s: NaN is %#x", h.name, got)
		}
	}
}

// mean is q * 2^(e-k) / n exactly.
func mean(q int32, e int32, k, n int) *big.Rat {
	v := big.NewRat(int64(q), int64(n))
	shift := int(e) - k
	p := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(max(shift, -shift))))
	if shift < 0 {
		p.Inv(p)
	}
	return v.Mul(v, p)
}

// TestMeansAreRoundedOnce compares sums and means of every format with the exact quotient, rounded by definition. Quotients in the middle of two numbers, and
// next to it, are drawn more often than chance would.
func TestMeansAreRoundedOnce(t *testing.T) {
	r := seeded(t)
	for range 20000 {
		n := 1 + r.IntN(64)
		q := int32(r.Uint32()) >> r.IntN(31)
		if r.IntN(2) == 0 { // about n times an odd number of a length that leaves it in the middle
			digits := []int{8, 11, 24}[r.IntN(3)]
			if m := int64(n) * int64(r.IntN(1<<digits)<<1|1); m <= math.MaxInt32 {
				q = int32(m) + int32(r.IntN(3)-1)
			}
		}
		e := int32(r.IntN(Greatest-Least+1) + Least)
		if r.IntN(2) == 0 {
			e = int32(r.IntN(40) - 20)
		}
		k := Bits(n)
		exact := mean(q, e, k, n)
		src := binary.BigEndian.AppendUint32(nil, uint32(q))
		var f32 [1]float32
		Average(f32[:], src, e, k, n)
		if want, _ := exact.Float32(); f32[0] != want {
			t.Fatalf("%d * 2^(%d-%d) / %d = %v, want %v", q, e, k, n, f32[0], want)
		}
		for _, h := range halves {
			got := h.dequantise(q, e, k, n)
			if got&0x7fff == h.infinity {
				if limit := (h.value(h.infinity-1) + h.value(h.infinity)) / 2; new(big.Rat).Abs(exact).Cmp(new(big.Rat).SetFloat64(limit)) < 0 {
					t.Fatalf("%s: %d * 2^(%d-%d) / %d = %v is an infinity", h.name, q, e, k, n, exact)
				}
				continue
			}
			distance := func(bits uint16) *big.Rat {
				d := new(big.Rat).SetFloat64(h.value(bits))
				return d.Abs(d.Sub(d, exact))
			}
			own := distance(got)
			for _, other := range []uint16{got - 1, got + 1} {
				if got&0x7fff == 0 && other == got-1 { // below 0
					other = got ^ 1<<15 | 1
				}
				if c := own.Cmp(distance(other)); c > 0 || c == 0 && got&1 == 1 {
					t.Fatalf("%s: %d * 2^(%d-%d) / %d = %#x, and %#x is nearer, or as near and even", h.name, q, e, k, n, got, other)
				}
			}
		}
		e, k = int32(r.IntN(GreatestFloat64-LeastFloat64+1)+LeastFloat64), BitsFloat64(n)
		var f64 [1]float64
		DequantiseFloat64(f64[:], src, e, k, n)
		if want, _ := mean(q, e, k, n).Float64(); f64[0] != want {
			t.Fatalf("float64: %d * 2^(%d-%d) / %d = %v, want %v", q, e, k, n, f64[0], want)
		}
	}
}

// TestQuantiseOfOtherFormats: exactly as the same numbers are quantised as float32, at all lengths; and float64 by the definition.
func TestQuantiseOfOtherFormats(t *testing.T) {
	r := seeded(t)
	for n := range 300 {
		for _, h := range halves {
			x, wide := make([]uint16, n), make([]float32, n)
			for i := range x {
				x[i] = uint16(r.IntN(int(h.infinity))) | uint16(r.IntN(2))<<15
				wide[i] = h.widen(x[i])
			}
			e, k := Exponent(wide), Bits(1+r.IntN(64))
			got, want := make([]byte, 4*n), make([]byte, 4*n)
			h.quantise(got, x, e, k)
			Quantise(want, wide, e, k)
			if string(got) != string(want) {
				t.Fatalf("%s: %d elements are quantised otherwise than the same as float32", h.name, n)
			}
		}
	}
	for range 3000 {
		x := make([]float64, 1+r.IntN(9))
		for i := range x {
			x[i] = math.Ldexp(r.Float64()*2-1, r.IntN(30)-r.IntN(30))
			switch r.IntN(20) {
			case 0:
				x[i] = math.MaxFloat64
			case 1:
				x[i] = math.Float64frombits(r.Uint64() &^ (1 << 62))
			case 2:
				x[i] = 0
			}
		}
		e, n := ExponentFloat64(x), 1+r.IntN(64)
		if !ValidFloat64(e) {
			t.Fatalf("the exponent of %v is %d", x, e)
		}
		k := BitsFloat64(n)
		b := make([]byte, 4*len(x))
		QuantiseFloat64(b, x, e, k)
		for i, v := range x {
			got, want := int32(binary.BigEndian.Uint32(b[4*i:])), 0.0
			if e != Zero {
				want = math.RoundToEven(math.Ldexp(v, k-int(e)))
				if math.Abs(v) >= math.Ldexp(1, int(e)-1)*2 {
					t.Fatalf("%v is not below 2^%d", v, e)
				}
			}
			if float64(got) != want || int64(n)*int64(max(got, -got)) > math.MaxInt32 {
				t.Fatalf("%v, e %d, k %d, %d ranks: quantised to %d, want %v", v, e, k, n, got, want)
			}
		}
	}
	for want, x := range map[int32][]float64{
		Zero: {0, math.Copysign(0, -1)}, NonFinite: {1, 2, 3, 4, math.NaN()}, LeastFloat64: {5e-324}, LeastFloat64 + 1: {0x1p-900}, GreatestFloat64: {math.MaxFloat64},
		1: {0, -1, 0}, 3: {1, 2, 3, 4},
	} {
		if got := ExponentFloat64(x); got != want {
			t.Errorf("the exponent of %v is %d, want %d", x, got, want)
		}
	}
	if ExponentFloat64([]float64{math.Inf(-1)}) != NonFinite {
		t.Error("an infinity has an exponent")
	}
}

// TestOrder: the integers order as the floats do, at every pair of neighbours, and come back as they were.
func TestOrder(t *testing.T) {
	lane := func(b []byte, i int) int32 { return int32(binary.BigEndian.Uint32(b[4*i:])) }
	for _, h := range halves {
		var x []uint16 // from the least to the largest
		for bits := int(h.infinity); bits >= 0; bits-- {
			x = append(x, uint16(bits)|1<<15)
		}
		for bits := range int(h.infinity) + 1 {
			x = append(x, uint16(bits))
		}
		for _, extreme := range []Extreme{Maximum, Minimum} {
			b, back := make([]byte, 4*len(x)), make([]uint16, len(x))
			h.encode(b, x, extreme)
			h.decode(back, b)
			for i := range x {
				if i > 0 && lane(b, i-1) >= lane(b, i) {
					t.Fatalf("%s: %#x is not below %#x", h.name, x[i-1], x[i])
				}
				if back[i] != x[i] {
					t.Fatalf("%s: %#x came back as %#x", h.name, x[i], back[i])
				}
			}
			nans := []uint16{h.infinity + 1, 0x7fff, 0xffff, h.infinity | 1<<15 | 1}
			nb := make([]byte, 4*len(nans))
			h.encode(nb, nans, extreme)
			h.decode(nans, nb)
			for i := range nans {
				if extreme == Maximum && lane(nb, i) <= lane(b, len(x)-1) || extreme == Minimum && lane(nb, i) >= lane(b, 0) || nans[i] != h.quiet {
					t.Errorf("%s: a NaN is %d, and came back as %#x", h.name, lane(nb, i), nans[i])
				}
			}
		}
	}
	r := seeded(t)
	for range 20000 {
		x := []float32{arbitrary(r), arbitrary(r), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.Float32frombits(0xffffffff)}
		if r.IntN(4) == 0 {
			x[1] = math.Float32frombits(math.Float32bits(x[0]) ^ 1)
		}
		for _, extreme := range []Extreme{Maximum, Minimum} {
			b, back := make([]byte, 4*len(x)), make([]float32, len(x))
			EncodeOrdered(b, x, extreme)
			DecodeOrdered(back, b)
			low, high := lane(b, 3), lane(b, 2)
			if (x[0] < x[1]) != (lane(b, 0) < lane(b, 1)) && x[0] != x[1] || min(lane(b, 0), lane(b, 1)) < low || max(lane(b, 0), lane(b, 1)) > high {
				t.Fatalf("%v are ordered as %x", x, b)
			}
			if extreme == Maximum && min(lane(b, 4), lane(b, 5)) <= high || extreme == Minimum && max(lane(b, 4), lane(b, 5)) >= low {
				t.Fatalf("NaNs are within the numbers: %x", b)
			}
			for i := range x {
				want := math.Float32bits(x[i])
				if i >= 4 {
					want = 0x7fc00000
				}
				if math.Float32bits(back[i]) != want {
					t.Fatalf("%v came back as %v", x[i], back[i])
				}
			}
		}
	}
	var b [8]byte
	EncodeOrdered(b[:], []float32{float32(math.Copysign(0, -1)), 0}, Maximum)
	if lane(b[:], 0) != -1 || lane(b[:], 1) != 0 {
		t.Errorf("-0 and 0 are %x", b)
	}
}
