package fixedpoint

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// pairRanks are numbers of ranks to test with: all of one node of the tree, and of several.
func pairRanks(r *rand.Rand) int {
	if r.IntN(4) == 0 {
		return 1 + r.IntN(MostPaired)
	}
	return 1 + r.IntN(64)
}

// pairStep is round(x * 2^(k-e)), ties to even: the definition, in float64, where it is exact.
func pairStep(x float32, e int32, k int) int64 {
	return int64(math.RoundToEven(math.Ldexp(float64(x), k-int(e))))
}

// pairExponentOf is the definition: the smallest e in [Least, Greatest+1] for which no element is rounded to 2^k.
func pairExponentOf(x []float32, k int) int32 {
	e := exponentOf(x)
	if e == Zero || e == NonFinite {
		return e
	}
	for ; ; e++ {
		largest := int64(0)
		for _, v := range x {
			step := pairStep(v, e, k)
			largest = max(largest, step, -step)
		}
		if largest < 1<<k {
			return e
		}
	}
}

// pairTensor draws elements, near each other mostly, and many on the edge of a power of two.
func pairTensor(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	around := r.IntN(276) - 148
	for i := range x {
		switch r.IntN(8) {
		case 0:
			x[i] = float32(math.Ldexp(1, around))
		case 1: // around half a step below it
			x[i] = math.Float32frombits(math.Float32bits(float32(math.Ldexp(1, around))) - 1<<r.IntN(24) + uint32(r.IntN(3)))
		case 2:
			x[i] = 0
		default:
			x[i] = float32(math.Ldexp(r.Float64()*2-1, around-r.IntN(16)))
		}
		if v := math.Float32bits(x[i]) & magnitude; v >= infinity {
			x[i] = math.MaxFloat32
		}
		if r.IntN(2) == 0 {
			x[i] = -x[i]
		}
	}
	return x
}

func TestPairBits(t *testing.T) {
	for n, want := range map[int]int{1: 15, 2: 14, 3: 13, 4: 13, 5: 12, 8: 12, 9: 11, 16: 11, 17: 10, 32: 10, 33: 9, 64: 9, 65: 8, 128: 8, 1024: 5, 4096: 3} {
		if got := PairBits(n); got != want {
			t.Errorf("PairBits(%d) = %d, want %d", n, got, want)
		}
	}
	// n of the largest contributions, of any signs, keep out of each other's halves and away from the ends of the int32 range; a bit more would not.
	for n := 1; n <= MostPaired; n++ {
		k := PairBits(n)
		most := int64(n) * (1<<k - 1)
		if most > math.MaxInt16 || int64(n)*(1<<(k+1)-1) <= math.MaxInt16 {
			t.Errorf("%d ranks: k is %d", n, k)
		}
		for _, upper := range []int64{-most, most} {
			for _, lower := range []int64{-most, most} {
				word := upper<<16 + lower
				if word > math.MaxInt32-1<<15 || word < math.MinInt32+1<<15 {
					t.Errorf("%d ranks: the word of %d and %d is %#x", n, upper, lower, word)
				}
				if u, l := unpair(uint32(word)); int64(u) != upper || int64(l) != lower {
					t.Errorf("%d ranks: %d and %d come back as %d and %d", n, upper, lower, u, l)
				}
			}
		}
	}
}

func TestPairExponent(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		x    []float32
		k    int
		want int32
	}{
		{nil, 13, Zero}, {[]float32{0, 0}, 13, Zero}, {[]float32{-inf}, 13, NonFinite}, {[]float32{0, nan}, 13, NonFinite},
		{[]float32{1}, 13, 1}, {[]float32{1 - 0x1p-14}, 13, 1}, {[]float32{1 - 0x1.1p-14}, 13, 0}, {[]float32{0.5, -0.5}, 13, 0},
		{[]float32{math.MaxFloat32}, 13, Greatest + 1}, {[]float32{math.SmallestNonzeroFloat32}, 13, Least}, {[]float32{0x1p-126 - 0x1p-149}, 13, Least + 1},
	} {
		if got := PairExponent(c.x, c.k); got != c.want {
			t.Errorf("PairExponent(%v, %d) = %d, want %d", c.x, c.k, got, c.want)
		}
	}
	r := seeded(t)
	for range 5000 {
		x, k := pairTensor(r, r.IntN(40)), PairBits(pairRanks(r))
		got, want := PairExponent(x, k), pairExponentOf(x, k)
		if got != want || !ValidPairs(got) {
			t.Fatalf("PairExponent(%v, %d) = %d, want %d", x, k, got, want)
		}
	}
	for e, want := range map[int32]bool{-1001: false, -1000: true, -999: false, -127: false, -126: true, 129: true, 130: false, NonFinite: false} {
		if ValidPairs(e) != want {
			t.Errorf("ValidPairs(%d) = %v", e, !want)
		}
	}
}

// saturating is the sum that data planes make of two words.
func saturating(a, b int32) int32 {
	return int32(min(max(int64(a)+int64(b), math.MinInt32), math.MaxInt32))
}

// TestPairSums checks the promise of the protocol: whatever words are added up in whatever order, sums do not saturate, and each element is within n * 2^(e-k-1) of
// the true sum before it is rounded once; an average within 2^(e-k-1) of the true mean.
func TestPairSums(t *testing.T) {
	r := seeded(t)
	for round := range 600 {
		n, length := pairRanks(r), 1+r.IntN(40)
		k := PairBits(n)
		ranks := make([][]float32, n)
		e := int32(Zero)
		for rank := range ranks {
			ranks[rank] = pairTensor(r, length)
			if round%3 == 0 { // all of the largest
				for i := range length {
					ranks[rank][i] = float32(math.Copysign(1-0x1p-20, float64(i&1)-float64(i&2)-0.5))
				}
			}
			e = max(e, PairExponent(ranks[rank], k))
		}
		words := make([]int32, PairWords(length))
		packet := make([]byte, 4*len(words))
		for _, rank := range r.Perm(n) {
			QuantisePairs(packet, ranks[rank], e, k)
			for i := range words {
				words[i] = saturating(words[i], int32(binary.BigEndian.Uint32(packet[4*i:])))
				if words[i] == math.MaxInt32 || words[i] == math.MinInt32 {
					t.Fatalf("%d ranks: a sum reached %d", n, words[i])
				}
			}
		}
		EncodeInt32(packet, words)
		sums, means := make([]float32, length), make([]float32, length)
		DequantisePairs(sums, packet, e, k, 1)
		DequantisePairs(means, packet, e, k, n)
		for i := range length {
			exact, steps := new(big.Float).SetPrec(2000), int64(0)
			for rank := range ranks {
				exact.Add(exact, big.NewFloat(float64(ranks[rank][i])))
				if e != Zero {
					steps += pairStep(ranks[rank][i], e, k)
				}
			}
			if e == Zero {
				if sums[i] != 0 || means[i] != 0 {
					t.Fatalf("zeros became %v and %v", sums[i], means[i])
				}
				continue
			}
			value := new(big.Float).SetPrec(2000).SetMantExp(big.NewFloat(float64(steps)), int(e)-k)
			if want, _ := value.Float32(); sums[i] != want {
				t.Fatalf("%d ranks, e %d: element %d of %d is %g, want %g", n, e, i, length, sums[i], want)
			}
			if want, _ := mean(int32(steps), e, k, n).Float32(); means[i] != want {
				t.Fatalf("%d ranks, e %d: the mean of element %d of %d is %g, want %g", n, e, i, length, means[i], want)
			}
			bound := new(big.Float).SetMantExp(big.NewFloat(float64(n)), int(e)-k-1)
			if diff := new(big.Float).Sub(value, exact); diff.Abs(diff).Cmp(bound) > 0 {
				t.Fatalf("%d ranks, e %d: the sum of element %d is off by %v, more than %v", n, e, i, diff, bound)
			}
		}
	}
}

// TestPairsOfHalves: exactly as the same numbers as float32, at all lengths; results rounded once.
func TestPairsOfHalves(t *testing.T) {
	r := seeded(t)
	for length := range 300 {
		n := pairRanks(r)
		k := PairBits(n)
		f16, bf16 := make([]Float16, length), make([]BFloat16, length)
		wide16, wideB := make([]float32, length), make([]float32, length)
		for i := range f16 {
			f16[i], bf16[i] = Float16(r.IntN(infinity16)|r.IntN(2)<<15), BFloat16(r.IntN(infinityB16)|r.IntN(2)<<15)
			wide16[i], wideB[i] = f16[i].Float32(), bf16[i].Float32()
		}
		got, want := make([]byte, 4*PairWords(length)), make([]byte, 4*PairWords(length))
		e := PairExponentFloat16(f16, k)
		if e != PairExponent(wide16, k) {
			t.Fatalf("the exponent of %v is %d", f16, e)
		}
		QuantisePairsFloat16(got, f16, e, k)
		QuantisePairs(want, wide16, e, k)
		if string(got) != string(want) {
			t.Fatalf("%d elements of float16 are quantised otherwise than the same as float32", length)
		}
		eB := PairExponentBFloat16(bf16, k)
		if eB != PairExponent(wideB, k) {
			t.Fatalf("the exponent of %v is %d", bf16, eB)
		}
		QuantisePairsBFloat16(got, bf16, eB, k)
		QuantisePairs(want, wideB, eB, k)
		if string(got) != string(want) {
			t.Fatalf("%d elements of bfloat16 are quantised otherwise than the same as float32", length)
		}
		for i := range got {
			got[i] = byte(r.Uint32())
		}
		divisor := []int{1, n}[r.IntN(2)]
		DequantisePairsFloat16(f16, got, e, k, divisor)
		DequantisePairsBFloat16(bf16, got, eB, k, divisor)
		for i := range f16 {
			u, l := unpair(binary.BigEndian.Uint32(got[i/2*4:]))
			q := []int32{u, l}[i%2]
			// A float64 is off by less than what is between a quotient and the middle of two halves, as the test of means shows.
			for _, c := range []struct {
				name      string
				e         int32
				got, want uint16
			}{
				{"float16", e, uint16(f16[i]), uint16(ToFloat16(pairMean(q, e, k, divisor)))},
				{"bfloat16", eB, uint16(bf16[i]), uint16(ToBFloat16(pairMean(q, eB, k, divisor)))},
			} {
				if c.got != c.want {
					t.Fatalf("%s: %d * 2^(%d-%d) / %d is %#x, want %#x", c.name, q, c.e, k, divisor, c.got, c.want)
				}
			}
		}
	}
	if PairExponentFloat16([]Float16{1, infinity16}, 13) != NonFinite || PairExponentBFloat16([]BFloat16{1, infinityB16 | 1}, 13) != NonFinite {
		t.Error("an infinity or a NaN has an exponent")
	}
	halves, bhalves := []Float16{1, 2, 3}, []BFloat16{1, 2, 3}
	DequantisePairsFloat16(halves, make([]byte, 8), Zero, 13, 1)
	DequantisePairsBFloat16(bhalves, make([]byte, 8), Zero, 13, 1)
	for i := range halves {
		if halves[i] != 0 || bhalves[i] != 0 {
			t.Errorf("a chunk of exponent Zero became %v and %v", halves, bhalves)
		}
	}
}

// pairMean is the exact quotient as the nearest float64.
func pairMean(q, e int32, k, n int) float64 {
	if e == Zero {
		return 0
	}
	v, _ := mean(q, e, k, n).Float64()
	return v
}

// FuzzPairs holds the loops for pairs to the definitions at any length and any bits.
func FuzzPairs(f *testing.F) {
	many := make([]byte, 4*75)
	for i := range many {
		many[i] = byte(i * 37 >> 2)
	}
	f.Add([]byte{0, 0, 128, 63, 0, 0, 0, 192, 255, 255, 127, 63}, uint16(4), int8(0))
	f.Add([]byte{0, 0, 128, 127, 1, 0, 0, 0}, uint16(1), int8(0))
	f.Add(many, uint16(63), int8(3))
	f.Fuzz(func(t *testing.T, raw []byte, ranks uint16, more int8) {
		x := make([]float32, len(raw)/4)
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		n := int(ranks)%MostPaired + 1
		k := PairBits(n)
		e := PairExponent(x, k)
		if want := pairExponentOf(x, k); e != want {
			t.Fatalf("PairExponent = %d, want %d", e, want)
		}
		if !ValidPairs(e) {
			return
		}
		if e != Zero {
			e = min(e+int32(max(more, 0)), Greatest+1) // another rank's may be larger
		}
		b, back := make([]byte, 4*PairWords(len(x))), make([]float32, len(x))
		QuantisePairs(b, x, e, k)
		for divisor := 1; divisor <= n; divisor += max(1, n-1) {
			DequantisePairs(back, b, e, k, divisor)
			for i, v := range x {
				u, l := unpair(binary.BigEndian.Uint32(b[i/2*4:]))
				q, want := []int32{u, l}[i%2], int64(0)
				if e != Zero {
					want = pairStep(v, e, k)
				}
				if int64(q) != want || q >= 1<<k || q <= -1<<k {
					t.Fatalf("element %d, %g: quantised to %d, want %d", i, v, q, want)
				}
				if i == len(x)-1 && i%2 == 0 && l != 0 {
					t.Fatalf("beside the last element is %d", l)
				}
				if e == Zero && back[i] != 0 || e != Zero && back[i] != float32(math.Ldexp(float64(q)/float64(divisor), int(e)-k)) {
					t.Fatalf("element %d: %d / %d came back as %g", i, q, divisor, back[i])
				}
			}
		}
	})
}
