package reference

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestFractionBits16(t *testing.T) {
	for n, want := range map[int]int{1: 15, 2: 14, 3: 13, 4: 13, 5: 12, 8: 12, 9: 11, 16: 11, 17: 10, 32: 10, 33: 9, 64: 9, 128: 8, 1000: 5} {
		if got := FractionBits16(n); got != want {
			t.Errorf("FractionBits16(%d) = %d, want %d", n, got, want)
		}
	}
}

// TestSumsIn16 holds the sums in 16 bits to what the protocol promises of their distance from the exact sum and the exact mean, and the quick sum of float32 to the
// one in integers and fractions of any size.
func TestSumsIn16(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	for round := range 400 {
		f := []Format{Float32, Float16, BFloat16}[round%3]
		workers, n := 1+rng.IntN(64), 1+rng.IntN(10)
		contributions, narrow := make([][]float64, workers), make([][]float32, workers)
		largest := 0.0
		for rank := range contributions {
			for range n {
				x := f.any(rng)
				if rng.IntN(4) == 0 { // around the edge of what is rounded up to a power of two
					x = f.Round(new(big.Rat).SetFloat64(1 - math.Ldexp(1, -rng.IntN(f.Digits+1))))
				}
				contributions[rank], narrow[rank] = append(contributions[rank], x), append(narrow[rank], float32(x))
				largest = max(largest, math.Abs(x))
			}
		}
		elements := (n + 1) / 2
		sum, err := f.SumIn16(contributions, elements, false)
		if err != nil {
			t.Fatal(err)
		}
		mean, err := f.SumIn16(contributions, elements, true)
		if err != nil {
			t.Fatal(err)
		}
		if f == Float32 {
			want, err := SumFloat32In16(narrow, elements)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if float64(want[i]) != sum[i] {
					t.Fatalf("%d workers, element %d: %v by format, %v otherwise", workers, i, sum[i], want[i])
				}
			}
		}
		// |error| <= n * 2^(e-k-1), where 2^e is above the largest element, and at most twice as large unless that is nearer to 2^e than half a step.
		k := FractionBits16(workers)
		e := f.Floor
		for largest >= math.Ldexp(1, e)-math.Ldexp(1, e-k-1) {
			e++
		}
		for i := range n {
			exact := new(big.Rat)
			for rank := range contributions {
				exact.Add(exact, new(big.Rat).SetFloat64(contributions[rank][i]))
			}
			bound := new(big.Rat)
			if largest > 0 {
				bound.Mul(big.NewRat(int64(workers), 1), powerOfTwo(e-k-1))
			}
			f.within(t, "sum in 16 bits", sum[i], exact, bound)
			ranks := big.NewRat(int64(workers), 1)
			f.within(t, "mean in 16 bits", mean[i], exact.Quo(exact, ranks), bound.Quo(bound, ranks))
		}
	}
	doubles := [][]float64{{1, 2, 3}, {0x1p-25, 5, 7}}
	in16, err := Float64.SumIn16(doubles, 2, false)
	if err != nil {
		t.Fatal(err)
	}
	if in32, err := Float64.Sum(doubles, 2, false); err != nil || !slices.Equal(in16, in32) {
		t.Errorf("float64 in 16 bits: %v, and in 32 %v (%v)", in16, in32, err)
	}
}

func TestSumsIn16Refuse(t *testing.T) {
	if _, err := SumFloat32In16(nil, 32); err == nil {
		t.Error("no ranks have a sum")
	}
	if _, err := SumFloat32In16([][]float32{{1}}, 0); err == nil {
		t.Error("chunks of no elements have a sum")
	}
	if _, err := SumFloat32In16([][]float32{{1}, {float32(math.NaN())}}, 32); err == nil {
		t.Error("a NaN has a sum")
	}
	if _, err := BFloat16.SumIn16([][]float64{{math.Inf(1)}}, 32, false); err == nil {
		t.Error("an infinity has a sum")
	}
}
