package worker

import (
	"errors"
	"fmt"

	v1 "spillway/appliance/api/spillway/v1"
)

// errForeign means that the appliance gave another part than that which was to be resumed.
var errForeign = errors.New("the appliance gave parameters of another generation than the one to resume")

// moved takes Parameters that come again. Those of the part that this worker has say nothing new. Those of a later generation that resumes
// one before, the own or one that followed it without this worker's knowledge, take its place: what the appliance says to a call that
// resumes is about the part which that call named. Anything else is a part that is not this worker's.
func (s *session) moved(w *Worker, said *v1.Parameters) error {
	own := s.part.Load()
	switch {
	case said.GetGeneration() == own.GetGeneration() && said.GetCookie() == own.GetCookie():
		return nil
	case said.GetResumes() < own.GetGeneration() || said.GetGeneration() <= said.GetResumes():
		return errForeign
	}
	params, err := paramsOf(said, int(s.request.GetRank()))
	if err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	s.part.Store(&v1.Resume{Generation: said.GetGeneration(), Cookie: said.GetCookie()})
	s.log.Info("the job goes on in a new generation", "generation", said.GetGeneration(), "resumes", said.GetResumes(), "homes", params.Homes)
	// An error means that the worker has stopped by itself.
	_ = w.post(request{resume: &params})
	return nil
}

// resume goes on in a new generation, with the homes that it has. Collectives in flight are asked about there.
func (w *Worker) resume(next Params) {
	next = next.withDefaults()
	// A worker that was given no address keeps the one that it found.
	if !next.Addr.IsValid() {
		next.Addr = w.params.Addr
	}
	err := w.params.goesOnAs(next)
	if err == nil {
		// What was written for the old homes is dropped before anything is written for the new ones.
		err = w.conn.SetHomes(next.Homes)
	}
	if err == nil {
		err = w.engine.Resume(w.now, next.engine())
	}
	if err != nil {
		w.engine.Abort(fmt.Errorf("the appliance goes on with the job in a way that this worker cannot: %w", err))
		w.complete()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.params = next
}

// goesOnAs says what keeps a generation from taking the place of another; beside what the engine finds.
func (p Params) goesOnAs(next Params) error {
	switch {
	case next.Addr != p.Addr:
		return fmt.Errorf("own address %s instead of %s", next.Addr, p.Addr)
	case next.WorkerPort != p.WorkerPort:
		return fmt.Errorf("worker port %d instead of %d", next.WorkerPort, p.WorkerPort)
	case next.Group != p.Group:
		return fmt.Errorf("group %s instead of %s", next.Group, p.Group)
	}
	return next.Validate()
}
