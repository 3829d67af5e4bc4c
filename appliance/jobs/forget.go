package jobs

import (
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"spillway/appliance/refusal"
)

// ErrNodeThere: an appliance that should be forgotten is there.
var ErrNodeThere = errors.New("the appliance is there")

// ForgetNode strikes out an appliance that is gone for good, and that it was drained. It refuses while the appliance is there or jobs have a place there. One that is
// started again later is known again.
func (m *Manager) ForgetNode(name string) error {
	if !m.begin() {
		return shuttingDown()
	}
	defer m.running.Done()
	m.draining.Lock()
	defer m.draining.Unlock()
	m.mu.Lock()
	n := m.nodes[name]
	there, homed := n != nil && n.there, m.jobsAt(name)
	drained := slices.DeleteFunc(slices.Clone(m.drained), func(other string) bool { return other == name })
	wasDrained := len(drained) != len(m.drained)
	m.mu.Unlock()
	switch {
	case there:
		return nodeThere(name)
	case len(homed) > 0:
		return refusal.New(codes.FailedPrecondition, refusal.NodeInUse, "node %q is lost, and jobs still have a place there: %s; they move when others have room, or delete them",
			name, strings.Join(homed, ", ")).With("node", name)
	}
	known, err := m.store.ForgetNode(name)
	switch {
	case errors.Is(err, ErrNodeThere):
		return nodeThere(name)
	case err != nil:
		return refusal.New(codes.Internal, refusal.Storage, "node %q is not forgotten: %w; see to the storage, and try again", name, err).With("node", name)
	case !known && n == nil && !wasDrained:
		return noSuchNode(name)
	}
	if wasDrained {
		if err := m.store.PutDrained(drained); err != nil {
			return refusal.New(codes.Internal, refusal.Storage, "node %q is still drained: %w; see to the storage, and try again", name, err).With("node", name)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drained = drained
	if n = m.nodes[name]; n != nil && n.there { // it came back meanwhile
		n.drained = false
		m.kick()
		return nil
	}
	if n != nil {
		n.losses++ // whatever is found out about it by those who look at it right now
		n.cancel()
		delete(m.nodes, name)
	}
	m.report(levelInfo, "node-forgotten", "", nil, "node "+name+" is forgotten", "node", name)
	return nil
}

func nodeThere(name string) error {
	return refusal.New(codes.FailedPrecondition, refusal.NodeInUse, "node %q is there: only one that is gone for good is forgotten; drain it, end its spillwayd, and try again after some seconds", name).
		With("node", name)
}
