package worker

import (
	"context"
	"fmt"
	"time"
)

// handBack is how long after the last collective that was driven by who waited for it the worker's goroutine watches the transport again. Until then nobody answers a home that lost a
// RESULT; whoever needs it asks again.
const handBack = 2 * time.Millisecond

// Who waits for a collective while nothing else is in flight does not hand it to the worker's goroutine and sleep: it does that goroutine's work itself until the collective is done. For a small
// one that saves two changes of threads at each rank, which take about as long as a round trip. Whoever has w.driving locked owns the engine and the transport; run has it but for when it rests.

// rest waits for a packet, a request or the time without owning anything, and then owns all again, as soon as nobody drives any more.
func (w *Worker) rest() {
	timeout := w.timeout()
	conn := w.conn
	w.driving.Unlock()
	err := conn.Rest(timeout)
	if !w.driving.TryLock() {
		w.standBack()
	}
	if err == nil {
		err = conn.Wait(0, false) // takes in that it was woken
	}
	if err != nil {
		w.ending = fmt.Errorf("transport: %w", err)
	}
}

// standBack waits until nobody has driven for a while, or nobody does and there is something left to do, and owns all.
func (w *Worker) standBack() {
	timer := time.NewTimer(handBack)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			timer.Reset(handBack)
			if time.Since(w.start)-time.Duration(w.driven.Load()) < handBack {
				continue
			}
		case <-w.kicked:
		}
		if w.driving.TryLock() {
			return
		}
	}
}

// kick has run look at what there is to do, wherever it waits. w.mu is locked, and the worker not closed.
func (w *Worker) kick() {
	select {
	case w.kicked <- struct{}{}:
	default: // it has been kicked
	}
	if err := w.conn.Wake(); err != nil {
		// An eventfd that this worker owns and has not closed takes a write.
		panic(err)
	}
}

// drive does run's work until a collective is done or the context has ended, unless run or somebody else is at it.
func (w *Worker) drive(ctx context.Context, h *Handle) {
	if !w.driving.TryLock() {
		w.rouse()
		return
	}
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, w.rouse)()
	}
	for !h.finished() && ctx.Err() == nil && w.ending == nil {
		if w.turn() && !h.finished() {
			w.wait()
		}
	}
	more := !w.engine.Idle() || w.ending != nil
	w.driven.Store(int64(time.Since(w.start)))
	w.driving.Unlock()
	if more || w.waiting.Load() {
		w.rouse()
	}
}

// rouse is kick for who has not locked w.mu.
func (w *Worker) rouse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed == nil {
		w.kick()
	}
}

// finished reports whether the collective is done.
func (h *Handle) finished() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}
