package fixedpoint

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// seeded is a random source whose seed is in the test's log.
func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// arbitrary is a finite float32 of any exponent, with all bits random.
func arbitrary(r *rand.Rand) float32 {
	for {
		if v := math.Float32frombits(r.Uint32()); !math.IsInf(float64(v), 0) && v == v {
			return v
		}
	}
}

// exponentOf is the definition: the smallest e in [Least, Greatest] with |x| < 2^e for all x.
func exponentOf(x []float32) int32 {
	largest := 0.0
	for _, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return NonFinite
		}
		largest = max(largest, math.Abs(float64(v)))
	}
	if largest == 0 {
		return Zero
	}
	e := int32(Least)
	for largest >= math.Ldexp(1, int(e)) {
		e++
	}
	return e
}

func TestExponent(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		x    []float32
		want int32
	}{
		{nil, Zero},
		{[]float32{0, float32(math.Copysign(0, -1))}, Zero},
		{[]float32{1}, 1},
		{[]float32{0.99, -0.5}, 0},
		{[]float32{-2, 1}, 2},
		{[]float32{math.MaxFloat32}, Greatest},
		{[]float32{math.SmallestNonzeroFloat32}, Least},
		{[]float32{0x1p-126}, -125},
		{[]float32{1, inf}, NonFinite},
		{[]float32{-inf}, NonFinite},
		{[]float32{0, float32(math.NaN())}, NonFinite},
		{[]float32{math.Float32frombits(0xff800001)}, NonFinite},
	} {
		if got := Exponent(c.x); got != c.want {
			t.Errorf("Exponent(%v) = %d, want %d", c.x, got, c.want)
		}
	}
	r := seeded(t)
	for range 2000 {
		x := make([]float32, r.IntN(40))
		for i := range x {
			x[i] = arbitrary(r) * float32(math.Ldexp(1, r.IntN(3)-2))
		}
		if len(x) > 0 && r.IntN(8) == 0 {
			x[r.IntN(len(x))] = []float32{inf, -inf, float32(math.NaN())}[r.IntN(3)]
		}
		got, want := Exponent(x), exponentOf(x)
		if got != want {
			t.Fatalf("Exponent(%v) = %d, want %d", x, got, want)
		}
		if Valid(got) == (got == NonFinite) {
			t.Fatalf("Valid(%d) = %v", got, Valid(got))
		}
	}
	for e, want := range map[int32]bool{-1001: false, -1000: true, -999: false, -127: false, -126: true, 128: true, 129: false, NonFinite: false} {
		if Valid(e) != want {
			t.Errorf("Valid(%d) = %v", e, !want)
		}
	}
}

func TestBits(t *testing.T) {
	for n, want := range map[int]int{1: 31, 2: 30, 3: 29, 4: 29, 5: 28, 8: 28, 9: 27, 64: 25, 65: 24, 128: 24, 129: 22, 256: 22} {
		if got := Bits(n); got != want {
			t.Errorf("Bits(%d) = %d, want %d", n, got, want)
		}
	}
	// n contributions of the largest magnitude fit an int32, for every n of one node of the tree and beyond.
	largest := []float32{math.Nextafter32(1, 0), -math.Nextafter32(1, 0)}
	for n := 1; n <= 300; n++ {
		var b [8]byte
		Quantise(b[:], largest, 0, Bits(n))
		for i := range largest {
			q := int64(int32(binary.BigEndian.Uint32(b[4*i:])))
			if sum := int64(n) * q; sum > math.MaxInt32 || sum < math.MinInt32 || sum == 0 {
				t.Errorf("%d times %d does not fit an int32", n, q)
			}
		}
	}
}

// quantised is the definition in exact arithmetic: x * 2^(k-e) to the nearest integer, ties to even.
func quantised(x float32, e int32, k int) int64 {
	exact := new(big.Rat).SetFloat64(float64(x))
	shift := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(abs(int32(k)-e))))
	if int32(k) < e {
		shift.Inv(shift)
	}
	exact.Mul(exact, shift)
	twice := new(big.Rat).Mul(exact, big.NewRat(2, 1))
	// floor(exact + 1/2), less one where that was a tie rounded up to an odd number
	num := new(big.Int).Add(twice.Num(), twice.Denom())
	q := new(big.Int).Div(num, new(big.Int).Mul(big.NewInt(2), twice.Denom()))
	if twice.IsInt() && twice.Num().Bit(0) == 1 && q.Bit(0) == 1 {
		q.Sub(q, big.NewInt(1))
	}
	return q.Int64()
}

func abs(v int32) int32 { return max(v, -v) }

func TestQuantiseIsExactAndTiesGoToEven(t *testing.T) {
	for _, c := range []struct {
		x    float32
		e    int32
		k    int
		want int32
	}{
		{0.5, 31, 31, 0}, {1.5, 31, 31, 2}, {2.5, 31, 31, 2}, {-0.5, 31, 31, 0}, {-1.5, 31, 31, -2}, {-2.5, 31, 31, -2},
		{math.MaxFloat32, 128, 31, math.MaxInt32 - 127}, {-math.MaxFloat32, 128, 31, -math.MaxInt32 + 127},
		{math.SmallestNonzeroFloat32, -126, 31, 1 << 8}, {math.SmallestNonzeroFloat32, 128, 25, 0},
		{123, Zero, 29, 0},
	} {
		var b [4]byte
		Quantise(b[:], []float32{c.x}, c.e, c.k)
		if got := int32(binary.BigEndian.Uint32(b[:])); got != c.want {
			t.Errorf("Quantise(%g, e %d, k %d) = %d, want %d", c.x, c.e, c.k, got, c.want)
		}
	}
	r := seeded(t)
	for range 3000 {
		x := make([]float32, 1+r.IntN(20))
		for i := range x {
			x[i] = arbitrary(r)
			if r.IntN(2) == 0 { // near enough to each other that not all but one round to zero
				x[i] = float32(math.Ldexp(float64(r.IntN(1<<10)-1<<9), r.IntN(20)-40))
			}
		}
		e, k := exponentOf(x), Bits(1+r.IntN(64))
		if e == Zero {
			continue
		}
		b := make([]byte, 4*len(x))
		Quantise(b, x, e, k)
		for i, v := range x {
			if got, want := int64(int32(binary.BigEndian.Uint32(b[4*i:]))), quantised(v, e, k); got != want {
				t.Fatalf("Quantise(%g, e %d, k %d) = %d, want %d", v, e, k, got, want)
			}
		}
	}
}

// TestSumErrorBound checks the promise of the protocol: the sum of n contributions is within n * 2^(e-k-1) of the true sum,
// before it is rounded once to float32.
func TestSumErrorBound(t *testing.T) {
	r := seeded(t)
	for n := 1; n <= 64; n++ {
		for range 20 {
			magnitude := r.IntN(250) - 140
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(math.Ldexp(r.Float64()*2-1, magnitude-r.IntN(3)))
				if r.IntN(4) == 0 {
					x[i] = arbitrary(r)
				}
			}
			e, k := Exponent(x), Bits(n)
			if e == Zero {
				continue
			}
			b := make([]byte, 4*n)
			Quantise(b, x, e, k)
			sum, exact := int64(0), new(big.Float).SetPrec(2000)
			for i, v := range x {
				sum += int64(int32(binary.BigEndian.Uint32(b[4*i:])))
				exact.Add(exact, big.NewFloat(float64(v)))
			}
			if sum > math.MaxInt32 || sum < math.MinInt32 {
				t.Fatalf("the sum of %v is %d, which is no int32", x, sum)
			}
			value := new(big.Float).SetPrec(2000).SetMantExp(big.NewFloat(float64(sum)), int(e)-k)
			bound := new(big.Float).SetMantExp(big.NewFloat(float64(n)), int(e)-k-1)
			if diff := new(big.Float).Sub(value, exact); diff.Abs(diff).Cmp(bound) > 0 {
				t.Fatalf("the sum of %v is off by %v, more than %v", x, diff, bound)
			}
			var got [1]float32
			binary.BigEndian.PutUint32(b, uint32(int32(sum)))
			Dequantise(got[:], b, e, k)
			if want, _ := value.Float32(); got[0] != want {
				t.Fatalf("Dequantise(%d, e %d, k %d) = %g, want %g", sum, e, k, got[0], want)
			}
		}
	}
}

func TestDequantiseRoundsOnce(t *testing.T) {
	r := seeded(t)
	for range 5000 {
		q, k := int32(r.Uint32()), Bits(1+r.IntN(64))
		e := int32(r.IntN(Greatest-Least+1) + Least)
		b := binary.BigEndian.AppendUint32(nil, uint32(q))
		var got [1]float32
		Dequantise(got[:], b, e, k)
		want, _ := new(big.Float).SetMantExp(big.NewFloat(float64(q)), int(e)-k).Float32()
		if got[0] != want {
			t.Fatalf("Dequantise(%d, e %d, k %d) = %g, want %g", q, e, k, got[0], want)
		}
	}
	x := []float32{1, 2, 3}
	Dequantise(x, make([]byte, 12), Zero, 29)
	if x[0] != 0 || x[1] != 0 || x[2] != 0 {
		t.Errorf("a chunk of exponent Zero became %v", x)
	}
}

func TestInt32RoundTripAtEveryLength(t *testing.T) {
	r := seeded(t)
	for n := range 70 {
		x, got := make([]int32, n), make([]int32, n)
		for i := range x {
			x[i] = int32(r.Uint32())
		}
		b := make([]byte, 4*n)
		EncodeInt32(b, x)
		for i, v := range x {
			if binary.BigEndian.Uint32(b[4*i:]) != uint32(v) {
				t.Fatalf("element %d of %d is not big-endian", i, n)
			}
		}
		DecodeInt32(got, b)
		for i := range x {
			if got[i] != x[i] {
				t.Fatalf("element %d of %d: %d, want %d", i, n, got[i], x[i])
			}
		}
	}
}

// FuzzChunk holds the unrolled loops to the definitions at any length and any bits.
func FuzzChunk(f *testing.F) {
	f.Add([]byte{0, 0, 128, 63, 0, 0, 0, 192}, uint8(4))
	f.Add([]byte{0, 0, 128, 127, 1, 0, 0, 0}, uint8(1))
	many := make([]byte, 4*75) // enough for whole blocks
	for i := range many {
		many[i] = byte(i * 37 >> 2)
	}
	f.Add(many, uint8(63))
	f.Fuzz(func(t *testing.T, raw []byte, n uint8) {
		x := make([]float32, len(raw)/4)
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		e := Exponent(x)
		if want := exponentOf(x); e != want {
			t.Fatalf("Exponent = %d, want %d", e, want)
		}
		if !Valid(e) {
			return
		}
		k, b, back := Bits(int(n%64)+1), make([]byte, 4*len(x)), make([]float32, len(x))
		Quantise(b, x, e, k)
		Dequantise(back, b, e, k)
		for i, v := range x {
			q := int32(binary.BigEndian.Uint32(b[4*i:]))
			want := 0.0
			if e != Zero {
				want = math.RoundToEven(math.Ldexp(float64(v), k-int(e)))
			}
			if float64(q) != want {
				t.Fatalf("element %d, %g: quantised to %d, want %g", i, v, q, want)
			}
			if e != Zero && back[i] != float32(math.Ldexp(float64(q), int(e)-k)) {
				t.Fatalf("element %d: %d came back as %g", i, q, back[i])
			}
		}
	})
}

func BenchmarkChunk(b *testing.B) {
	const elements = 256
	x, packet, ints := make([]float32, elements), make([]byte, 4*elements), make([]int32, elements)
	for i := range x {
		x[i] = float32(i) - 100.25
	}
	e := Exponent(x)
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"exponent", func() { Exponent(x) }},
		{"quantise", func() { Quantise(packet, x, e, 29) }},
		{"dequantise", func() { Dequantise(x, packet, e, 29) }},
		{"quantise_pairs", func() { QuantisePairs(packet, x, e, 13) }},
		{"dequantise_pairs", func() { DequantisePairs(x, packet, e, 13, 1) }},
		{"average_of_3_pairs", func() { DequantisePairs(x, packet, e, 13, 3) }},
		{"encode_int32", func() { EncodeInt32(packet, ints) }},
		{"decode_int32", func() { DecodeInt32(ints, packet) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(4 * elements)
			for b.Loop() {
				c.run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/elements, "ns/element")
		})
	}
}
