package reference

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// any draws a finite number of the format: mostly near 1, then of any exponent, zeros, and the largest.
func (f Format) any(rng *rand.Rand) float64 {
	v := rng.NormFloat64()
	switch rng.IntN(8) {
	case 0:
		v = math.Ldexp(v, rng.IntN(f.Most-f.Least+f.Digits)+f.Least-f.Digits)
	case 1:
		v = 0
	case 2:
		v = math.Ldexp(math.Copysign(1-math.Ldexp(1, -f.Digits), v), f.Most)
	case 3:
		v = math.Ldexp(v, -rng.IntN(40))
	}
	if v = f.Round(new(big.Rat).SetFloat64(v)); math.IsInf(v, 0) {
		return 1
	}
	return v
}

// TestFormatSum holds the sums of float32 by Format to those of SumFloat32, and the sums of all formats to what the protocol promises of
// their distance from the exact sum and the exact mean.
func TestFormatSum(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	for round := range 400 {
		f := []Format{Float32, Float64, Float16, BFloat16}[round%4]
		workers, n := 1+rng.IntN(64), 1+rng.IntN(10)
		contributions := make([][]float64, workers)
		narrow := make([][]float32, workers)
		var all []float64
		for rank := range contributions {
			for range n {
				x := f.any(rng)
				contributions[rank] = append(contributions[rank], x)
				narrow[rank] = append(narrow[rank], float32(x))
			}
			all = append(all, contributions[rank]...)
		}
		sum, err := f.Sum(contributions, n, false)
		if err != nil {
			t.Fatal(err)
		}
		mean, err := f.Sum(contributions, n, true)
		if err != nil {
			t.Fatal(err)
		}
		if f == Float32 {
			want, err := SumFloat32(narrow, n)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if float64(want[i]) != sum[i] {
					t.Fatalf("%d workers, element %d: %v by format, %v otherwise", workers, i, sum[i], want[i])
				}
			}
		}
		e, err := f.Exponent(all)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			exact := new(big.Rat)
			for rank := range contributions {
				exact.Add(exact, new(big.Rat).SetFloat64(contributions[rank][i]))
			}
			bound := new(big.Rat)
			if e != zeroExponent {
				bound.Mul(big.NewRat(int64(workers), 1), powerOfTwo(e-f.FractionBits(workers)-1))
			}
			f.within(t, "sum", sum[i], exact, bound)
			ranks := big.NewRat(int64(workers), 1)
			f.within(t, "mean", mean[i], exact.Quo(exact, ranks), bound.Quo(bound, ranks))
		}
	}
}

// within fails unless got is a value rounded to the format that is at most bound from the exact one.
func (f Format) within(t *testing.T, what string, got float64, exact, bound *big.Rat) {
	t.Helper()
	// Rounding keeps the order, so the value is between these if and only if got is between what they are rounded to.
	least, most := f.Round(new(big.Rat).Sub(exact, bound)), f.Round(new(big.Rat).Add(exact, bound))
	if got < least || got > most {
		t.Fatalf("%s %s: %v is not in [%v, %v]", f.Name, what, got, least, most)
	}
}

func TestFormatRound(t *testing.T) {
	for _, c := range []struct {
		f        Format
		in, want float64
	}{
		{Float16, 65519, 65504}, {Float16, 65520, math.Inf(1)}, {Float16, -65520, math.Inf(-1)}, {Float16, 0x1p-25, 0}, {Float16, 0x1.8p-24, 0x1p-23},
		{Float16, 1 + 0x1p-11, 1}, {Float16, 1 + 0x3p-11, 1 + 0x1p-9}, {Float16, -2049, -2048},
		{BFloat16, 257, 256}, {BFloat16, 259, 260}, {BFloat16, 0x1.ffp127, math.Inf(1)}, {BFloat16, 0x1p-134, 0}, {BFloat16, 0x1.8p-133, 0x1p-132},
		{Float32, 1 + 0x1p-24, 1}, {Float32, math.MaxFloat64, math.Inf(1)}, {Float64, math.MaxFloat64, math.MaxFloat64}, {Float64, 5e-324, 5e-324},
	} {
		if got := c.f.Round(new(big.Rat).SetFloat64(c.in)); got != c.want {
			t.Errorf("%s: %v is rounded to %v, want %v", c.f.Name, c.in, got, c.want)
		}
	}
	if _, err := Float16.Sum([][]float64{{math.NaN()}}, 32, false); !errors.Is(err, ErrNotFinite) {
		t.Errorf("a NaN gives %v", err)
	}
}
