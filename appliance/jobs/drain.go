package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"spillway/appliance/refusal"
)

// DrainNode moves all that is homed at an appliance to others, and gives it nothing more. It returns the jobs that moved, when the last has. When the others
// have no room for all of it, it refuses and moves nothing.
func (m *Manager) DrainNode(ctx context.Context, name string) (moved []string, err error) {
	if !m.begin() {
		return nil, shuttingDown()
	}
	defer m.running.Done()
	m.draining.Lock()
	all, err := m.drainNode(ctx, name)
	m.draining.Unlock()
	if err != nil {
		return nil, err
	}
	for _, j := range all {
		if err := m.awaitMove(ctx, j, name); err != nil {
			return nil, err
		}
		moved = append(moved, j.name)
	}
	return moved, nil
}

// drainNode has room be set aside for all that must move, writes down that the node is drained, and begins. It returns the jobs that move.
func (m *Manager) drainNode(ctx context.Context, name string) ([]*job, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	n := m.nodes[name]
	if n == nil {
		m.mu.Unlock()
		return nil, noSuchNode(name)
	}
	if n.drained {
		defer m.mu.Unlock()
		return m.homed(name), nil // what is still there is moving
	}
	undo, err := m.setAside(n)
	drained := append(slices.Clone(m.drained), name)
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := m.store.PutDrained(drained); err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		undo()
		return nil, refusal.New(codes.Internal, refusal.Storage, "node %q is as it was: %w; see to the storage, and drain it again", name, err).With("node", name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drained, n.drained, n.vacant, n.since = drained, true, false, m.config.Now()
	all := m.homed(name) // there may be more than room was set aside for
	m.nodeEvent(levelInfo, "node-draining", n, "node %s is being drained: %d jobs move to others", name, len(all))
	m.kick()
	m.vacated()
	return all, nil
}

// homed are the jobs that have a place at a node. The lock is held.
func (m *Manager) homed(name string) (all []*job) {
	for _, j := range m.jobs {
		if _, ok := j.record.Allocation.Place(name); ok {
			all = append(all, j)
		}
	}
	slices.SortFunc(all, func(a, b *job) int { return strings.Compare(a.name, b.name) })
	return all
}

// setAside takes a place elsewhere for each job that has one at a node, or refuses. undo gives them back. The lock is held.
func (m *Manager) setAside(n *node) (undo func(), err error) {
	type taken struct {
		id   uint16
		node string
	}
	var took []taken
	undo = func() {
		for _, t := range took {
			m.ledger.Give(t.id, t.node)
		}
	}
	var texts []string
	for _, j := range m.homed(n.Name) {
		had := map[string]bool{}
		for _, place := range m.ledger.Places(j.id) {
			had[place.Node] = true
		}
		spots, err := m.choose(j, map[string]error{n.Name: errors.New("it is to be drained")})
		if err != nil {
			texts = append(texts, err.Error())
			continue
		}
		for _, s := range spots {
			if !had[s.Name] {
				took = append(took, taken{j.id, s.Name})
			}
		}
	}
	if len(texts) == 0 {
		return undo, nil
	}
	undo()
	return nil, refusal.New(codes.ResourceExhausted, refusal.NoRoomToMove, "node %q stays as it is: %s; delete a job that is not needed, or add an appliance, and drain it again",
		n.Name, strings.Join(texts, "; ")).With("node", n.Name)
}

// vacated says of nodes that are drained that nothing is left there. The lock is held.
func (m *Manager) vacated() {
	for _, n := range m.nodes {
		if n.drained && !n.vacant && len(m.homed(n.Name)) == 0 {
			n.vacant = true
			m.nodeEvent(levelInfo, "node-drained", n, "node %s is drained: nothing is homed there any more", n.Name)
		}
	}
}

// awaitMove waits until a job has no place at a node any more, or cannot be moved from there.
func (m *Manager) awaitMove(ctx context.Context, j *job, name string) error {
	for {
		m.mu.Lock()
		_, there := j.record.Allocation.Place(name)
		over, stuck, moving := j.deleted || !there || !m.nodes[name].drained, j.stuck, j.moving
		closed := m.closed
		if !over && moving == nil && !j.gone && j.deletions == 0 && j.stuck == "" {
			m.startMove(j, m.displaced(j))
			moving = j.moving
		}
		m.mu.Unlock()
		switch {
		case over:
			return nil
		case closed:
			return shuttingDown()
		case moving == nil:
			return refusal.New(codes.ResourceExhausted, refusal.NoRoomToMove, "node %q is not drained yet, job %q is still there: %s; it moves when that is seen to, or undrain the node", name, j.name, stuck).
				With("node", name).With("job", j.name)
		}
		select {
		case <-moving:
		case <-ctx.Done():
			return fmt.Errorf("wait for job %q to move from node %q, which goes on: %w", j.name, name, ctx.Err())
		}
	}
}

// UndrainNode lets a drained appliance be given jobs again.
func (m *Manager) UndrainNode(name string) error {
	if !m.begin() {
		return shuttingDown()
	}
	defer m.running.Done()
	m.draining.Lock()
	defer m.draining.Unlock()
	m.mu.Lock()
	n := m.nodes[name]
	known := n != nil || slices.Contains(m.drained, name)
	drained := slices.DeleteFunc(slices.Clone(m.drained), func(other string) bool { return other == name })
	news := len(drained) != len(m.drained)
	m.mu.Unlock()
	switch {
	case !known:
		return noSuchNode(name)
	case !news:
		return nil
	}
	if err := m.store.PutDrained(drained); err != nil {
		return refusal.New(codes.Internal, refusal.Storage, "node %q is as it was: %w; see to the storage, and undrain it again", name, err).With("node", name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drained = drained
	if n != nil {
		n.drained, n.since = false, m.config.Now()
		m.nodeEvent(levelInfo, "node-undrained", n, "node %s may be given jobs again", name)
	}
	m.kick()
	return nil
}
