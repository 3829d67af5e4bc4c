package worker

import (
	"context"
	"encoding/binary"
	"fmt"

	"spillway/wire"
	"spillway/worker/engine"
)

// MostBytes is how much Broadcast moves at most, and AllGather from all ranks together. They are for what is small: each byte costs two on every link, and four in memory.
const MostBytes = 1 << 26

// Barrier returns when all ranks have called it. It is a collective like the others, and keeps their order.
func (w *Worker) Barrier(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h, err := w.BarrierAsync()
	if err != nil {
		return err
	}
	return h.Wait(ctx)
}

// BarrierAsync is to Barrier what AllReduceAsync is to AllReduce.
func (w *Worker) BarrierAsync() (*Handle, error) {
	return w.gather("barrier", []int32{0}, nil)
}

// Broadcast replaces data at all ranks by that of one, which is the same at all of them, as is the length.
func (w *Worker) Broadcast(ctx context.Context, data []byte, root int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h, err := w.BroadcastAsync(data, root)
	if err != nil {
		return err
	}
	return h.Wait(ctx)
}

// BroadcastAsync is to Broadcast what AllReduceAsync is to AllReduce.
func (w *Worker) BroadcastAsync(data []byte, root int) (*Handle, error) {
	p := w.Params()
	switch {
	case root < 0 || root >= p.Workers:
		return nil, fmt.Errorf("broadcast: rank %d is none of the job's %d", root, p.Workers)
	case len(data) > MostBytes:
		return nil, fmt.Errorf("broadcast: %d bytes are more than %d: all-reduce a tensor that is zeros at the other ranks instead", len(data), MostBytes)
	}
	lanes := make([]int32, lanesOf(len(data)))
	if p.Rank == root {
		pack(lanes, data)
	}
	return w.gather("broadcast", lanes, func() { unpack(data, lanes) })
}

// AllGather puts what each rank has in own into all, rank by rank. own has the same length at all ranks, and all that times their number.
func (w *Worker) AllGather(ctx context.Context, own, all []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h, err := w.AllGatherAsync(own, all)
	if err != nil {
		return err
	}
	return h.Wait(ctx)
}

// AllGatherAsync is to AllGather what AllReduceAsync is to AllReduce. own is not needed any more when it has returned.
func (w *Worker) AllGatherAsync(own, all []byte) (*Handle, error) {
	p := w.Params()
	switch {
	case len(all) != len(own)*p.Workers:
		return nil, fmt.Errorf("all-gather: there is room for %d bytes, and there are %d of each of %d ranks", len(all), len(own), p.Workers)
	case len(all) > MostBytes:
		return nil, fmt.Errorf("all-gather: %d bytes from all ranks are more than %d: all-reduce a tensor that is zeros in the others' parts instead", len(all), MostBytes)
	}
	part := lanesOf(len(own))
	lanes := make([]int32, part*p.Workers)
	pack(lanes[p.Rank*part:], own)
	return w.gather("all-gather", lanes, func() {
		for rank := range p.Workers {
			unpack(all[rank*len(own):(rank+1)*len(own)], lanes[rank*part:])
		}
	})
}

// gather issues a SUM that means something only with all ranks in it.
func (w *Worker) gather(what string, lanes []int32, then func()) (*Handle, error) {
	p := w.Params()
	if k := p.Policy.Quorum; k != 0 && k < p.Workers {
		return nil, fmt.Errorf("%s: the job goes on without stragglers (a quorum of %d of %d), and what a rank has would be missing without a word; use a job that waits", what, k, p.Workers)
	}
	return w.issueThen(&engine.Collective{I32: lanes, Op: wire.Sum}, then)
}

// Two bytes share an int32, of which the sums of one rank's number and the others' zeros come nowhere near the ends of the range, where hardware saturates.

func lanesOf(bytes int) int { return (bytes + 1) / 2 }

func pack(lanes []int32, data []byte) {
	for ; len(data) >= 2; lanes, data = lanes[1:], data[2:] {
		lanes[0] = int32(binary.LittleEndian.Uint16(data))
	}
	if len(data) == 1 {
		lanes[0] = int32(data[0])
	}
}

func unpack(data []byte, lanes []int32) {
	for ; len(data) >= 2; lanes, data = lanes[1:], data[2:] {
		binary.LittleEndian.PutUint16(data, uint16(lanes[0]))
	}
	if len(data) == 1 {
		data[0] = byte(lanes[0])
	}
}
