package sim

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"

	"spillway/loadtest/reference"
	"spillway/wire"
	"spillway/worker/engine"
	"spillway/worker/fixedpoint"
)

// Floats is a collective of any format of floats, its numbers as float64, which hold them all.
type Floats struct {
	Format  reference.Format
	Average bool
	Values  [][]float64 // by rank
}

// drawFloats draws a format and makes numbers of it from those drawn.
func drawFloats(r *rand.Rand, op wire.Op, drawn [][]float32) *Floats {
	formats := []reference.Format{reference.Float32, reference.Float16, reference.BFloat16, reference.Float64}
	if op != wire.Sum {
		formats = formats[:3]
	}
	f := &Floats{Format: formats[r.IntN(len(formats))], Average: op == wire.Sum && r.IntN(2) == 0}
	for _, x := range drawn {
		values := make([]float64, len(x))
		for i, v := range x {
			values[i] = f.Format.Round(new(big.Rat).SetFloat64(float64(v)))
			if op == wire.Sum && math.IsInf(values[i], 0) { // too large for a Float16
				values[i] = 1
			} else if op != wire.Sum && r.IntN(100) == 0 {
				values[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}[r.IntN(4)]
			}
		}
		f.Values = append(f.Values, values)
	}
	return f
}

// of is the collective as one rank issues it.
func (f *Floats) of(rank int, op wire.Op) *engine.Collective {
	c := &engine.Collective{Op: op, Average: f.Average}
	for _, v := range f.Values[rank] {
		switch f.Format {
		case reference.Float32:
			c.F32 = append(c.F32, float32(v))
		case reference.Float16:
			c.F16 = append(c.F16, fixedpoint.ToFloat16(v))
		case reference.BFloat16:
			c.BF16 = append(c.BF16, fixedpoint.ToBFloat16(v))
		case reference.Float64:
			c.F64 = append(c.F64, v)
		}
	}
	return c
}

// want is what every rank must get.
func (f *Floats) want(op wire.Op, job *Job) ([]float64, error) {
	switch {
	case op == wire.Sum && job.WireBits == 16:
		return f.Format.SumIn16(f.Values, job.Elements, f.Average)
	case op == wire.Sum:
		return f.Format.Sum(f.Values, job.Elements, f.Average)
	}
	want := append([]float64(nil), f.Values[0]...)
	for _, x := range f.Values[1:] {
		for i, v := range x { // Max and Min of math give NaN for NaN, except beside an infinity, and -0 is below 0
			switch {
			case math.IsNaN(v) || math.IsNaN(want[i]):
				want[i] = math.NaN()
			case op == wire.Max:
				want[i] = math.Max(want[i], v)
			default:
				want[i] = math.Min(want[i], v)
			}
		}
	}
	return want, nil
}

// check compares a result with what was wanted, bit for bit.
func (f *Floats) check(got *engine.Collective, want []float64) error {
	for i, w := range want {
		var v float64
		switch f.Format {
		case reference.Float32:
			v = float64(got.F32[i])
		case reference.Float16:
			v = float64(got.F16[i].Float32())
		case reference.BFloat16:
			v = float64(got.BF16[i].Float32())
		case reference.Float64:
			v = got.F64[i]
		}
		if math.Float64bits(v) != math.Float64bits(w) && !(math.IsNaN(v) && math.IsNaN(w)) {
			return fmt.Errorf("element %d of %s: got %v, want %v", i, f.Format.Name, v, w)
		}
	}
	return nil
}
