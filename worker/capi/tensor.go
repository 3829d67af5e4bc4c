//go:build cgo

package main

// #include "library.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"

	"spillway/worker"
)

// allReduce issues a reduction of the caller's memory, in place.
func allReduce(w *worker.Worker, data unsafe.Pointer, n uint64, dtype, op C.int) (*worker.Handle, error) {
	var o worker.Op
	switch op {
	case C.SPILLWAY_SUM:
		o = worker.Sum
	case C.SPILLWAY_MAX:
		o = worker.Max
	case C.SPILLWAY_MIN:
		o = worker.Min
	case C.SPILLWAY_AVG:
		o = worker.Average
	default:
		return nil, invalid(fmt.Sprintf("op %d is none of SPILLWAY_SUM, SPILLWAY_MAX, SPILLWAY_MIN, SPILLWAY_AVG", op))
	}
	switch dtype {
	case C.SPILLWAY_FLOAT32:
		return reduce[float32](w, data, n, o)
	case C.SPILLWAY_FLOAT64:
		return reduce[float64](w, data, n, o)
	case C.SPILLWAY_FLOAT16:
		return reduce[worker.Float16](w, data, n, o)
	case C.SPILLWAY_BFLOAT16:
		return reduce[worker.BFloat16](w, data, n, o)
	case C.SPILLWAY_INT32:
		return reduce[int32](w, data, n, o)
	}
	return nil, invalid(fmt.Sprintf("dtype %d is none of SPILLWAY_FLOAT32, SPILLWAY_FLOAT64, SPILLWAY_FLOAT16, SPILLWAY_BFLOAT16, SPILLWAY_INT32", dtype))
}

func reduce[T worker.Element](w *worker.Worker, data unsafe.Pointer, n uint64, op worker.Op) (*worker.Handle, error) {
	var element T
	switch {
	case data == nil:
		return nil, invalid("data is NULL")
	case n == 0 || n > math.MaxInt32:
		return nil, invalid(fmt.Sprintf("n is %d; a tensor has 1 to %d elements", n, math.MaxInt32))
	case uintptr(data)%unsafe.Sizeof(element) != 0:
		return nil, invalid(fmt.Sprintf("data is not aligned to the %d bytes of an element", unsafe.Sizeof(element)))
	}
	return checked(worker.ReduceAsync(w, unsafe.Slice((*T)(data), n), op))
}

// checked tells what the worker says of arguments from what it says of itself.
func checked(h *worker.Handle, err error) (*worker.Handle, error) {
	if code, _ := codeOf(err); err != nil && code == C.SPILLWAY_INTERNAL {
		return nil, &argumentError{err}
	}
	return h, err
}

func broadcast(w *worker.Worker, data unsafe.Pointer, size uint64, root int) (*worker.Handle, error) {
	b, err := bytesOf("data", data, size)
	if err != nil {
		return nil, err
	}
	return checked(w.BroadcastAsync(b, root))
}

func allGather(w *worker.Worker, own unsafe.Pointer, size uint64, all unsafe.Pointer) (*worker.Handle, error) {
	o, err := bytesOf("own", own, size)
	if err != nil {
		return nil, err
	}
	a, err := bytesOf("all", all, size*uint64(w.Params().Workers))
	if err != nil {
		return nil, err
	}
	return checked(w.AllGatherAsync(o, a))
}

func bytesOf(name string, data unsafe.Pointer, size uint64) ([]byte, error) {
	switch {
	case data == nil:
		return nil, invalid(name + " is NULL")
	case size == 0 || size > worker.MostBytes:
		return nil, invalid(fmt.Sprintf("%s has %d bytes; 1 to %d are possible", name, size, worker.MostBytes))
	}
	return unsafe.Slice((*byte)(data), size), nil
}
