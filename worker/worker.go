package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"spillway/wire"
	"spillway/worker/engine"
	"spillway/worker/transport"
)

// Worker is one rank of a job. Its methods may be called from several goroutines, but the order in which collectives are issued
// must be the same at all ranks.
type Worker struct {
	params  Params
	start   time.Time // the engine's time is nanoseconds since then
	done    chan struct{}
	session *session // with the appliance; nil without one

	// Owned by who has driving locked: the goroutine of run, or who waits for a collective.
	driving  sync.Mutex
	engine   *engine.Engine
	conn     transport.Conn
	now      int64
	lull     lull
	ending   error     // why run must stop
	inFlight []*Handle // in the order of issue, from head
	head     int

	// mu guards what others hand to that goroutine, and the life of the eventfd behind conn.Wake.
	mu      sync.Mutex
	posted  []request
	spare   []request
	waiting atomic.Bool   // posted is not empty
	kicked  chan struct{} // run is to look at what there is to do
	driven  atomic.Int64  // when somebody else than run last owned the engine
	closed  error         // why requests are no longer taken
	last    Stats         // when closed
	err     error         // of closing the sockets

	// rejoining is held while the worker goes from one generation to the next, and taken before mu; that changes, under mu, all of the above but it. options are those
	// to join with. giveUp, under mu, ends a Rejoin that waits, and ended lets none begin.
	rejoining sync.Mutex
	options   options
	giveUp    context.CancelCauseFunc
	ended     bool
}

// request is something that another goroutine wants from run: exactly one field is set, or none to stop.
type request struct {
	submit *Handle
	cancel *cancellation
	stats  chan<- Stats
	fail   error   // breaks the job at this worker
	resume *Params // of the generation to go on in
}

type cancellation struct {
	handle *Handle
	cause  error
}

// open makes the engine and the sockets of a worker, in the network namespace of the calling thread, and starts it. The session is nil
// without an appliance.
func open(params Params, o options, s *session) (*Worker, error) {
	params, e, conn, err := assemble(params, o)
	if err != nil {
		return nil, err
	}
	w := &Worker{params: params, start: time.Now(), done: make(chan struct{}), kicked: make(chan struct{}, 1), session: s, engine: e, conn: conn, options: o}
	w.driving.Lock()
	go w.run()
	return w, nil
}

// assemble makes the engine and the sockets of a generation, in the network namespace of the calling thread, and fills in the parameters.
func assemble(params Params, o options) (_ Params, e *engine.Engine, conn transport.Conn, err error) {
	if err := errors.Join(o.wrong, params.Validate()); err != nil {
		return params, nil, nil, err
	}
	params = params.withDefaults()
	if !params.Addr.IsValid() {
		if params.Addr, err = addressTowards(params.Homes[0].Addr); err != nil {
			return params, nil, nil, err
		}
		if err := params.Validate(); err != nil {
			return params, nil, nil, err
		}
	}
	if e, err = engine.New(params.engine()); err != nil {
		return params, nil, nil, err
	}
	cfg := params.transport()
	cfg.Logger = o.logger.With("job", params.Job, "rank", params.Rank)
	cfg.NoOffload, cfg.Kind, cfg.BusyPoll = o.noOffload, o.transport, o.busyPoll
	if conn, err = transport.Open(cfg); err != nil {
		return params, nil, nil, err
	}
	return params, e, conn, nil
}

// Params are the parameters that the worker joined with, defaults and the own address filled in. Rejoin may change them.
func (w *Worker) Params() Params {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.params
}

// AllReduce is the SUM of Reduce for float32: it replaces data, at every rank, by the element-wise sum over all ranks, in block fixed point: with n ranks and e the
// exponent of the largest magnitude among a chunk's elements at any rank, the error of an element is at most n * 2^(e-k-1) with
// k = 31 - ceil(log2 n), or 15 - ceil(log2 n) in a job whose elements have 16 bits on the wire, plus one rounding to float32. The result has the same bits at every rank.
//
// After an error the content of data is undefined; after any return the library does not touch it again. When ctx ends first, the
// collective fails with the context's error and the job is broken at this worker (ErrBroken), because the other ranks go on
// without it; if ctx had ended before the call, nothing is issued.
func (w *Worker) AllReduce(ctx context.Context, data []float32) error {
	_, err := w.AllReduceWith(ctx, data)
	return err
}

// AllReduceInt32 is AllReduce with exact integers and a choice of operation: SUM, MAX or MIN. A sum that leaves the range of int32
// is a SaturatedError at every rank.
func (w *Worker) AllReduceInt32(ctx context.Context, data []int32, op wire.Op) error {
	_, err := w.AllReduceInt32With(ctx, data, op)
	return err
}

// AllReduceAsync issues an AllReduce and returns at once. Several may be in flight; their chunks share the window, and they
// complete in the order of issue. The caller leaves data alone, and does not issue it again, until the handle is done. An error
// means that nothing was issued.
func (w *Worker) AllReduceAsync(data []float32) (*Handle, error) {
	return w.AllReduceAsyncWith(data)
}

// AllReduceInt32Async is to AllReduceInt32 what AllReduceAsync is to AllReduce.
func (w *Worker) AllReduceInt32Async(data []int32, op wire.Op) (*Handle, error) {
	return w.AllReduceInt32AsyncWith(data, op)
}

func (w *Worker) issue(c *engine.Collective, opts []ReduceOption) (*Handle, error) {
	for _, opt := range opts {
		opt(c)
	}
	return w.issueThen(c, nil)
}

// issueToDrive issues a collective that the caller waits for at once.
func (w *Worker) issueToDrive(c *engine.Collective, opts []ReduceOption) (*Handle, error) {
	for _, opt := range opts {
		opt(c)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("allreduce: %w", err)
	}
	h := &Handle{worker: w, collective: c, done: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed != nil {
		return nil, w.closed
	}
	w.posted = append(w.posted, request{submit: h})
	w.waiting.Store(true)
	return h, nil
}

// issueThen issues a collective whose result is handed on by then before the handle is done, if there is a result.
func (w *Worker) issueThen(c *engine.Collective, then func()) (*Handle, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("allreduce: %w", err)
	}
	h := &Handle{worker: w, collective: c, then: then, done: make(chan struct{})}
	if err := w.post(request{submit: h}); err != nil {
		return nil, err
	}
	return h, nil
}

// post hands a request to run; an error says why it no longer takes any.
func (w *Worker) post(r request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed != nil {
		return w.closed
	}
	w.posted = append(w.posted, r)
	w.waiting.Store(true)
	w.kick()
	return nil
}

// Handle is a collective in flight.
type Handle struct {
	worker     *Worker
	collective *engine.Collective
	then       func() // nil: nothing
	done       chan struct{}
	err        error // final when done is closed
}

// Wait returns the outcome when the collective is done. When ctx ends first it fails the collective and breaks the job at this
// worker, as for AllReduce; to look without that risk use Done.
func (h *Handle) Wait(ctx context.Context) error {
	select {
	case <-h.done:
		return h.err
	case <-ctx.Done():
	}
	// The buffer must be let go of before this returns, which only run can do. It answers at once. If the worker has been
	// closed, and takes no request, the handle is done as well.
	_ = h.worker.post(request{cancel: &cancellation{handle: h, cause: context.Cause(ctx)}})
	<-h.done
	return h.err
}

// Done is closed when the collective is done; Wait then returns at once.
func (h *Handle) Done() <-chan struct{} { return h.done }

// Stats says what the worker did so far, or had done when it was closed.
func (w *Worker) Stats() Stats {
	reply := make(chan Stats, 1)
	if w.post(request{stats: reply}) == nil {
		return <-reply
	}
	// It has stopped, or is about to: what it did in the end is final.
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Close leaves the job and waits for the worker's goroutine. Collectives in flight fail with ErrClosed. A worker that has left no
// longer answers a home that lost a RESULT; that strands nobody as long as the home itself lives, because it keeps the RESULTs that
// another rank may still need. The appliance is told, within two seconds or not at all; then it takes the worker for lost. Closing twice is harmless.
func (w *Worker) Close() error {
	defer w.endRejoin()()
	_ = w.post(request{}) // an error means that it has stopped
	<-w.done
	if w.session != nil {
		w.session.leave()
		w.session.close()
	}
	return w.err
}

// Draining is closed when the appliance lets the job come to its end: what is in flight is to be finished, and the worker to be closed. It
// is nil, and never ready, without an appliance. After Rejoin there is another.
func (w *Worker) Draining() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session == nil {
		return nil
	}
	return w.session.draining
}
