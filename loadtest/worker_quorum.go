package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"time"

	"spillway/loadtest/reference"
	"spillway/wire"
	"spillway/worker"
)

// pause is how long this worker is to pause before an iteration.
func (w *participant) pause(iteration int) time.Duration {
	if chance := w.setup.Chance; chance > 0 && float64(w.pattern.random(1<<62|uint64(iteration))>>11)/(1<<53) >= chance {
		return 0
	}
	return w.setup.Pause
}

// allReduceQuorum is allReduce, and remembers who is in the result.
func (w *participant) allReduceQuorum(ctx context.Context, i int) (err error) {
	if i == 0 {
		w.outcomes = make([]worker.Outcome, w.count)
	}
	if w.floats != nil {
		w.outcomes[i], err = w.worker.AllReduceWith(ctx, w.floats[i])
	} else {
		w.outcomes[i], err = w.worker.AllReduceInt32With(ctx, w.ints[i], wire.Sum)
	}
	return err
}

// checkQuorum compares the results with the sums of those who are in them, and says what they are for a comparison with the others'.
func (w *participant) checkQuorum() (answer, error) {
	var a answer
	for i := range w.count {
		at, err := -1, error(nil)
		digest := sha256.New()
		for _, span := range w.outcomes[i].Spans {
			if err := binary.Write(digest, binary.BigEndian, []uint64{uint64(span.First), uint64(span.Last), span.Contributors}); err != nil {
				return a, err
			}
		}
		if w.floats != nil {
			at = w.wrongFloats(i)
			err = binary.Write(digest, binary.LittleEndian, w.floats[i])
		} else {
			at = w.wrongInts(i)
			err = binary.Write(digest, binary.LittleEndian, w.ints[i])
		}
		if err != nil {
			return a, err
		}
		if at >= 0 {
			a.Wrong = append(a.Wrong, wrong{Rank: w.pattern.rank, Iteration: w.first + i, Element: at})
		}
		a.Digests = append(a.Digests, hex.EncodeToString(digest.Sum(nil)))
		a.Missed = append(a.Missed, w.outcomes[i].Missed)
		a.Partial = append(a.Partial, w.outcomes[i].Partial)
	}
	return a, nil
}

// of is the pattern of another rank.
func (p pattern) of(rank int) pattern {
	p.rank = rank
	return p
}

// blocks calls check with runs of at most 64 Ki elements that the same ranks are in, until it finds something wrong, whose place it returns; -1: nothing.
func (w *participant) blocks(i int, check func(first, last int, ranks []pattern) int) int {
	const most = 1 << 16
	for _, span := range w.outcomes[i].Spans {
		var ranks []pattern
		for rank := range w.pattern.workers {
			if span.Contributors>>rank&1 != 0 {
				ranks = append(ranks, w.pattern.of(rank))
			}
		}
		for first := span.First; first < span.Last; first += most {
			if at := check(first, min(first+most, span.Last), ranks); at >= 0 {
				return at
			}
		}
	}
	return -1
}

func (w *participant) wrongInts(i int) int {
	return w.blocks(i, func(first, last int, ranks []pattern) int {
		sum, one := make([]int32, last-first), make([]int32, last-first)
		for _, p := range ranks {
			p.fillInt32(one, first, w.first+i)
			for at := range sum {
				sum[at] += one[at]
			}
		}
		for at, want := range sum {
			if w.ints[i][first+at] != want {
				return first + at
			}
		}
		return -1
	})
}

// wrongFloats allows for the quantisation: the exponent of a chunk can be that of a rank which is not in its sum, and each of n contributions is rounded by
// half of 2^(e-k) (docs/protocol.md, section 5).
func (w *participant) wrongFloats(i int) int {
	n := w.pattern.workers
	fraction := reference.FractionBits(n)
	if w.worker.Params().WireBits == wireBits16 {
		fraction = reference.FractionBits16(n)
	}
	largest := math.Ldexp(1, 24+15-32+(w.first+i)%variants+1) // above all that fillFloat32 makes
	bound := float64(n) * largest * math.Ldexp(1, -fraction)
	return w.blocks(i, func(first, last int, ranks []pattern) int {
		sum, one := make([]float64, last-first), make([]float32, last-first)
		for _, p := range ranks {
			p.fillFloat32(one, first, w.first+i)
			for at := range sum {
				sum[at] += float64(one[at])
			}
		}
		for at, want := range sum {
			if math.Abs(float64(w.floats[i][first+at])-want) > bound+math.Abs(want)/(1<<23) { // and rounded to float32
				return first + at
			}
		}
		return -1
	})
}
