package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

// sweep deletes the jobs that were without a worker for their grace, and those that are drained.
func (m *Manager) sweep(ctx context.Context) {
	if !m.begin() {
		return
	}
	defer m.running.Done()
	m.mu.Lock()
	all := m.sorted()
	m.mu.Unlock()
	for _, j := range all {
		m.announce(j)
		m.collect(ctx, j)
	}
}

// resumeWithin is how long the members of a generation that was restored may take to come back before the others hear that they are lost. Workers
// call again every two seconds at the least.
const resumeWithin = 5 * time.Second

// announce tells those that take part of members that were lost while there was no daemon to see it.
func (m *Manager) announce(j *job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for rank := range j.members {
		if member := &j.members[rank]; member.lost() && !member.told && m.config.Now().Sub(member.since) >= resumeWithin {
			member.told = true
			m.tellOthers(j, uint32(rank), v1.NoticeKind_NOTICE_KIND_LOST)
		}
	}
}

// collect deletes a job that nobody needs. A worker that joins in time keeps it.
func (m *Manager) collect(ctx context.Context, j *job) {
	m.mu.Lock()
	kind, why := m.verdict(j)
	m.mu.Unlock()
	if kind == "" {
		return
	}
	_, err := m.remove(ctx, j, func() error {
		if now, _ := m.verdict(j); now != kind {
			return errInUse
		}
		return nil
	}, kind, why)
	if refused := refusal.Of(err); err != nil && err != errInUse && ctx.Err() == nil && (refused == nil || refused.Reason != refusal.NoSuchJob) {
		m.config.Log.Warn("a job that nobody needs could not be deleted yet", "job", j.name, "error", err)
	}
}

// errInUse: somebody joined between the verdict and its execution.
var errInUse = errors.New("the job is in use again")

// verdict says why the job should be deleted, as the kind of an event and in words; empty: it should not. The lock is held.
func (m *Manager) verdict(j *job) (kind, why string) {
	switch {
	case j.gone || j.forming || j.busy():
		return "", ""
	case j.record.Draining && j.finished():
		return "job-deleted", "was deleted: it was draining, and its last worker has left"
	case m.config.Now().Sub(j.idle) >= j.grace():
		return "job-collected", fmt.Sprintf("was deleted: it was without any worker for %v, its grace", j.grace())
	}
	return "", ""
}
