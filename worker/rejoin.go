package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"spillway/wire"
)

// ErrNotElastic is the error of Rejoin in a job whose number of ranks cannot change: close the worker, and Join again when all ranks do.
var ErrNotElastic = errors.New("the job is not elastic (it has no min_workers): close the worker, and join again with all ranks")

// errRejoining breaks the generation that a worker goes on from.
var errRejoining = errors.New("this worker has asked for the job's next generation")

// WithAnyRank takes whatever rank an elastic job has to give, preferably the one that Join names; Worker.Rank says which it is. Elastic jobs give ranks
// to such workers only.
func WithAnyRank() Option { return func(o *options) { o.anyRank = true } }

// Rank is this worker's, from 0. Rejoin may change it.
func (w *Worker) Rank() int { return w.Params().Rank }

// Workers is how many ranks the generation has that this worker takes part in. Rejoin may change it.
func (w *Worker) Workers() int { return w.Params().Workers }

// Resizing is closed when workers wait for the next generation of an elastic job, which is formed when all members of this one have called Rejoin. What
// runs is not disturbed; but a rank that rejoins is missing to those that do not, so all are to rejoin at the same step: AgreeToRejoin says at which. It is
// of the generation: after Rejoin there is another. It is nil, and never ready, without an appliance.
func (w *Worker) Resizing() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session == nil {
		return nil
	}
	return w.session.resizing
}

// AgreeToRejoin is a collective like the others, and cheap: it says, the same at all ranks, whether any of them has heard that workers wait for the next
// generation. A trainer calls it between steps, every some of them, and Rejoin when it says true.
func (w *Worker) AgreeToRejoin(ctx context.Context) (bool, error) {
	heard := []int32{0}
	select {
	case <-w.Resizing():
		heard[0] = 1
	default:
	}
	if err := w.AllReduceInt32(ctx, heard, wire.Max); err != nil {
		return false, fmt.Errorf("agree whether to rejoin: %w", err)
	}
	return heard[0] != 0, nil
}

// Rejoin takes part in the next generation of an elastic job, which may have fewer or more ranks than the one before: after an error with ErrBroken in its chain, a
// DeadRanksError for example, or between steps when others wait (Resizing). It returns when the generation is formed, with Rank and Workers as they are now.
// Nothing is carried over: collectives and statistics begin anew, and what is in flight fails. Those that were members of the generation before keep
// their order and come before those that are new, so that rank 0 is one that has the state of the training, unless there is none such.
//
// Until then this worker keeps answering for the generation before, so that who has not yet its last result gets it. The options are those of Join, changed by opts.
// When Rejoin fails, also because ctx has ended, the worker takes part in nothing: call it again, or close the worker. Collectives must not be issued at
// the same time. The sockets are made in the network namespace of the calling thread.
func (w *Worker) Rejoin(ctx context.Context, opts ...Option) error {
	w.rejoining.Lock()
	defer w.rejoining.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	before, err := w.mayRejoin(cancel)
	if err != nil {
		return err
	}
	for _, opt := range opts {
		opt(&w.options)
	}
	if err := w.rejoin(ctx, before); err != nil {
		return fmt.Errorf("rejoin job %q: %w", before.request.GetJob(), err)
	}
	return nil
}

// mayRejoin has Close end a Rejoin that begins. It returns the session so far.
func (w *Worker) mayRejoin(cancel context.CancelCauseFunc) (*session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended:
		return nil, ErrClosed
	case w.session == nil || !w.params.Elastic:
		return nil, ErrNotElastic
	}
	w.giveUp = cancel
	return w.session, nil
}

// endRejoin ends a Rejoin that is under way, for Close, and lets none begin. What it returns is to be called when Close is done.
func (w *Worker) endRejoin() (unlock func()) {
	w.mu.Lock()
	w.ended = true
	if w.giveUp != nil {
		w.giveUp(ErrClosed)
	}
	w.mu.Unlock()
	w.rejoining.Lock()
	return w.rejoining.Unlock
}

func (w *Worker) rejoin(ctx context.Context, before *session) error {
	_ = w.post(request{fail: errRejoining}) // an error means that it has stopped
	before.leaving.Store(true)              // the appliance ends its call, and it is not to be made again
	next, err := before.next(w.options)
	if err != nil {
		return err
	}
	params, err := next.join(ctx)
	if err != nil {
		next.close()
		return err
	}
	// Everybody has asked for the new generation: nobody needs an answer of the old one any more. Its sockets have the port that the new ones get.
	_ = w.post(request{})
	<-w.done
	before.abandon()
	if err := w.begin(params, next); err != nil {
		next.leave()
		next.close()
		return err
	}
	next.keeping.Go(func() { next.keep(w) })
	return nil
}

// begin is the worker in another generation. That before has ended.
func (w *Worker) begin(params Params, s *session) error {
	params, e, conn, err := assemble(params, w.options)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.closed = fmt.Errorf("%w: %w", ErrBroken, err)
		return err
	}
	w.params, w.session, w.engine, w.conn = params, s, e, conn
	w.start, w.done = time.Now(), make(chan struct{})
	w.inFlight, w.head = w.inFlight[:0], 0
	w.waiting.Store(false)
	w.posted, w.closed, w.err = w.posted[:0], nil, nil
	w.ending = nil // and what it had locked is run's again
	go w.run()
	return nil
}

// next is a session that asks for the generation after that of this one.
func (s *session) next(o options) (*session, error) {
	n, err := newSession(s.appliances.list, s.request.GetJob(), int(s.request.GetRank()), o)
	if err != nil {
		return nil, err
	}
	n.request.AnyRank = true
	n.request.Resume = s.part.Load()
	return n, nil
}

// abandon ends a session whose part is over for the appliance.
func (s *session) abandon() {
	s.leaveOnce.Do(func() {})
	s.close()
}
