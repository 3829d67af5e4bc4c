//go:build cgo

package main

// #cgo CFLAGS: -std=c11 -Wall -Wextra -Wno-unused-parameter -fvisibility=hidden
// #cgo LDFLAGS: -lm
// #include "library.h"
import "C"

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"spillway/worker"
)

// All of these return at once: what lasts is left to a request. A number 0 is none; then out says why.

// version is set at the link.
var builtVersion = "unknown"

//export goReady
func goReady(version *C.char, size C.size_t) {
	text := unsafe.Slice((*byte)(unsafe.Pointer(version)), int(size))
	text[copy(text[:size-1], builtVersion)] = 0
}

//export goJoin
func goJoin(options *C.struct_joining, waiter *C.sem_t, out *C.struct_outcome) C.uint64_t {
	j, err := joiningOf(options)
	if err != nil {
		(*outcome)(out).set(fmt.Errorf("spillway_join: %w", err), 0)
		return 0
	}
	return C.uint64_t(start(waiter, j.run))
}

//export goNumber
func goNumber(id C.uint64_t, ofRanks C.int, out *C.struct_outcome) C.int {
	w, err := find(uint64(id))
	switch {
	case err != nil:
		(*outcome)(out).set(err, 0)
		return -1
	case ofRanks != 0:
		return C.int(w.Params().Workers)
	}
	return C.int(w.Params().Rank)
}

// issue lets a worker issue a collective, and makes a request of its handle.
func issue(what string, id C.uint64_t, waiter *C.sem_t, out *C.struct_outcome, begin func(w *worker.Worker) (*worker.Handle, error)) C.uint64_t {
	w, err := find(uint64(id))
	if err != nil {
		(*outcome)(out).set(fmt.Errorf("%s: %w", what, err), 0)
		return 0
	}
	h, err := begin(w)
	if err != nil {
		(*outcome)(out).set(fmt.Errorf("%s: %w", what, err), 0)
		return 0
	}
	return C.uint64_t(start(waiter, func(r *request) { r.err = h.Wait(context.Background()) }))
}

//export goAllReduce
func goAllReduce(id C.uint64_t, data unsafe.Pointer, n C.size_t, dtype, op C.int, waiter *C.sem_t, out *C.struct_outcome) C.uint64_t {
	return issue("all-reduce", id, waiter, out, func(w *worker.Worker) (*worker.Handle, error) { return allReduce(w, data, uint64(n), dtype, op) })
}

//export goBarrier
func goBarrier(id C.uint64_t, waiter *C.sem_t, out *C.struct_outcome) C.uint64_t {
	return issue("barrier", id, waiter, out, (*worker.Worker).BarrierAsync)
}

//export goBroadcast
func goBroadcast(id C.uint64_t, data unsafe.Pointer, size C.size_t, root C.int, waiter *C.sem_t, out *C.struct_outcome) C.uint64_t {
	return issue("broadcast", id, waiter, out, func(w *worker.Worker) (*worker.Handle, error) { return broadcast(w, data, uint64(size), int(root)) })
}

//export goAllGather
func goAllGather(id C.uint64_t, own unsafe.Pointer, size C.size_t, all unsafe.Pointer, waiter *C.sem_t, out *C.struct_outcome) C.uint64_t {
	return issue("all-gather", id, waiter, out, func(w *worker.Worker) (*worker.Handle, error) { return allGather(w, own, uint64(size), all) })
}

//export goWatch
func goWatch(id C.uint64_t, waiter *C.sem_t, out *C.struct_outcome) C.uint64_t {
	if err := watch(uint64(id), waiter); err != nil {
		(*outcome)(out).set(err, 0)
		return 0
	}
	return id
}

//export goCollect
func goCollect(id C.uint64_t, out *C.struct_outcome) {
	r, err := collect(uint64(id))
	if err != nil {
		(*outcome)(out).set(err, 0)
		return
	}
	out.worker = C.uint64_t(r.worker)
	if r.err != nil {
		(*outcome)(out).set(r.err, r.missing)
	}
}

//export goTest
func goTest(id C.uint64_t, out *C.struct_outcome) C.int {
	done, err := isDone(uint64(id))
	if err != nil {
		(*outcome)(out).set(err, 0)
	}
	if done {
		return 1
	}
	return 0
}

//export goLeave
func goLeave(id C.uint64_t, waiter *C.sem_t, out *C.struct_outcome) C.uint64_t {
	w, err := take(uint64(id))
	if err != nil {
		(*outcome)(out).set(fmt.Errorf("leave: %w", err), 0)
		return 0
	}
	return C.uint64_t(start(waiter, func(r *request) { r.err = w.Close() }))
}

// seconds is a duration from C; what is too long for one is the longest.
func seconds(s C.double) time.Duration {
	if s > 1e9 {
		s = 1e9
	}
	return time.Duration(float64(s) * float64(time.Second))
}
