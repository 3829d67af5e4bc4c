package jobs

import (
	"context"
	"errors"
	"fmt"

	"spillway/xdp"
)

// startReconcile compares a node's aggregator with what should be in it, in the background. The lock is held.
func (m *Manager) startReconcile(n *node) {
	if m.closed {
		return
	}
	if n.reconciling {
		n.again = true
		return
	}
	n.reconciling = true
	m.running.Add(1)
	go func() {
		defer m.running.Done()
		for more := true; more; {
			more = m.reconcile(n)
		}
	}()
}

// reconcile compares once, and reports whether it must be done again.
func (m *Manager) reconcile(n *node) (again bool) {
	m.mu.Lock()
	n.again, n.stale = false, false
	r, clean := n.remote(), n.there && n.clean
	m.mu.Unlock()
	err := m.compare(r, clean)
	m.mu.Lock()
	defer m.mu.Unlock()
	n.compared = m.config.Now()
	if !m.closed && n.stale {
		return true
	}
	again = n.again && !m.closed
	n.reconciling = again
	if n.first {
		n.first = false
		m.starting--
	}
	switch {
	case m.closed || n.losses != r.losses: // it was lost meanwhile
	case err == nil:
		m.ready(n)
	case n.there && !errors.Is(err, ErrNodeAway) && n.reason != err.Error():
		n.clean, n.reason, n.since = false, err.Error(), m.config.Now()
		m.nodeEvent(levelError, "node-doubtful", n, "node %s is given nothing: %v", n.Name, err)
	}
	m.kick()
	return again
}

// ready has a node be given jobs. The lock is held.
func (m *Manager) ready(n *node) {
	if n.there && n.clean {
		return
	}
	if n.back {
		m.nodeEvent(levelInfo, "node-back", n, "node %s is back", n.Name)
	} else {
		m.nodeEvent(levelInfo, "node-ready", n, "node %s is as it should be", n.Name)
	}
	n.there, n.clean, n.suspected, n.back, n.reason, n.since = true, true, false, false, "", m.config.Now()
}

// lookRound begins to look at the nodes that are there from the beginning, but for the one that this runs on, which was seen to. The lock is held.
func (m *Manager) lookRound() {
	for _, n := range m.nodes {
		if n.there && !n.clean {
			n.first = true
			m.starting++
		}
	}
	for _, n := range m.nodes {
		if n.first {
			m.startReconcile(n)
		}
	}
	m.kick()
}

// compare takes out of a node's aggregator what should not be there, and finds out what should be and is not. What is of a job that is known is looked at again while nobody
// else changes the job. What nobody knows is taken out while nothing is placed at the node, so that it cannot be known meanwhile.
func (m *Manager) compare(r remote, clean bool) error {
	strangers, doubtful, err := m.inspect(r)
	if err == nil && clean && len(strangers) > 0 {
		strangers, doubtful, err = m.inspect(r) // it may have been of a job that was being deleted
	}
	if err == nil && clean && len(strangers) > 0 {
		m.mu.Lock()
		r.of.clean, r.of.reason, r.of.since = false, "", m.config.Now()
		m.mu.Unlock()
		strangers, doubtful, err = m.inspect(r)
	}
	if err != nil {
		return err
	}
	for _, job := range strangers {
		if err := m.evict(r, job); err != nil {
			return err
		}
	}
	for _, j := range doubtful {
		if err := m.verify(r, j); err != nil {
			return err
		}
	}
	return nil
}

// list is what is in a node's aggregator, by id.
func (m *Manager) list(r remote) (there map[uint16]xdp.Job, err error) {
	err = m.ask(r, "list its jobs", func(ctx context.Context) error {
		all, err := r.Aggregator.Jobs(ctx)
		there = map[uint16]xdp.Job{}
		for _, job := range all {
			there[job.ID] = job
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("its aggregator does not say what is in it: %w", err)
	}
	return there, nil
}

// inspect finds those that are there and that nobody knows, and the jobs that are not there as they should be.
func (m *Manager) inspect(r remote) (strangers []xdp.Job, doubtful []*job, err error) {
	there, err := m.list(r)
	if err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, job := range there {
		if m.byID(job.ID) == nil {
			strangers = append(strangers, job)
		}
	}
	for _, j := range m.jobs {
		is, ok := there[j.id]
		if right := ok && j.isInstalled(r.Name, &is); right != j.homedAt(r.Name) || ok && !right {
			doubtful = append(doubtful, j)
		}
	}
	return strangers, doubtful, nil
}

// homedAt reports whether the running generation has a home at a node.
func (j *job) homedAt(node string) bool {
	return j.record.Running != nil && j.record.Running.At(node) != nil
}

// evict takes out what nobody knows.
func (m *Manager) evict(r remote, job xdp.Job) error {
	if err := m.removeAt(r, job.ID); err != nil {
		return fmt.Errorf("take generation %d of job id %d, which nobody knows, out of its aggregator: %w", job.Generation, job.ID, err)
	}
	m.config.Log.Warn("a generation was in an aggregator that should not be there: it was taken out", "node", r.Name, "id", job.ID, "generation", job.Generation)
	return nil
}

// verify looks again at one job, while nobody else changes it.
func (m *Manager) verify(r remote, j *job) error {
	if err := j.acquire(r.ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNodeAway, err)
	}
	defer j.release()
	there, err := m.list(r)
	if err != nil {
		return err
	}
	is, ok := there[j.id]
	m.mu.Lock()
	right, homed := ok && !j.deleted && j.isInstalled(r.Name, &is), !j.deleted && j.homedAt(r.Name)
	m.mu.Unlock()
	if ok && !right {
		if err := m.evict(r, is); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if homed && !right {
		j.gap(r.Name, fmt.Sprintf("node %s has lost the memory of generation %d", r.Name, j.record.Generation))
	}
	return nil
}

// gap remembers that a job is not where it should be.
func (j *job) gap(node, why string) {
	if j.gaps == nil {
		j.gaps = map[string]string{}
	}
	j.gaps[node] = why
}

// isInstalled reports whether the job in a node's aggregator is the running generation.
func (j *job) isInstalled(node string, is *xdp.Job) bool {
	if !j.homedAt(node) || j.gaps[node] != "" {
		return false
	}
	running := j.record.Running
	place, ok := j.record.Allocation.Place(node)
	return ok && is.Generation == uint8(j.record.Generation) && is.Cookie == running.Cookie &&
		is.Home == running.At(node).Addr && is.Place != nil && *is.Place == place.First
}
