package engine

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"spillway/wire"
	"spillway/worker/fixedpoint"
)

// TestFusedIsTheWhole: tensors that are fused get the bits that one tensor of all their elements gets, whatever the lengths, types and operations.
func TestFusedIsTheWhole(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	e, m, now := newSingle(t, 64, 128, 32), newMirror(128, 64), int64(1)
	paired := newSingle(t, 64, 128, 16) // where what is fused has 32 bits all the same
	for range 60 {
		lengths := make([]int, 1+random.IntN(9))
		for i := range lengths {
			lengths[i] = 1 + random.IntN(200)
		}
		var whole []float32
		for range lengths {
			for range 200 {
				whole = append(whole, float32(random.NormFloat64()))
			}
		}
		op, average := wire.Op(random.IntN(3)), false
		if op == wire.Sum {
			average = random.IntN(2) == 0
		}
		compare(t, e, paired, m, &now, lengths, whole, func(v float32) float32 { return v }, op, average)
		compare(t, e, paired, m, &now, lengths, whole, func(v float32) int32 { return int32(1000 * v) }, op, false)
		compare(t, e, paired, m, &now, lengths, whole, func(v float32) fixedpoint.BFloat16 { return fixedpoint.ToBFloat16(float64(v)) }, op, average)
		compare(t, e, paired, m, &now, lengths, whole, func(v float32) fixedpoint.Float16 { return fixedpoint.ToFloat16(float64(v)) }, op, average)
		compare(t, e, paired, m, &now, lengths, whole, func(v float32) float64 { return float64(v) }, wire.Sum, average)
	}
}

func compare[T float32 | float64 | fixedpoint.Float16 | fixedpoint.BFloat16 | int32](t *testing.T, e, paired *Engine, m *mirror, now *int64, lengths []int, values []float32, of func(float32) T, op wire.Op, average bool) {
	t.Helper()
	var whole []T
	tensors := make([][]T, len(lengths))
	for i, n := range lengths {
		for range n {
			whole = append(whole, of(values[len(whole)]))
		}
		tensors[i] = slices.Clone(whole[len(whole)-n:])
	}
	f, err := Fuse(tensors)
	if err != nil {
		t.Fatal(err)
	}
	other := make([][]T, len(tensors))
	for i := range other {
		other[i] = slices.Clone(tensors[i])
	}
	m.reduce(t, e, now, &Collective{Fused: f, Op: op, Average: average})
	if f, err = Fuse(other); err != nil {
		t.Fatal(err)
	}
	m.reduce(t, paired, now, &Collective{Fused: f, Op: op, Average: average})
	single, err := Fuse([][]T{whole})
	if err != nil {
		t.Fatal(err)
	}
	plain := &Collective{Op: op, Average: average}
	switch w := any(whole).(type) {
	case []float32:
		plain.F32 = w
	case []float64:
		plain.F64 = w
	case []fixedpoint.Float16:
		plain.F16 = w
	case []fixedpoint.BFloat16:
		plain.BF16 = w
	case []int32:
		plain.I32 = w
	}
	m.reduce(t, e, now, plain)
	if got := slices.Concat(tensors...); !slices.Equal(got, whole) || !slices.Equal(slices.Concat(other...), whole) || single.len() != len(got) {
		t.Fatalf("lengths %v of %T, %s, average %v: the fused result differs", lengths, whole, op, average)
	}
}

func TestFuseRefuses(t *testing.T) {
	for _, tensors := range [][][]float32{nil, {}, {nil}, {{1}, {}}} {
		if _, err := Fuse(tensors); err == nil {
			t.Errorf("%v were fused", tensors)
		}
	}
	f, err := Fuse([][]float32{{1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Collective{Fused: f, F32: []float32{1}}).Validate(); err == nil {
		t.Error("a collective with two buffers is taken")
	}
}

// TestFusedDisagreement: ranks that cut the same number of elements differently, or one of which does not cut at all, are told apart.
func TestFusedDisagreement(t *testing.T) {
	fused := func(lengths ...int) *Collective {
		var tensors [][]float32
		for _, n := range lengths {
			tensors = append(tensors, make([]float32, n))
		}
		f, err := Fuse(tensors)
		if err != nil {
			t.Fatal(err)
		}
		return &Collective{Fused: f}
	}
	for _, c := range []struct {
		name  string
		a, b  *Collective
		agree bool
	}{
		{"the same", fused(10, 20, 30), fused(10, 20, 30), true},
		{"another order", fused(10, 20, 30), fused(10, 30, 20), false},
		{"other cuts", fused(10, 50), fused(50, 10), false},
		{"one is whole", fused(10, 50), &Collective{F32: make([]float32, 60)}, false},
		{"one is fused of one", fused(60), &Collective{F32: make([]float32, 60)}, false},
	} {
		descriptors := make([][]byte, 2)
		for rank, collective := range []*Collective{c.a, c.b} {
			if err := collective.prepare(1<<32, &Config{Elements: 64, Workers: 2, WireBits: 32}); err != nil {
				t.Fatal(err)
			}
			collective.exponents = make([]int32, collective.chunks)
			collective.known = make([]bool, 1)
			descriptors[rank] = make([]byte, descriptorElements*wire.ElementSize)
			collective.contribute(descriptors[rank], &chunk{kind: descriptorChunk})
		}
		reduced := make([]byte, len(descriptors[0]))
		for i := range descriptorElements {
			putLane(reduced, i, max(lane(descriptors[0], i), lane(descriptors[1], i)))
		}
		for rank, collective := range []*Collective{c.a, c.b} {
			if err := collective.readDescriptor(reduced, 2, true); err != nil {
				t.Fatalf("%s, rank %d: %v", c.name, rank, err)
			}
			if agrees := collective.disagreement == nil; agrees != c.agree || !agrees && !collective.disagreement.Layout {
				t.Errorf("%s, rank %d: disagreement %v", c.name, rank, collective.disagreement)
			}
		}
		if !c.agree {
			if err := c.a.readDescriptor(descriptors[1], 2, true); !errors.Is(err, ErrInconsistent) {
				t.Errorf("%s: a descriptor without this rank's layout: %v", c.name, err)
			}
		}
	}
}
