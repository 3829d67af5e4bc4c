package chaos

import (
	"fmt"
	"math"

	"spillway/loadtest/reference"
	"spillway/worker"
)

// variants is after how many steps the tensors come again: neighbours must differ, so that the result of another step is noticed.
const variants = 4

// A pattern is what workers sum: a function of the seed, the rank, the step and the element, which every worker can compute for all.
type pattern struct {
	Seed    uint64 `json:"seed"`
	Workers int    `json:"workers"`
	// Length of the tensor, and E of the job, in elements.
	Length   int `json:"length"`
	Elements int `json:"elements"`
}

// fill writes a rank's contribution to a step: ±(0 … 2^24) · 2^-32 … 2^-17, where neighbours of a run of 16 elements have the power in common.
func (p *pattern) fill(to []float32, rank, step int) {
	var scale float32
	stream := p.Seed ^ uint64(rank+1)*0xd1342543de82ef95 ^ uint64(step%variants+1)<<56
	for i := range to {
		if i%16 == 0 {
			scale = float32(math.Ldexp(1, int(random(stream, 1<<62|uint64(i))&15)-32))
		}
		to[i] = float32(int32(random(stream, uint64(i))>>39)-1<<24) * scale
	}
}

// random is splitmix64 (Steele et al., OOPSLA 2014) at a position of a stream.
func random(stream, position uint64) uint64 {
	z := stream + (position+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// sums are what the steps must give, by variant, as package reference computes it.
func (p *pattern) sums() ([][]float32, error) {
	all := make([][]float32, variants)
	contributions := make([][]float32, p.Workers)
	for rank := range contributions {
		contributions[rank] = make([]float32, p.Length)
	}
	for step := range all {
		for rank, to := range contributions {
			p.fill(to, rank, step)
		}
		sum, err := reference.SumFloat32(contributions, p.Elements)
		if err != nil {
			return nil, fmt.Errorf("the sum of step %d: %w", step, err)
		}
		all[step] = sum
	}
	return all, nil
}

// differs is the first element that does not have the bits that it must have; -1 if all have.
func differs(got, want []float32) int {
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			return i
		}
	}
	return -1
}

// integers are all ranks' contributions in int32, by variant and rank: so small that no sum of 64 saturates.
func (p *pattern) integers() [][][]int32 {
	all := make([][][]int32, variants)
	for step := range all {
		all[step] = make([][]int32, p.Workers)
		for rank := range all[step] {
			stream := p.Seed ^ uint64(rank+1)*0xd1342543de82ef95 ^ uint64(step+1)<<56
			to := make([]int32, p.Length)
			for i := range to {
				to[i] = int32(random(stream, uint64(i))>>40) - 1<<23
			}
			all[step][rank] = to
		}
	}
	return all
}

// wrongPart is the first element of a result that is not the sum of the ranks in it, or of what was missed of this rank that is not its own; -1: none.
func wrongPart(got, residual []int32, contributions [][]int32, own int, spans []worker.Span) int {
	at := 0
	for _, span := range spans {
		if span.First != at {
			return at
		}
		for ; at < span.Last; at++ {
			var sum, missed int32
			for rank, c := range contributions {
				if span.Contributors&(1<<rank) != 0 {
					sum += c[at]
				}
			}
			if span.Contributors&(1<<own) == 0 {
				missed = contributions[own][at]
			}
			if got[at] != sum || residual[at] != missed {
				return at
			}
		}
	}
	if at != len(got) {
		return at
	}
	return -1
}
