package jobs

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

// maxUnread bounds the jobs whose changes a watcher has not read.
const maxUnread = 4096

// watcher is a Watch while it lasts. It remembers which jobs changed, not each change: a slow reader sees the last state of each. It is under Manager.mu.
type watcher struct {
	name string // of the one job; empty: all
	wake chan struct{}
	// changed are jobs in the order in which they changed first; a job that was deleted and made again is there twice.
	changed []*job
	ended   bool
	err     error
}

// note remembers that a job changed.
func (w *watcher) note(j *job) {
	if w.ended || j.hidden || w.name != "" && w.name != j.name || slices.Contains(w.changed, j) {
		return
	}
	if len(w.changed) == maxUnread {
		w.end(refusal.New(codes.Aborted, refusal.TooMany, "%d jobs changed that were not read: watch again, and read faster", maxUnread))
		return
	}
	w.changed = append(w.changed, j)
	w.poke()
}

func (w *watcher) end(err error) {
	if !w.ended {
		w.ended, w.err = true, err
		w.poke()
	}
}

func (w *watcher) poke() {
	select {
	case w.wake <- struct{}{}:
	default: // it is to wake anyway
	}
}

// read is what a watcher has not read, and whether it is over then.
func (m *Manager) read(w *watcher) (jobs []*v1.Job, ended bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range w.changed {
		jobs = append(jobs, m.view(j))
	}
	w.changed = nil
	return jobs, w.ended, w.err
}

// Watch sends jobs as they are, a message without a job, and then those that change, until ctx ends, which is no error.
func (m *Manager) Watch(ctx context.Context, name string, send func(*v1.WatchJobsResponse) error) error {
	w := &watcher{name: name, wake: make(chan struct{}, 1)}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return shuttingDown()
	}
	if name != "" {
		if _, err := m.find(name); err != nil {
			m.mu.Unlock()
			return err
		}
	}
	var jobs []*v1.Job
	for _, j := range m.sorted() {
		if name == "" || j.name == name {
			jobs = append(jobs, m.view(j))
		}
	}
	m.watchers[w] = true
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, w)
	}()
	for _, job := range jobs {
		if err := send(&v1.WatchJobsResponse{Job: job}); err != nil {
			return err
		}
	}
	if err := send(&v1.WatchJobsResponse{Synced: true}); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		}
		jobs, ended, err := m.read(w)
		for _, job := range jobs {
			if err := send(&v1.WatchJobsResponse{Job: job}); err != nil {
				return err
			}
		}
		if ended {
			return err
		}
	}
}
