package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/ledger"
	"spillway/appliance/refusal"
)

// Where jobs are homed is decided here, and nowhere else.
//
// A job has a place for each of its shards, at as many nodes; where there are too few, several shards share one. What it has stays where it is as long as it can: a
// place is given up when its node is lost or drained, or does not reach a worker. A new one is at the node with the most free memory, of those with as much
// at the one with the fewest jobs.

// shards is among how many homes a job's chunks are shared out.
func shards(spec *v1.JobSpec) int { return int(max(spec.GetShards(), 1)) }

// displaced says why a job cannot stay where it is; empty: it can. The lock is held.
func (m *Manager) displaced(j *job) string {
	var texts []string
	for _, place := range j.record.Allocation.Places {
		switch n := m.nodes[place.Node]; {
		case n == nil:
			texts = append(texts, fmt.Sprintf("node %s is not there", place.Node))
		case !n.there || n.drained:
			texts = append(texts, n.trouble())
		case j.gaps[place.Node] != "":
			texts = append(texts, j.gaps[place.Node])
		}
	}
	return strings.Join(texts, "; ")
}

// settledAt reports whether all nodes that a job has a place at may be given something. The lock is held.
func (m *Manager) settledAt(j *job) bool {
	return !slices.ContainsFunc(j.record.Allocation.Places, func(p ledger.Place) bool { return m.nodes[p.Node] == nil || !m.nodes[p.Node].usable() })
}

// preferred are the nodes that may be given a job with packets of so many bytes, the best first. The lock is held.
func (m *Manager) preferred(bytes int) []string {
	names := m.names(func(n *node) bool { return n.usable() && n.MTU >= bytes })
	type load struct {
		free uint64
		jobs int
	}
	loads := map[string]load{}
	for _, name := range names {
		free, jobs := m.ledger.Free(name)
		loads[name] = load{free, jobs}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(loads[b].free, loads[a].free), cmp.Compare(loads[a].jobs, loads[b].jobs))
	})
	return names
}

// candidates are the nodes for a job that is there already, the best first: those that it has, those where it has a place without being there, and the others
// that have room. The lock is held.
func (m *Manager) candidates(j *job, excluded map[string]error) []string {
	rank := func(name string) int {
		if _, ok := j.record.Allocation.Place(name); ok {
			return 0
		}
		if _, ok := m.ledger.Place(j.id, name); ok {
			return 1
		}
		return 2
	}
	names := slices.DeleteFunc(m.preferred(packetBytes(int(j.record.Spec.Elements))), func(name string) bool {
		return excluded[name] != nil || !m.ledger.Fits(j.id, name)
	})
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return names
}

// spot is where a generation is to be homed.
type spot struct {
	remote
	place ledger.Place
	// stays: the generation before is homed there as well.
	stays bool
}

// choose finds places for a job's shards, and takes those that it does not have yet. The error is a *refusal.Error. The lock is held.
func (m *Manager) choose(j *job, excluded map[string]error) ([]spot, error) {
	names := m.candidates(j, excluded)
	var spots []spot
	for _, name := range names[:min(len(names), shards(j.record.Spec))] {
		place, ok := m.ledger.Take(j.id, name)
		if !ok {
			continue // it was counted among those with room
		}
		spots = append(spots, spot{remote: m.nodes[name].remote(), place: place})
	}
	if len(spots) == 0 {
		return nil, m.nowhere(j, excluded)
	}
	// Shards go round the places in order, so those that stay keep their number where that can be.
	order := func(s spot) int {
		i := slices.IndexFunc(j.record.Allocation.Places, func(p ledger.Place) bool { return p.Node == s.Name })
		if i < 0 {
			return len(j.record.Allocation.Places)
		}
		return i
	}
	slices.SortStableFunc(spots, func(a, b spot) int { return cmp.Compare(order(a), order(b)) })
	return spots, nil
}

// places are those of spots.
func places(spots []spot) (all []ledger.Place) {
	for _, s := range spots {
		all = append(all, s.place)
	}
	return all
}

// maxReasons bounds how many nodes a text is about.
const maxReasons = 8

// nowhere says why no node takes a job. The lock is held.
func (m *Manager) nowhere(j *job, excluded map[string]error) error {
	need := packetBytes(int(j.record.Spec.Elements))
	var texts []string
	for _, name := range m.names(func(*node) bool { return true }) {
		n := m.nodes[name]
		switch {
		case excluded[name] != nil:
			texts = append(texts, fmt.Sprintf("node %s: %v", name, excluded[name]))
		case !n.usable():
			texts = append(texts, n.trouble())
		case n.MTU < need:
			texts = append(texts, fmt.Sprintf("node %s has an MTU of %d, and a chunk is a packet of %d bytes", name, n.MTU, need))
		default:
			texts = append(texts, fmt.Sprintf("node %s has no run of %d free slots of %d elements", name, j.record.Allocation.Slots, j.record.Allocation.ClassElements))
		}
	}
	if len(texts) > maxReasons {
		texts = append(texts[:maxReasons], fmt.Sprintf("and %d more", len(texts)-maxReasons))
	}
	return refusal.New(codes.ResourceExhausted, refusal.NoRoomToMove, "no node can take job %q: %s", j.name, strings.Join(texts, "; ")).With("job", j.name)
}

// standby are the nodes that would take over from those that a job has, in order. The lock is held.
func (m *Manager) standby(j *job) []string {
	if len(m.nodes) < 2 || j.deleted {
		return nil
	}
	return slices.DeleteFunc(m.candidates(j, nil), func(name string) bool {
		_, has := j.record.Allocation.Place(name)
		return has
	})
}

// trim gives up the places that a job has beside those in its record, where something of it may be. The work of the job is held.
func (m *Manager) trim(j *job) {
	m.mu.Lock()
	var extra []remote
	for _, place := range m.ledger.Places(j.id) {
		if _, ok := j.record.Allocation.Place(place.Node); ok {
			continue
		}
		if r, ok := m.reachOrSkip(place.Node); ok {
			extra = append(extra, r)
		} else {
			m.ledger.Give(j.id, place.Node)
		}
	}
	m.mu.Unlock()
	each(extra, func(r remote) error {
		err := m.removeAt(r, j.id)
		m.mu.Lock()
		defer m.mu.Unlock()
		if err != nil { // if it is lost, it is looked at when it is back
			m.distrust(r.of, fmt.Sprintf("job %s could not be taken out of its aggregator: %v", j.name, err))
		}
		m.ledger.Give(j.id, r.Name)
		return nil
	})
}
