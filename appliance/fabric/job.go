package fabric

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"spillway/appliance/refusal"
	"spillway/p4/pipeline"
)

// job is one that is wanted in the ToR. SetJob makes a new one each time, so that what becomes of an old one is not taken for the new one's.
type job struct {
	pipeline.Job
	items []pipeline.Item
	// number orders jobs by when their ids were first set: of two that want the same entry, the earlier one has it.
	number uint64
	// invalid is why the job cannot be in any ToR.
	invalid error

	// What follows is guarded by Fabric.mu. in tells that the ToR has all of it; refused is why it has not.
	in      bool
	refused string
	// held keeps a refused job from being tried again before the next check, or before room may have been made; until it is released nobody
	// need wait for it.
	held bool
}

// SetJob wants a job in the ToR, in the place of one with the same id.
func (f *Fabric) SetJob(wanted pipeline.Job) {
	j := &job{Job: wanted}
	updates, err := pipeline.Entries(f.info, wanted)
	if err == nil {
		j.items, err = pipeline.Items(f.info, updates)
	}
	j.invalid = err
	f.mu.Lock()
	defer f.mu.Unlock()
	f.added++
	j.number = f.added
	if old := f.jobs[wanted.ID]; old != nil {
		j.number = old.number
		f.release() // it may have become smaller
	}
	f.jobs[wanted.ID] = j
	f.stir()
}

// RemoveJob wants a job no more.
func (f *Fabric) RemoveJob(id uint16) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.jobs[id] == nil {
		return
	}
	delete(f.jobs, id)
	f.release()
	f.stir()
}

// release lets refused jobs be tried again; f.mu is held.
func (f *Fabric) release() {
	for _, j := range f.jobs {
		j.held = false
	}
}

// stir makes Run's goroutine look at what is wanted, and those in Await at what they wait for; f.mu is held.
func (f *Fabric) stir() {
	f.move()
	select {
	case f.poke <- struct{}{}:
	default:
	}
}

// inOrder are the jobs by their numbers; f.mu is held.
func (f *Fabric) inOrder() []*job {
	all := make([]*job, 0, len(f.jobs))
	for _, j := range f.jobs {
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b *job) int { return int(int64(a.number) - int64(b.number)) })
	return all
}

// Await waits until a generation of a job that was set is in the ToR. Errors are *refusal.Error. There is no waiting for a ToR that is away
// (SwitchAway) or that another controller has, or has refused the job (SwitchRefused); a job that is removed or set again meanwhile is
// refused too.
func (f *Fabric) Await(ctx context.Context, id uint16, generation uint8) error {
	for {
		f.mu.Lock()
		known, err := f.outcome(id, generation)
		moved := f.moved
		f.mu.Unlock()
		if known {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			_, reason := f.State()
			if reason == "" {
				reason = "its entries are not acknowledged"
			}
			return refusal.New(codes.DeadlineExceeded, refusal.SwitchAway, "generation %d of job %d is not in the ToR yet (%s): %w",
				generation, id, reason, context.Cause(ctx))
		}
	}
}

// outcome is what Await returns, if it is known; f.mu is held.
func (f *Fabric) outcome(id uint16, generation uint8) (known bool, err error) {
	j := f.jobs[id]
	switch {
	case j == nil:
		return true, refusal.New(codes.Aborted, refusal.JobDeleted, "job %d is not to be in the ToR: it was taken out, or never set", id)
	case j.Generation != generation:
		return true, refusal.New(codes.Aborted, refusal.GenerationOver, "job %d is to be in the ToR with generation %d, not %d", id, j.Generation, generation)
	case j.invalid != nil:
		return true, refusal.New(codes.InvalidArgument, refusal.SwitchRefused, "the job cannot be in a ToR: %w", j.invalid)
	}
	switch f.state {
	case away:
		if f.connecting {
			return false, nil
		}
		return true, f.awayRefusal()
	case backup:
		return true, refusal.New(codes.Unavailable, refusal.SwitchAway, "the ToR at %s is not this appliance's to program: %s", f.config.Target, f.reason)
	}
	switch {
	case j.held:
		return true, refusal.New(codes.FailedPrecondition, refusal.SwitchRefused, "the ToR at %s refuses job %d: %s", f.config.Target, id, j.refused)
	case j.in:
		return true, nil
	}
	return false, nil
}

// awayRefusal says since when there is no session, and why; f.mu is held.
func (f *Fabric) awayRefusal() *refusal.Error {
	return refusal.New(codes.Unavailable, refusal.SwitchAway, "there has been no session with the ToR at %s for %v: %s",
		f.config.Target, time.Since(f.since).Round(time.Millisecond), strings.TrimSuffix(f.reason, "."))
}
