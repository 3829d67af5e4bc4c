//go:build cgo

package main

// #include "library.h"
import "C"

import (
	"errors"
	"sync"

	"spillway/worker"
)

// The table has what C holds by number: workers and requests. Numbers are never used again, and tell one from the other by their lowest bit, so that what C holds too
// long, or made up, is found out.
var table = struct {
	sync.Mutex
	next     uint64
	workers  map[uint64]*worker.Worker
	requests map[uint64]*request
}{workers: map[uint64]*worker.Worker{}, requests: map[uint64]*request{}}

// request is what a goroutine completes.
type request struct {
	done    bool
	err     error
	missing uint64   // of a join that failed: the ranks that it waited for
	worker  uint64   // of a join that succeeded
	waiter  *C.sem_t // in C's memory: posted when the request is done; nil if nobody waits
	watched bool     // somebody waits, and will collect
}

const (
	workerBit  = 0
	requestBit = 1
)

// number is for what C is to hold. The table is locked.
func number(bit uint64) uint64 {
	table.next++
	return table.next<<1 | bit
}

// start puts a request into the table that run completes; who waits for it from the beginning says so with a semaphore.
func start(waiter *C.sem_t, run func(r *request)) uint64 {
	r := &request{waiter: waiter, watched: waiter != nil}
	table.Lock()
	id := number(requestBit)
	table.requests[id] = r
	table.Unlock()
	go func() {
		var result request
		run(&result)
		table.Lock()
		defer table.Unlock()
		r.err, r.missing, r.worker, r.done = result.err, result.missing, result.worker, true
		r.post()
	}()
	return id
}

// post wakes who waits. The table is locked, so that he has not collected, and his semaphore is there.
func (r *request) post() {
	if r.waiter != nil {
		C.sem_post(r.waiter)
		r.waiter = nil
	}
}

var errNoRequest = &handleError{"there is no such request: it was waited for already, or the handle is none of a request"}

// handleError is about what is held by number.
type handleError struct{ text string }

func (e *handleError) Error() string { return e.text }

// watch registers who waits for a request.
func watch(id uint64, waiter *C.sem_t) error {
	table.Lock()
	defer table.Unlock()
	r := table.requests[id]
	switch {
	case r == nil:
		return errNoRequest
	case r.watched:
		return &handleError{"another thread waits for this request"}
	}
	r.waiter, r.watched = waiter, true
	if r.done {
		r.post()
	}
	return nil
}

var errPending = errors.New("the request is still in flight")

// collect ends a watch: a request that is done is used up.
func collect(id uint64) (*request, error) {
	table.Lock()
	defer table.Unlock()
	r := table.requests[id]
	if !r.done {
		r.waiter, r.watched = nil, false
		return nil, errPending
	}
	delete(table.requests, id)
	return r, nil
}

// isDone looks at a request.
func isDone(id uint64) (bool, error) {
	table.Lock()
	defer table.Unlock()
	if r := table.requests[id]; r != nil {
		return r.done, nil
	}
	return false, errNoRequest
}

// keep puts a worker into the table.
func keep(w *worker.Worker) uint64 {
	table.Lock()
	defer table.Unlock()
	id := number(workerBit)
	table.workers[id] = w
	return id
}

// find is a worker by its number, which take makes invalid.
func find(id uint64) (*worker.Worker, error) { return look(id, false) }

func take(id uint64) (*worker.Worker, error) { return look(id, true) }

func look(id uint64, remove bool) (*worker.Worker, error) {
	table.Lock()
	defer table.Unlock()
	w := table.workers[id]
	if w == nil {
		return nil, &handleError{"there is no such worker: it has left, or the handle is none of a worker"}
	}
	if remove {
		delete(table.workers, id)
	}
	return w, nil
}
