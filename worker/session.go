package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

// leaveTimeout bounds how long Close waits for the appliance.
const leaveTimeout = 2 * time.Second

// session is a worker's call to the appliance, which lasts as long as the worker does. The goroutine of Join uses it first, then that of
// keep; leave and close are for when neither does any more, or ends them.
type session struct {
	request    *v1.JoinRequest           // of the first call
	part       atomic.Pointer[v1.Resume] // nil until there are parameters
	logger     *slog.Logger              // of log, which has job and rank besides
	log        *slog.Logger
	patience   time.Duration
	progress   func(Waiting)
	appliances *appliances

	ctx       context.Context // of the calls
	cancel    context.CancelCauseFunc
	stream    grpc.ServerStreamingClient[v1.JoinResponse]
	at        string    // address of the last call
	goesOn    bool      // the first parameters were those of a generation that resumes another
	heard     time.Time // when the appliance last said something
	waiting   Waiting
	keeping   sync.WaitGroup
	leaving   atomic.Bool
	over      atomic.Bool // the appliance has ended this worker's part
	leaveOnce sync.Once
	closeOnce sync.Once
	draining  chan struct{}
	resizing  chan struct{} // closed when workers wait for the next generation
	absence   absence
	deaths    deaths
	worker    *Worker // set by keep
}

func newSession(addr, job string, rank int, o options) (*session, error) {
	if rank < 0 {
		return nil, errors.New("a rank is not below 0")
	}
	appliances, err := newAppliances(addr, o.tls, o.address)
	if err != nil {
		return nil, err
	}
	s := &session{
		logger: o.logger, log: o.logger.With("job", job, "rank", rank), patience: o.patience, progress: o.progress,
		request:    &v1.JoinRequest{Job: job, Rank: uint32(rank), Description: describeProcess(), AnyRank: o.anyRank},
		appliances: appliances,
		draining:   make(chan struct{}),
		resizing:   make(chan struct{}),
	}
	if o.address.IsValid() {
		s.request.Address = o.address.String()
	}
	if s.progress == nil {
		s.progress = logWaiting(s.log)
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s, nil
}

// join calls the appliance, again while it cannot be reached, and waits for the parameters.
func (s *session) join(ctx context.Context) (Params, error) {
	stop := context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx)) })
	s.waiting = Waiting{Since: time.Now()}
	params, err := s.attempts()
	if !stop() {
		return Params{}, fmt.Errorf("%w: %s", context.Cause(ctx), s.waiting)
	}
	return params, err
}

func (s *session) attempts() (Params, error) {
	var pause pause
	failing := time.Now()
	for {
		heard := s.heard
		params, err := s.rendezvous()
		if err == nil || s.ctx.Err() != nil {
			return params, err
		}
		if s.heard != heard {
			failing = time.Now()
			pause.reset()
		}
		if !passes(err, s.waiting.Workers > 0) {
			return Params{}, plain(err)
		}
		if quiet := time.Since(failing); quiet > s.patience {
			return Params{}, fmt.Errorf("no answer from an appliance at %s for %s; is spillwayd running, and is this its address? %w", s.appliances.list, quiet.Round(time.Millisecond), plain(err))
		}
		at := s.at
		wait := s.appliances.next(at, err)
		s.waiting.Step = fmt.Sprintf("calling the appliance at %s again: %s", at, plain(err))
		if next := s.appliances.present(); next != at {
			s.waiting.Step = fmt.Sprintf("calling the appliance at %s, after that at %s: %s", next, at, plain(err))
		}
		s.progress(s.waiting)
		if wait {
			pause.wait(s.ctx)
		}
	}
}

// rendezvous makes one call and listens until there are parameters.
func (s *session) rendezvous() (Params, error) {
	if err := s.call(); err != nil {
		return Params{}, err
	}
	for {
		said, err := s.receive()
		if err != nil {
			return Params{}, err
		}
		switch update := said.GetUpdate().(type) {
		case *v1.JoinResponse_Waiting:
			s.waiting = waitingOf(update.Waiting, s.waiting.Since)
			s.progress(s.waiting)
		case *v1.JoinResponse_Parameters:
			if s.request.GetAnyRank() {
				s.request.AnyRank, s.request.Rank = false, update.Parameters.GetRank()
				s.log = s.logger.With("job", s.request.GetJob(), "rank", s.request.GetRank())
			}
			params, err := paramsOf(update.Parameters, int(s.request.GetRank()))
			if err != nil {
				return Params{}, err
			}
			s.part.Store(&v1.Resume{Generation: update.Parameters.GetGeneration(), Cookie: params.Cookie})
			s.goesOn = update.Parameters.GetResumes() != 0
			return params, nil
		case *v1.JoinResponse_Notice:
			s.notice(update.Notice)
		}
	}
}

// call begins a call; whether the appliance takes it, the first receive says.
func (s *session) call() error {
	s.at = s.appliances.present()
	client, err := s.appliances.client()
	if err != nil {
		return err
	}
	request := proto.CloneOf(s.request)
	if part := s.part.Load(); part != nil {
		request.Resume = part
	}
	s.stream, err = client.Join(s.ctx, request)
	return err
}

func (s *session) receive() (*v1.JoinResponse, error) {
	said, err := s.stream.Recv()
	if err == io.EOF {
		return nil, errEnded
	}
	if err == nil {
		s.heard = time.Now()
	}
	return said, err
}

// keep listens as long as the worker lives, and calls again, for the same part, when the call is lost.
func (s *session) keep(w *Worker) {
	s.worker = w
	if s.goesOn {
		// It begins where others go on: their homes may wait to hear of it.
		params := w.Params()
		_ = w.post(request{resume: &params}) // an error means that it has stopped
	}
	var pause pause
	var lost time.Time // since when there is no call
	for {
		heard := s.heard
		err := s.listen(w, &lost)
		if s.ctx.Err() != nil || s.leaving.Load() {
			return
		}
		refused := refusal.Of(err)
		if refused != nil && final(refused.Reason) || errors.Is(err, errForeign) {
			s.over.Store(true)
			s.log.Error("the appliance ended this worker's part in the job", "error", plain(err))
			// An error means that the worker has stopped by itself.
			_ = w.post(request{fail: fmt.Errorf("job %q: %w", s.request.GetJob(), plain(err))})
			return
		}
		if s.heard != heard {
			pause.reset()
		}
		first := lost.IsZero()
		if first {
			lost = time.Now()
		}
		// Once for the time without a call: the others are more of the same, and in an election there are many.
		level := slog.LevelDebug
		if first {
			level = slog.LevelWarn
		}
		s.log.Log(s.ctx, level, "no call to the appliance: collectives go on, and it is made again", "appliance", s.at, "error", plain(err))
		s.stream = nil
		if s.appliances.next(s.at, err) {
			pause.wait(s.ctx)
		}
	}
}

// listen hears what the appliance has to say until the call ends.
func (s *session) listen(w *Worker, lost *time.Time) error {
	if s.stream == nil {
		if err := s.call(); err != nil {
			return err
		}
	}
	for {
		said, err := s.receive()
		if err != nil {
			return err
		}
		if !lost.IsZero() {
			s.log.Info("the appliance is back", "appliance", s.at, "after", time.Since(*lost).Round(time.Millisecond))
			*lost = time.Time{}
		}
		switch update := said.GetUpdate().(type) {
		case *v1.JoinResponse_Parameters:
			if err := s.moved(w, update.Parameters); err != nil {
				return err
			}
		case *v1.JoinResponse_Notice:
			s.notice(update.Notice)
		}
	}
}

// notice takes in what a worker that takes part should know.
func (s *session) notice(n *v1.Notice) {
	s.absence.take(n, time.Now())
	level := slog.LevelInfo
	switch n.GetKind() {
	case v1.NoticeKind_NOTICE_KIND_LOST:
		level = slog.LevelWarn
	case v1.NoticeKind_NOTICE_KIND_LEFT:
		level = slog.LevelDebug
	case v1.NoticeKind_NOTICE_KIND_DEAD:
		level = slog.LevelWarn
		s.dead(n, time.Now())
	case v1.NoticeKind_NOTICE_KIND_RESUMED:
		s.alive(ranksOf(n.GetRanks()))
	case v1.NoticeKind_NOTICE_KIND_RESIZE:
		select {
		case <-s.resizing:
		default:
			close(s.resizing)
		}
	case v1.NoticeKind_NOTICE_KIND_DRAINING:
		select {
		case <-s.draining:
		default:
			close(s.draining)
		}
	}
	s.log.Log(s.ctx, level, "notice from the appliance", "kind", n.GetKind().String(), "text", n.GetText())
}

// leave tells the appliance that this worker's part is over, if it can be reached in time.
func (s *session) leave() {
	s.leaveOnce.Do(func() {
		s.leaving.Store(true)
		if s.over.Load() || s.part.Load() == nil {
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, leaveTimeout)
		defer cancel()
		if err := s.sayLeave(ctx); err != nil {
			s.log.Warn("could not tell the appliance that this worker leaves; it takes it for lost", "appliance", s.appliances.list, "error", plain(err))
		}
	})
}

// sayLeave calls until an appliance takes it, or refuses it for good.
func (s *session) sayLeave(ctx context.Context) error {
	request := &v1.LeaveRequest{Job: s.request.GetJob(), Rank: s.request.GetRank(), Part: s.part.Load()}
	var pause pause
	for {
		at := s.appliances.present()
		client, err := s.appliances.client()
		if err != nil {
			return err
		}
		_, err = client.Leave(ctx, request)
		if err == nil || ctx.Err() != nil || !passes(err, false) {
			return err
		}
		if s.appliances.next(at, err) {
			pause.wait(ctx)
		}
	}
}

// close ends the call and waits for keep.
func (s *session) close() {
	s.closeOnce.Do(func() {
		s.cancel(ErrClosed)
		s.keeping.Wait()
		if err := s.appliances.close(); err != nil {
			s.log.Warn("the end of the calls", "error", err)
		}
	})
}

// plain takes an error of a call for what the appliance meant: its refusal, in its words.
func plain(err error) error {
	if refused := refusal.Of(err); refused != nil {
		return refused
	}
	return err
}

// final are the refusals after which there is nothing left to resume.
func final(reason refusal.Reason) bool {
	return reason == refusal.GenerationOver || reason == refusal.Resized || reason == refusal.JobDeleted || reason == refusal.NoSuchJob
}

// passes says whether a Join may be taken when it is tried again: the appliance is away or busy or, if this rank was in already, has not yet
// noticed that its last call ended.
func passes(err error, wasIn bool) bool {
	refused := refusal.Of(err)
	switch {
	case refused == nil:
		return errors.Is(err, errEnded)
	case refused.Code == codes.Unavailable, refused.Reason == refusal.TooMany, refused.Reason == refusal.NotLeader:
		return true
	}
	return wasIn && refused.Reason == refusal.RankTaken
}

// pause is the time between attempts: longer each time, and never the same for all workers.
type pause struct{ last time.Duration }

func (p *pause) reset() { p.last = 0 }

func (p *pause) wait(ctx context.Context) {
	p.last = min(max(2*p.last, firstPause), lastPause)
	timer := time.NewTimer(p.last/2 + rand.N(p.last/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
