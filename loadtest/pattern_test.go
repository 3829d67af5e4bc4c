package main

import (
	"context"
	"io"
	"math"
	"slices"
	"testing"
)

func TestPatternIsTheSameFromAnyStart(t *testing.T) {
	p := pattern{seed: 7, rank: 3, workers: 4}
	floats, ints := make([]float32, 1000), make([]int32, 1000)
	p.fillFloat32(floats, 0, 5)
	p.fillInt32(ints, 0, 5)
	for _, from := range []int{1, 15, 16, 17, 500} {
		f, i := make([]float32, 100), make([]int32, 100)
		p.fillFloat32(f, from, 5)
		p.fillInt32(i, from, 5)
		if !slices.Equal(f, floats[from:from+100]) || !slices.Equal(i, ints[from:from+100]) {
			t.Errorf("elements from %d on differ", from)
		}
	}
}

func TestPatternDiffers(t *testing.T) {
	one := make([]float32, 64)
	pattern{seed: 1, rank: 0}.fillFloat32(one, 0, 0)
	for name, other := range map[string]pattern{"rank": {seed: 1, rank: 1}, "seed": {seed: 2, rank: 0}} {
		two := make([]float32, 64)
		other.fillFloat32(two, 0, 0)
		if slices.Equal(one, two) {
			t.Errorf("another %s gives the same", name)
		}
	}
}

// The expected sum of iteration 0 must tell those of all iterations, and tell them apart.
func TestExpectedSums(t *testing.T) {
	for _, dtype := range []string{typeFloat32, typeInt32} {
		for _, workers := range []int{1, 3, 64} {
			o := &(&runOptions{workers: workers, size: 4 * 5000, elements: 64, dtype: dtype, seed: 9}).tasks()[0]
			sum := expected(t, o, 0)
			for _, iteration := range []int{0, 1, 7, 8, 12} {
				result := expected(t, o, iteration)
				for compared := range variants {
					var wrong int
					if dtype == typeInt32 {
						wrong = o.pattern(0).wrongInt32(result.int32s(), sum.int32s(), compared)
					} else {
						wrong = wrongFloat32(result.float32s(), sum.float32s(), compared)
					}
					if (wrong < 0) != (compared == iteration%variants) {
						t.Errorf("%s, %d workers: iteration %d compared as %d: element %d is wrong", dtype, workers, iteration, compared, wrong)
					}
				}
				bit := result.int32s()
				bit[4321] ^= 1
				if at := wrongFloat32(result.float32s(), sum.float32s(), iteration); dtype == typeFloat32 && at != 4321 {
					t.Errorf("a wrong bit in element 4321 is found at %d", at)
				}
				if at := o.pattern(0).wrongInt32(bit, sum.int32s(), iteration); dtype == typeInt32 && at != 4321 {
					t.Errorf("a wrong bit in element 4321 is found at %d", at)
				}
			}
		}
	}
}

// expected is the reference's sum of the patterns of an iteration.
func expected(t *testing.T, o *task, iteration int) *sharedTensor {
	t.Helper()
	sum, err := newSharedTensor(o.tensorElements())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sum.close(); err != nil {
			t.Error(err)
		}
	})
	progress := newProgress(io.Discard)
	defer progress.Close()
	if err := expect(context.Background(), o, iteration, sum, progress); err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestPatternMagnitudes(t *testing.T) {
	values := make([]float32, 1<<14)
	pattern{seed: 3, workers: 1}.fillFloat32(values, 0, variants-1)
	zeros, least, most := 0, math.Inf(1), 0.0
	for _, v := range values {
		if v == 0 {
			zeros++
			continue
		}
		least, most = min(least, math.Abs(float64(v))), max(most, math.Abs(float64(v)))
	}
	if zeros < len(values)/32 || zeros > len(values)/8 {
		t.Errorf("%d of %d are zeros", zeros, len(values))
	}
	if least < 0x1p-40 || most > 0x1p20 || most/least < 1e5 {
		t.Errorf("magnitudes from %g to %g", least, most)
	}
}
