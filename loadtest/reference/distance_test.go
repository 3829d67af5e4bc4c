package reference

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// TestDistance holds what docs/pytorch.md says of the average of a chunk by block fixed point beside one by additions of float32, as gloo makes it: before the last
// rounding its distance from the exact average, in the 2-norm, is at most √E·2^−k of the largest number; that of additions may be Σ|g|·2^−24, which is 2^−24 of that number at
// least. Up to eight ranks with chunks of 256 the first is not above the second.
func TestDistance(t *testing.T) {
	const elements = 256
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	for round := range 30 {
		ranks := 2 + rng.IntN(7)
		largest, contributions := 0.0, make([][]float64, ranks)
		for rank := range contributions {
			for range elements {
				g := float64(float32(math.Ldexp(rng.NormFloat64(), -rng.IntN(1+2*round))))
				contributions[rank] = append(contributions[rank], g)
				largest = max(largest, math.Abs(g))
			}
		}
		ours, err := Float32.Sum(contributions, elements, true)
		if err != nil {
			t.Fatal(err)
		}
		var oursSquared, theirsSquared, averageSquared, additionsSquared float64
		for i := range elements {
			exact, magnitudes, added := new(big.Rat), 0.0, float32(0)
			for rank := range contributions {
				g := contributions[rank][i]
				exact.Add(exact, new(big.Rat).SetFloat64(g))
				magnitudes += math.Abs(g)
				added += float32(g)
			}
			exact.Quo(exact, new(big.Rat).SetInt64(int64(ranks)))
			average, _ := exact.Float64()
			oursSquared += square(distance(ours[i], exact))
			theirsSquared += square(distance(float64(added/float32(ranks)), exact))
			averageSquared += square(average)
			additionsSquared += square(math.Ldexp(magnitudes, -24))
		}
		const second = 1 + 1e-6 // products of roundings
		fixed := math.Sqrt(elements) * math.Ldexp(largest, -Float32.FractionBits(ranks))
		if most := (fixed + math.Ldexp(math.Sqrt(averageSquared), -24)) * second; math.Sqrt(oursSquared) > most {
			t.Errorf("%d ranks: block fixed point is off by %g, at most %g", ranks, math.Sqrt(oursSquared), most)
		}
		if most := math.Sqrt(additionsSquared) * second; math.Sqrt(theirsSquared) > most {
			t.Errorf("%d ranks: additions are off by %g, at most %g", ranks, math.Sqrt(theirsSquared), most)
		}
		if additions := math.Sqrt(additionsSquared); fixed > additions {
			t.Errorf("%d ranks: the bound of block fixed point is %g, that of additions %g", ranks, fixed, additions)
		}
	}
}

func square(x float64) float64 { return x * x }

// distance of a number from an exact one.
func distance(x float64, exact *big.Rat) float64 {
	d, _ := new(big.Rat).Sub(new(big.Rat).SetFloat64(x), exact).Float64()
	return d
}
