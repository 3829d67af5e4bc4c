package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/xdp"
)

// node is an appliance as the Manager knows it. All of it is under Manager.mu.
type node struct {
	Node
	// there: it is not lost. clean: what is in its aggregator is what should be, so that it may be given more. drained: an operator wants nothing homed there.
	there, clean, drained bool
	// suspected: it was lost because it did not answer, so it is looked at now and then, whether or not somebody says that it is back.
	suspected bool
	// back: it was lost since it was ready last.
	back bool
	// first: it is one of those that were there from the beginning, and is looked at for the first time.
	first bool
	// reconciling: its aggregator is being compared with what should be in it; again: and once more after that; stale: and not used before.
	reconciling, again, stale bool
	// compared is when that was done last, and vacant that nothing is left of it to drain.
	compared time.Time
	vacant   bool
	// epoch counts the times that it was set or lost, losses those that it was lost. ctx ends when it is lost.
	epoch, losses int
	ctx           context.Context
	cancel        context.CancelFunc
	// reason is why it is not ready, and since when it is or is not.
	reason string
	since  time.Time
}

// usable reports whether it may be given jobs.
func (n *node) usable() bool { return n.there && n.clean && !n.drained }

// trouble says why a node is not usable.
func (n *node) trouble() string {
	switch {
	case !n.there:
		return fmt.Sprintf("node %s is lost: %s", n.Name, n.reason)
	case n.drained:
		return fmt.Sprintf("node %s is drained", n.Name)
	case n.reason != "":
		return fmt.Sprintf("node %s is not ready: %s", n.Name, n.reason)
	}
	return fmt.Sprintf("node %s is not ready: what is in its aggregator is being compared with what should be", n.Name)
}

// remote is a node as it was when something was begun with it.
type remote struct {
	Node
	of            *node
	epoch, losses int
	ctx           context.Context
}

// reach is a node to ask something of; false: it is not known, or lost. The lock is held.
func (m *Manager) reach(name string) (remote, bool) {
	n := m.nodes[name]
	if n == nil || !n.there {
		return remote{}, false
	}
	return n.remote(), true
}

// reachOrSkip is reach, to take something out there. A node that is lost keeps it: it is looked at before it is given anything, and looked at again if that is under way.
// The lock is held.
func (m *Manager) reachOrSkip(name string) (remote, bool) {
	r, ok := m.reach(name)
	if n := m.nodes[name]; !ok && n != nil {
		n.stale = n.reconciling
	}
	return r, ok
}

func (n *node) remote() remote { return remote{n.Node, n, n.epoch, n.losses, n.ctx} }

// ask calls a node. One that does not answer is lost.
func (m *Manager) ask(r remote, what string, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.ctx, m.config.NodePatience)
	defer cancel()
	err := call(ctx)
	if errors.Is(err, ErrNodeAway) {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch reason := fmt.Sprintf("it was asked to %s: %v", what, err); {
		case !r.of.there:
		case r.of.epoch == r.epoch:
			m.lose(r.of, reason, true)
		default: // it is another one that is there now, with the same aggregator perhaps
			m.distrust(r.of, reason)
		}
	}
	return err
}

// addAt has a node's aggregator take a generation, in the place of one of the same job that is there.
func (m *Manager) addAt(r remote, job xdp.Job) error {
	err := m.ask(r, "take a job", func(ctx context.Context) error { return r.Aggregator.AddJob(ctx, job) })
	if !errors.Is(err, xdp.ErrJobExists) {
		return err
	}
	if err := m.removeAt(r, job.ID); err != nil {
		return err
	}
	return m.ask(r, "take a job", func(ctx context.Context) error { return r.Aggregator.AddJob(ctx, job) })
}

// removeAt takes a job out of a node's aggregator. It is no error that it is not there.
func (m *Manager) removeAt(r remote, id uint16) error {
	err := m.ask(r, "give up a job", func(ctx context.Context) error { return r.Aggregator.RemoveJob(ctx, id) })
	if errors.Is(err, xdp.ErrNoJob) {
		return nil
	}
	return err
}

// each does something for all, at the same time, and returns the first error.
func each[T any](all []T, do func(T) error) error {
	var group errgroup.Group
	group.SetLimit(lookups)
	for _, one := range all {
		group.Go(func() error { return do(one) })
	}
	return group.Wait()
}

// addNode takes note of a node that is there. The lock is held, or nobody else has the Manager.
func (m *Manager) addNode(n Node) *node {
	is := m.nodes[n.Name]
	if is == nil {
		is = &node{since: m.config.Now()}
		m.nodes[n.Name] = is
	}
	is.Node = n
	is.epoch++
	if !is.there {
		is.there, is.clean, is.reason, is.since = true, false, "", m.config.Now()
		is.ctx, is.cancel = context.WithCancel(m.ctx)
	}
	is.suspected = false
	is.drained = slices.Contains(m.drained, n.Name)
	for _, id := range m.ledger.SetNode(n.Name, n.Slots, n.MaxJobs) {
		if j := m.byID(id); j != nil {
			j.gap(n.Name, "its slots at node "+n.Name+" are not there any more")
		}
	}
	return is
}

// lose takes note that a node is lost, and has what is homed there move. The lock is held.
func (m *Manager) lose(n *node, reason string, suspected bool) {
	if m.closed {
		return
	}
	n.epoch++
	n.losses++
	n.cancel()
	n.ctx, n.cancel = context.WithCancel(m.ctx)
	n.there, n.clean, n.back, n.suspected, n.reason, n.since = false, false, true, suspected, reason, m.config.Now()
	m.nodeEvent(levelError, "node-lost", n, "node %s is lost: %s", n.Name, reason)
	m.kick()
}

// nodeEvent says what happened to a node.
func (m *Manager) nodeEvent(level v1.EventLevel, kind string, n *node, format string, args ...any) {
	m.report(level, kind, "", nil, fmt.Sprintf(format, args...), "node", n.Name)
}

// self is the node that the Manager runs on.
func (m *Manager) self() *node { return m.nodes[m.config.Self] }

// SetNode says that an appliance is there: a new one, or one that was lost and is back. What is in its aggregator is compared with what should be, in the
// background: old generations are taken out, and only then is it given anything. It may be called again with the same node.
func (m *Manager) SetNode(n Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	if err := n.validate(); err != nil {
		m.config.Log.Error("an appliance cannot be used", "node", n.Name, "error", err)
		return
	}
	m.startReconcile(m.addNode(n))
	m.kick() // where its place is not what it was
}

// LoseNode says that an appliance is dead, and why: what is homed there moves to others at once, in the background.
func (m *Manager) LoseNode(name, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch n := m.nodes[name]; {
	case n == nil:
	case n.there:
		m.lose(n, reason, false)
	default:
		n.suspected = false
	}
}

// distrust has a node be given nothing more before its aggregator was compared with what should be in it. The lock is held.
func (m *Manager) distrust(n *node, reason string) {
	if m.closed || !n.there {
		return
	}
	n.clean, n.reason, n.since = false, reason, m.config.Now()
	m.nodeEvent(levelWarning, "node-doubtful", n, "node %s is given nothing before it was looked at: %s", n.Name, reason)
	m.startReconcile(n)
}

// compareInterval is how often a node is looked at with which nothing seems to be wrong: a call that was given up may have been heard late, and an aggregator may have
// been loaded anew.
const compareInterval = 10 * time.Second

// revisit looks at the nodes that were lost because they did not answer, at those that could not be compared, and now and then at all.
func (m *Manager) revisit() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.nodes {
		due := !n.clean || m.config.Now().Sub(n.compared) >= compareInterval
		if !n.reconciling && (n.there || n.suspected) && due {
			m.startReconcile(n)
		}
	}
	m.kick()
}

// byID is the job with an id. The lock is held.
func (m *Manager) byID(id uint16) *job {
	for _, j := range m.jobs {
		if j.id == id {
			return j
		}
	}
	return nil
}

// names are those of the nodes for which the condition holds. The lock is held.
func (m *Manager) names(condition func(*node) bool) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(m.nodes)) {
		if condition(m.nodes[name]) {
			names = append(names, name)
		}
	}
	return names
}

// Nodes are the appliances as jobs see them, by name: state, jobs, capacity and rack. Who leads, where its API is, and its version are for others to add.
func (m *Manager) Nodes() []*v1.ClusterNode {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*v1.ClusterNode
	for _, name := range m.names(func(*node) bool { return true }) {
		n := m.nodes[name]
		view := &v1.ClusterNode{Name: name, Since: timestamppb.New(n.since), Capacity: m.ledger.NodeCapacity(name), Rack: n.Rack, Jobs: m.jobsAt(name)}
		switch {
		case n.usable():
			view.State = v1.NodeState_NODE_STATE_READY
		case n.there && n.drained && len(view.Jobs) == 0:
			view.State, view.Reason = v1.NodeState_NODE_STATE_DRAINED, "an operator wants nothing homed there"
		case n.there && n.drained:
			view.State, view.Reason = v1.NodeState_NODE_STATE_DRAINING, m.remaining(name)
		default:
			view.State, view.Reason = v1.NodeState_NODE_STATE_LOST, strings.TrimPrefix(n.trouble(), "node "+name+" is ")
		}
		all = append(all, view)
	}
	return all
}

// jobsAt are the names of the jobs that have a place at a node, in order. The lock is held.
func (m *Manager) jobsAt(name string) (names []string) {
	for _, j := range m.sorted() {
		if _, ok := j.record.Allocation.Place(name); ok {
			names = append(names, j.name)
		}
	}
	return names
}

// remaining says what a node that is being drained waits for. The lock is held.
func (m *Manager) remaining(name string) string {
	var texts []string
	for _, at := range m.jobsAt(name) {
		if text := m.jobs[at].stuck; text != "" {
			texts = append(texts, fmt.Sprintf("job %s: %s", at, text))
		}
	}
	if len(texts) == 0 {
		return "its jobs are moving"
	}
	return strings.Join(texts, "; ")
}

func noSuchNode(name string) error {
	return refusal.New(codes.NotFound, refusal.NoSuchNode, "there is no node %q: spillctl nodes lists those that there are", shorten(name)).With("node", shorten(name))
}
