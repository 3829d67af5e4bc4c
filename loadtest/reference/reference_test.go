package reference

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"spillway/wire"
)

// bigSum is section 5 in exact rational arithmetic, one chunk at a time.
func bigSum(contributions [][]float32) []float32 {
	exponent := -1000
	for _, c := range contributions {
		for _, x := range c {
			if x == 0 {
				continue
			}
			v := new(big.Rat).Abs(new(big.Rat).SetFloat64(float64(x)))
			e := -126
			for v.Cmp(power(e)) >= 0 {
				e++
			}
			exponent = max(exponent, e)
		}
	}
	sum := make([]float32, len(contributions[0]))
	if exponent == -1000 {
		return sum
	}
	k := 31
	for 1<<(31-k) < len(contributions) {
		k--
	}
	if len(contributions) > 128 {
		k--
	}
	for i := range sum {
		total := new(big.Int)
		for _, c := range contributions {
			q := new(big.Rat).Mul(new(big.Rat).SetFloat64(float64(c[i])), power(k-exponent))
			total.Add(total, roundToEven(q))
		}
		f, _ := new(big.Rat).Mul(new(big.Rat).SetInt(total), power(exponent-k)).Float32()
		sum[i] = f
	}
	return sum
}

// power is 2^e, exactly.
func power(e int) *big.Rat {
	if e < 0 {
		return new(big.Rat).Inv(power(-e))
	}
	return new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(e)))
}

// roundToEven rounds to the nearest integer, ties to even.
func roundToEven(q *big.Rat) *big.Int {
	floor, rest := new(big.Int).DivMod(q.Num(), q.Denom(), new(big.Int))
	switch twice := new(big.Int).Lsh(rest, 1); twice.Cmp(q.Denom()) {
	case 1:
		floor.Add(floor, big.NewInt(1))
	case 0:
		if floor.Bit(0) == 1 {
			floor.Add(floor, big.NewInt(1))
		}
	}
	return floor
}

func TestSumFloat32AgainstBigNumbers(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range 150 {
		workers, n := 1+rng.IntN(9), 1+rng.IntN(40)
		if round%50 == 0 {
			workers = 129 + rng.IntN(100)
		}
		contributions := make([][]float32, workers)
		for rank := range contributions {
			contributions[rank] = make([]float32, n)
			for i := range contributions[rank] {
				contributions[rank][i] = anyFloat(rng)
			}
		}
		want := bigSum(contributions)
		got, err := SumFloat32(contributions, n)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("round %d, %d workers, element %d: got %v (%#x), want %v (%#x)", round, workers, i,
					got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
			}
		}
	}
}

// anyFloat draws every kind of finite float32: any bits, near 1, halves of the
// last place, subnormals, zeros and the largest ones.
func anyFloat(rng *rand.Rand) float32 {
	switch rng.IntN(6) {
	case 0:
		x := math.Float32frombits(rng.Uint32())
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return 0
		}
		return x
	case 1:
		return float32(math.Ldexp(float64(rng.Int32N(1<<24)), -rng.IntN(60)))
	case 2:
		return math.Float32frombits(rng.Uint32() & 0x807fffff)
	case 3:
		return float32(math.Copysign(0, float64(rng.IntN(2))-1))
	case 4:
		return math.MaxFloat32
	}
	return float32(rng.NormFloat64())
}

func TestSumFloat32Chunks(t *testing.T) {
	// The large first element costs its own chunk the small one's bits, and no other chunk's.
	a := []float32{1 << 20, 0x1p-20, 0x1p-20}
	sum, err := SumFloat32([][]float32{a, a}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if want := [3]float32{1 << 21, 0, 0x1p-19}; [3]float32(sum) != want {
		t.Errorf("got %v, want %v", sum, want)
	}
}

func TestSumFloat32Refuses(t *testing.T) {
	for name, c := range map[string]struct {
		contributions [][]float32
		elements      int
		want          error
	}{
		"no ranks":   {nil, 32, ErrShape},
		"lengths":    {[][]float32{{1}, {1, 2}}, 32, ErrShape},
		"chunk size": {[][]float32{{1}}, 0, ErrShape},
		"NaN":        {[][]float32{{1}, {float32(math.NaN())}}, 32, ErrNotFinite},
		"infinity":   {[][]float32{{float32(math.Inf(-1))}, {1}}, 32, ErrNotFinite},
	} {
		if _, err := SumFloat32(c.contributions, c.elements); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestFractionBits(t *testing.T) {
	for n, want := range map[int]int{1: 31, 2: 30, 3: 29, 4: 29, 5: 28, 64: 25, 128: 24, 129: 22, 256: 22} {
		if got := FractionBits(n); got != want {
			t.Errorf("FractionBits(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestReduceInt32(t *testing.T) {
	in := [][]int32{{math.MaxInt32, -5, 7}, {0, -7, 9}, {-1, 3, math.MinInt32}}
	for _, c := range []struct {
		op   wire.Op
		want [3]int32
	}{
		{wire.Sum, [3]int32{math.MaxInt32 - 1, -9, math.MinInt32 + 16}},
		{wire.Max, [3]int32{math.MaxInt32, 3, 9}},
		{wire.Min, [3]int32{-1, -7, math.MinInt32}},
	} {
		got, saturated, err := ReduceInt32(in, c.op)
		if err != nil || saturated || [3]int32(got) != c.want {
			t.Errorf("%v: got %v, %v, %v, want %v", c.op, got, saturated, err, c.want)
		}
	}
	if _, saturated, err := ReduceInt32([][]int32{{math.MaxInt32}, {1}}, wire.Sum); err != nil || !saturated {
		t.Errorf("overflow: saturated %v, %v", saturated, err)
	}
	if _, _, err := ReduceInt32([][]int32{{1}, {}}, wire.Sum); !errors.Is(err, ErrShape) {
		t.Errorf("lengths: got %v, want %v", err, ErrShape)
	}
	if _, _, err := ReduceInt32([][]int32{{1}}, 9); err == nil {
		t.Error("an unknown operation is accepted")
	}
}
