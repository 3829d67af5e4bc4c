package worker

import (
	"errors"
	"fmt"
	"time"

	"spillway/wire"
	"spillway/worker/engine"
)

// run is the worker's goroutine. It has the engine and the transport to itself as long as collectives are in flight that nobody drives who waits for
// them (drive.go). It ends when the worker is closed, or when the sockets fail in a way that is no loss.
func (w *Worker) run() {
	defer close(w.done)
	for w.ending == nil {
		if !w.turn() {
			continue
		}
		if w.engine.Idle() && !w.lull.blocked {
			w.rest()
		} else {
			w.wait()
		}
	}
	w.stop(w.ending)
}

// turn does what others asked for, takes what has arrived and sends what is due. It reports whether nothing is left to do for now; until when is in w.lull. Why the worker must
// stop, if it must, is in w.ending.
func (w *Worker) turn() (pause bool) {
	w.now = int64(time.Since(w.start))
	idle := w.engine.Idle()
	if w.waiting.Load() && !w.takeRequests() {
		w.ending = ErrClosed
		return false
	}
	var more bool
	var err error
	// A collective that ends idleness goes out first: nothing has been asked for that could have arrived.
	if !idle || w.engine.Idle() {
		if more, err = w.conn.Receive((*inbox)(w)); err != nil {
			w.ending = fmt.Errorf("transport: %w", err)
			return false
		}
	}
	wake := w.engine.Poll(w.now, w.conn)
	w.lull.blocked, err = w.conn.Flush()
	if err != nil {
		w.ending = fmt.Errorf("transport: %w", err)
		return false
	}
	w.complete()
	w.lull.until = wake
	return !more && (wake > w.now || w.lull.blocked)
}

// lull is what a worker waits for that has nothing to do for now.
type lull struct {
	until   int64 // of the worker's time; engine.Never: for packets and requests only
	blocked bool  // for room in the transport's queues
}

// timeout is how long the lull is, ns.
func (w *Worker) timeout() int64 {
	if w.lull.until == engine.Never {
		return engine.Never
	}
	timeout := w.lull.until - int64(time.Since(w.start))
	if w.lull.blocked {
		// What is due cannot be sent before there is room; the engine's silence must be noticed all the same.
		timeout = max(timeout, int64(w.params.MinRTO))
	}
	return timeout
}

// wait waits for a packet, a request or the time.
func (w *Worker) wait() {
	if err := w.conn.Wait(w.timeout(), w.lull.blocked); err != nil {
		w.ending = fmt.Errorf("transport: %w", err)
	}
}

// inbox is the worker as the receiver of its Conn.
type inbox Worker

func (i *inbox) Receive(payload []byte, ce bool) { i.engine.Receive(i.now, payload, ce) }

// takeRequests does what others asked for; false if the worker is to stop.
func (w *Worker) takeRequests() (goOn bool) {
	w.mu.Lock()
	requests := w.posted
	w.posted, w.spare = w.spare[:0], requests
	w.waiting.Store(false)
	w.mu.Unlock()
	goOn = true
	for i := range requests {
		switch r := &requests[i]; {
		case r.submit != nil && !goOn:
			r.submit.finish(ErrClosed)
		case r.submit != nil:
			if err := w.engine.Submit(w.now, r.submit.collective); err != nil {
				r.submit.finish(err)
			} else {
				w.inFlight = append(w.inFlight, r.submit)
			}
		case r.cancel != nil:
			select {
			case <-r.cancel.handle.done:
			default:
				w.engine.Abort(fmt.Errorf("collective cancelled: %w", r.cancel.cause))
				w.complete()
			}
		case r.stats != nil:
			r.stats <- w.stats()
		case r.resume != nil:
			w.resume(*r.resume)
		case r.fail != nil:
			w.engine.Abort(r.fail)
			w.complete()
		default:
			goOn = false
		}
		requests[i] = request{}
	}
	return goOn
}

// complete tells the handles of finished collectives.
func (w *Worker) complete() {
	for c := w.engine.Completed(); c != nil; c = w.engine.Completed() {
		h := w.inFlight[w.head]
		w.inFlight[w.head] = nil
		w.head++
		w.annotate(c.Err())
		h.finish(c.Err())
	}
	if w.head == len(w.inFlight) {
		w.inFlight, w.head = w.inFlight[:0], 0
	}
}

// annotate adds to an error what the engine, which has no clock and no addresses, cannot know. Nobody else has seen the error yet.
func (w *Worker) annotate(err error) {
	var missing *MissingRanksError
	var silent *HomeSilentError
	switch {
	case errors.As(err, &missing) && missing.Since.IsZero():
		missing.Since = time.Now().Add(-missing.For)
		if w.session != nil {
			missing.Gone = w.session.absence.of(missing.Ranks)
		}
	case errors.As(err, &silent) && silent.Since.IsZero():
		silent.Since, silent.Home = time.Now().Add(-silent.For), w.params.Homes[wire.Shard(silent.Seq, len(w.params.Homes))].Addr
	}
}

func (h *Handle) finish(err error) {
	h.err = err
	if err == nil && h.then != nil {
		h.then()
	}
	close(h.done)
}

// stop fails what is in flight and closes the sockets.
func (w *Worker) stop(reason error) {
	w.engine.Abort(reason)
	w.complete()
	w.mu.Lock()
	w.closed, w.last = reason, w.stats()
	if reason != ErrClosed {
		w.closed = w.engine.Broken()
	}
	w.err = w.conn.Close()
	late := w.posted
	w.posted = nil
	w.mu.Unlock()
	for _, r := range late {
		switch {
		case r.submit != nil:
			r.submit.finish(w.closed)
		case r.stats != nil:
			r.stats <- w.last
		}
	}
}
