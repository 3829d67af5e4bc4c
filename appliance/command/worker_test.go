package command_test

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"spillway/wire"
	"spillway/worker"
)

// elements of each reduction: many more than a window has room for, so that the daemon always goes and comes in the middle of one.
const elements = 200_000

// work is a worker process: it joins, reduces until its stdin ends, or another worker's, checks every sum, and says after which it is.
func work(args []string, in io.Reader, out, errs io.Writer) int {
	if err := reduce(args, in, out); err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	return 0
}

func reduce(args []string, in io.Reader, out io.Writer) (err error) {
	socket, job, address := args[0], args[1], args[3]
	rank, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	w, err := worker.Join(ctx, "unix://"+socket, job, rank, worker.WithAddress(netip.MustParseAddr(address)))
	if err != nil {
		return fmt.Errorf("rank %d joins: %w", rank, err)
	}
	defer func() {
		if closed := w.Close(); err == nil {
			err = closed
		}
	}()
	fmt.Fprintf(out, "joined %d\n", w.Params().Generation)
	var told atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, in) // an end is an end, whatever its reason
		told.Store(true)
	}()
	workers := int32(w.Params().Workers)
	data := make([]int32, elements)
	for n := int32(0); ; n++ {
		for i := range data {
			data[i] = n + int32(i)*int32(rank+1)
		}
		if err := w.AllReduceInt32(ctx, data, wire.Sum); err != nil {
			return fmt.Errorf("rank %d, reduction %d: %w", rank, n, err)
		}
		for i, got := range data {
			if want := n*workers + int32(i)*workers*(workers+1)/2; got != want {
				return fmt.Errorf("rank %d, reduction %d: element %d is %d, want %d", rank, n, i, got, want)
			}
		}
		fmt.Fprintf(out, "summed %d\n", n)
		stop := []int32{0}
		if told.Load() {
			stop[0] = 1
		}
		if err := w.AllReduceInt32(ctx, stop, wire.Max); err != nil {
			return fmt.Errorf("rank %d, the question after reduction %d: %w", rank, n, err)
		}
		if stop[0] == 1 {
			return nil
		}
	}
}
