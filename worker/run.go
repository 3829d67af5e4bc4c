package worker

import (
	"errors"
	"fmt"
	"math"
	"time"

	"spillway/wire"
)

// run is the worker's goroutine: it alone touches the engine and the sockets. It ends when the worker is closed, or when the sockets
// fail in a way that is no loss.
func (w *Worker) run() {
	defer close(w.done)
	for {
		w.now = int64(time.Since(w.start))
		if w.waiting.Load() && !w.takeRequests() {
			w.stop(ErrClosed)
			return
		}
		if err := w.turn(); err != nil {
			w.stop(fmt.Errorf("transport: %w", err))
			return
		}
	}
}

// turn takes what has arrived, sends what is due, and waits if nothing is left to do.
func (w *Worker) turn() error {
	more, err := w.conn.Receive((*inbox)(w))
	if err != nil {
		return err
	}
	wake := w.engine.Poll(w.now, w.conn)
	blocked, err := w.conn.Flush()
	if err != nil {
		return err
	}
	w.complete()
	if more || wake <= w.now && !blocked {
		return nil
	}
	timeout := int64(math.MaxInt64)
	if wake != timeout {
		timeout = wake - int64(time.Since(w.start))
	}
	if blocked {
		// What is due cannot be sent before the socket is writable; the engine's silence must be noticed all the same.
		timeout = max(timeout, int64(w.params.MinRTO))
	}
	return w.conn.Wait(timeout, blocked)
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
