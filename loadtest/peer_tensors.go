package main

import (
	"context"
	"errors"
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// peerTensors is what all peers of Spillway all-reduce, and what must come of it: memory of this process that theirs look at.
//
// A peer sums in float32 in an order of its own. Whatever that is, its result differs from the exact sum of n values by at most (n-1)·u·Σ|x| to first order, u
// = 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 4.2). The sum here is computed in float64, whose own error is 2^29 times less.
type peerTensors struct {
	inputs     []*sharedTensor // by rank, as iteration 0 has them
	sum, bound *sharedTensor   // float64
}

// unitRoundoff is that of float32, with room for the terms of higher order and the float64 sum's own error.
const unitRoundoff = 1.001 / (1 << 24)

// newPeerTensors makes those of a task.
func newPeerTensors(ctx context.Context, t *task, progress *Progress) (p *peerTensors, err error) {
	p = &peerTensors{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	n := t.tensorElements()
	for range t.workers() {
		input, err := newSharedTensor(n)
		if err != nil {
			return nil, err
		}
		p.inputs = append(p.inputs, input)
	}
	if p.sum, err = newSharedTensor(2 * n); err != nil {
		return nil, err
	}
	if p.bound, err = newSharedTensor(2 * n); err != nil {
		return nil, err
	}
	const block = 1 << 14
	progress.Step("computing what the peers' sum must be", (n+block-1)/block)
	work, working := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for from := 0; from < n && working.Err() == nil; from += block {
		work.Go(func() error {
			defer progress.Advance(1)
			p.fill(t, from, min(from+block, n))
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	return p, context.Cause(ctx)
}

// fill computes the elements [from, to).
func (p *peerTensors) fill(t *task, from, to int) {
	sum, bound := p.sum.float64s()[from:to], p.bound.float64s()[from:to]
	for rank, input := range p.inputs {
		values := input.float32s()[from:to]
		t.pattern(rank).fillFloat32(values, from, 0)
		for i, value := range values {
			sum[i] += float64(value)
			bound[i] += math.Abs(float64(value))
		}
	}
	for i := range bound {
		bound[i] *= float64(len(p.inputs)-1) * unitRoundoff
	}
}

// order is what tells a rank of a peer about them.
func (p *peerTensors) order(t *task, rank int) order {
	return order{Do: orderLoad, Elements: t.tensorElements(), Batch: t.batch(), Input: p.inputs[rank].path(), Sum: p.sum.path(), Bound: p.bound.path()}
}

// close unmaps them.
func (p *peerTensors) close() error {
	var all []error
	for _, t := range append(p.inputs, p.sum, p.bound) {
		if t != nil {
			all = append(all, t.close())
		}
	}
	return errors.Join(all...)
}

// wrongPeer returns the index of the first element of a peer's result that is further from the exact sum than the bound, given sum and bound at iteration 0; -1 if none is.
func wrongPeer(result []float32, sum, bound []float64, iteration int) int {
	scale := math.Ldexp(1, -(iteration % variants))
	for i, value := range result {
		if !(math.Abs(float64(value)*scale-sum[i]) <= bound[i]) { // not a number is wrong as well
			return i
		}
	}
	return -1
}
