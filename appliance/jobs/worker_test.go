package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

// worker is a Join that runs.
type worker struct {
	r       *rig
	rank    int
	updates chan *v1.JoinResponse
	done    chan error
	cancel  context.CancelFunc
	params  *v1.Parameters
}

// join begins one. What it is told must be read, but for the first 1000 updates.
func (r *rig) join(job string, rank int, change ...func(*v1.JoinRequest)) *worker {
	r.t.Helper()
	request := &v1.JoinRequest{Job: job, Rank: uint32(rank), Address: workerAddr(rank).String(), Description: fmt.Sprintf("process of rank %d", rank)}
	for _, c := range change {
		c(request)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &worker{r: r, rank: rank, updates: make(chan *v1.JoinResponse, 1000), done: make(chan error, 1), cancel: cancel}
	m := r.m
	go func() {
		w.done <- m.Join(ctx, request, func(u *v1.JoinResponse) error {
			select {
			case w.updates <- u:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	r.t.Cleanup(cancel)
	return w
}

// resume begins a Join for the part that a worker had.
func (w *worker) resume(change ...func(*v1.JoinRequest)) *worker {
	w.r.t.Helper()
	again := w.r.join(w.job(), w.rank, append([]func(*v1.JoinRequest){func(request *v1.JoinRequest) {
		request.Resume = &v1.Resume{Generation: w.params.Generation, Cookie: w.params.Cookie}
	}}, change...)...)
	again.params = w.params
	return again
}

// job is the name of the worker's job, by its id.
func (w *worker) job() string {
	info, ok := w.r.m.Job(uint16(w.params.JobId))
	if !ok {
		w.r.t.Fatalf("there is no job %d", w.params.JobId)
	}
	return info.Job.Spec.Name
}

// next is the next update for which the condition holds.
func (w *worker) next(what string, condition func(*v1.JoinResponse) bool) *v1.JoinResponse {
	w.r.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case u := <-w.updates:
			if condition(u) {
				return u
			}
		case err := <-w.done:
			w.done <- err
			select {
			case u := <-w.updates: // what came before the end
				if condition(u) {
					return u
				}
				continue
			default:
			}
			w.r.t.Fatalf("rank %d waits for %s, and its call ended: %v", w.rank, what, err)
		case <-deadline:
			w.r.t.Fatalf("rank %d: %s did not come within %v", w.rank, what, patience)
		}
	}
}

// begun waits for the parameters.
func (w *worker) begun() *v1.Parameters {
	w.r.t.Helper()
	w.params = w.next("parameters", func(u *v1.JoinResponse) bool { return u.GetParameters() != nil }).GetParameters()
	return w.params
}

// waits waits until the worker is told that it waits for just these ranks.
func (w *worker) waits(missing ...uint32) *v1.Waiting {
	w.r.t.Helper()
	return w.next(fmt.Sprintf("to wait for %v", missing), func(u *v1.JoinResponse) bool {
		return u.GetWaiting() != nil && slices.Equal(u.GetWaiting().Missing, missing)
	}).GetWaiting()
}

// notice waits for a notice of a kind about just these ranks.
func (w *worker) notice(kind v1.NoticeKind, ranks ...uint32) string {
	w.r.t.Helper()
	return w.next(fmt.Sprintf("%v about %v", kind, ranks), func(u *v1.JoinResponse) bool {
		return u.GetNotice().GetKind() == kind && slices.Equal(u.GetNotice().GetRanks(), ranks)
	}).GetNotice().GetText()
}

// end waits for the end of the call.
func (w *worker) end() error {
	w.r.t.Helper()
	select {
	case err := <-w.done:
		return err
	case <-time.After(patience):
		w.r.t.Fatalf("the call of rank %d did not end within %v", w.rank, patience)
		return nil
	}
}

// vanish ends the call without a word.
func (w *worker) vanish() {
	w.r.t.Helper()
	w.cancel()
	if err := w.end(); !errors.Is(err, context.Canceled) {
		w.r.t.Errorf("rank %d vanished: %v", w.rank, err)
	}
}

func (w *worker) leave() {
	w.r.t.Helper()
	request := &v1.LeaveRequest{Job: w.job(), Rank: uint32(w.rank), Part: &v1.Resume{Generation: w.params.Generation, Cookie: w.params.Cookie}}
	if err := w.r.m.Leave(w.r.t.Context(), request); err != nil {
		w.r.t.Fatalf("rank %d leaves: %v", w.rank, err)
	}
	if err := w.end(); err != nil {
		w.r.t.Errorf("the call of rank %d, which left, ended with %v", w.rank, err)
	}
}

// run creates a job and has all its ranks join.
func (r *rig) run(name string, workers int) []*worker {
	r.t.Helper()
	r.create(name, workers)
	return r.joinAll(name, workers)
}

func (r *rig) joinAll(name string, workers int) (all []*worker) {
	r.t.Helper()
	for rank := range workers {
		all = append(all, r.join(name, rank))
	}
	for _, w := range all {
		w.begun()
	}
	return all
}
