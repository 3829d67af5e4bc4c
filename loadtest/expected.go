package main

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"spillway/loadtest/reference"
	"spillway/wire"
)

// blockChunks is how many chunks are summed at a time: all ranks' contributions
// to a block are in memory at once, 64 kB each at E = 256.
const blockChunks = 64

// expect computes the sum of an iteration with the reference, from all workers' patterns,
// on all cores.
func expect(ctx context.Context, t *task, iteration int, sum *sharedTensor, progress *Progress) error {
	n := t.tensorElements()
	block := blockChunks * t.options.elements
	progress.Step("computing what the sum of job "+t.name+" must be", (n+block-1)/block)
	work, working := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for from := 0; from < n; from += block {
		if working.Err() != nil {
			break
		}
		work.Go(func() error {
			defer progress.Advance(1)
			return expectBlock(t, iteration, sum, from, min(from+block, n))
		})
	}
	if err := work.Wait(); err != nil {
		return fmt.Errorf("expected sum: %w", err)
	}
	return context.Cause(ctx)
}

// What an element of a sum of float32 takes of a packet.
const (
	wireBits16 = 16
	wireBits32 = 32
)

// expectBlock computes the elements [from, to); from is the start of a chunk, which has at most twice as many elements as a packet.
func expectBlock(t *task, iteration int, sum *sharedTensor, from, to int) error {
	if t.options.dtype == typeInt32 {
		contributions := contribute(t, to-from, func(p pattern, to []int32) { p.fillInt32(to, from, iteration) })
		result, saturated, err := reference.ReduceInt32(contributions, wire.Sum)
		if err != nil {
			return err
		}
		if saturated {
			return fmt.Errorf("elements %d to %d of the pattern saturate", from, to)
		}
		copy(sum.int32s()[from:to], result)
		return nil
	}
	contributions := contribute(t, to-from, func(p pattern, to []float32) { p.fillFloat32(to, from, iteration) })
	sumOf := reference.SumFloat32
	if t.options.wireBits == wireBits16 {
		sumOf = reference.SumFloat32In16
	}
	result, err := sumOf(contributions, t.options.elements)
	if err != nil {
		return err
	}
	copy(sum.float32s()[from:to], result)
	return nil
}

// contribute makes all workers' contributions of n elements.
func contribute[T any](t *task, n int, fill func(pattern, []T)) [][]T {
	all := make([][]T, t.workers())
	for rank := range all {
		all[rank] = make([]T, n)
		fill(t.pattern(rank), all[rank])
	}
	return all
}
