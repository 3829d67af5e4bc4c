package jobs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/p4/pipeline"
	"spillway/xdp"
)

// The nodes of a cluster, and their aggregators: the compiled program with its maps, loaded when a test first needs it. The first is that of the rigs of one node.
var (
	nodeNames = []string{"a", "b", "c", "d"}
	planes    = [4]func() (*xdp.Aggregator, error){func() (*xdp.Aggregator, error) { return aggregator, nil }, newPlane(), newPlane(), newPlane()}
	// loaded are to be closed at the end.
	loaded struct {
		sync.Mutex
		planes []*xdp.Aggregator
	}
)

func newPlane() func() (*xdp.Aggregator, error) {
	return sync.OnceValues(func() (*xdp.Aggregator, error) {
		a, err := xdp.Load(xdp.Config{FirstPort: pipeline.FirstPort, Ports: 2 * pipeline.Ports})
		loaded.Lock()
		defer loaded.Unlock()
		if err == nil {
			loaded.planes = append(loaded.planes, a)
		}
		return a, err
	})
}

// closePlanes closes what was loaded.
func closePlanes() (err error) {
	for _, a := range loaded.planes {
		err = errors.Join(err, a.Close())
	}
	return err
}

// cluster is a rig of several nodes, the first of which runs the Manager.
type cluster struct {
	*rig
	hosts map[string]*host
}

// host is a node of which everything is real but the network to it.
type host struct {
	*steps
	plane *xdp.Aggregator
	name  string
	node  Node

	mu sync.Mutex
	// away: it does not answer. deaf: calls to it last until they are given up. mute: it does what it is told, and its answer to the next change is lost.
	away, deaf, mute bool
}

// newCluster is one of several nodes.
func newCluster(t testing.TB, nodes int, tor bool, change ...func(*Config)) *cluster {
	t.Helper()
	c := &cluster{hosts: map[string]*host{}}
	shared := newSteps()
	var all []Node
	for i, name := range nodeNames[:nodes] {
		plane, err := planes[i]()
		if err != nil {
			t.Fatalf("%+v", err)
		}
		h := &host{steps: shared, plane: plane, name: name}
		h.node = Node{Name: name, Aggregator: h, Paths: pathsOf{h, homeOf(i)}, MTU: 1500}
		c.hosts[name] = h
		all = append(all, h.node)
		t.Cleanup(func() { clearPlane(t, plane) })
	}
	c.rig = newRigOf(t, shared, tor, append([]func(*Config){func(config *Config) {
		config.Self, config.Nodes = nodeNames[0], all
		config.NodePatience = patience
	}}, change...)...)
	for _, h := range c.hosts {
		if h.plane != aggregator {
			c.planes = append(c.planes, h.plane)
		}
	}
	for _, n := range c.config.Nodes {
		c.ready(n.Name)
	}
	return c
}

// clearPlane takes out what a test left.
func clearPlane(t testing.TB, plane *xdp.Aggregator) {
	for _, job := range plane.Jobs() {
		if err := plane.RemoveJob(job.ID); err != nil {
			t.Error(err)
		}
	}
}

func homeOf(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, byte(254 - 4*i)}) }

// ready waits until nodes may be given jobs.
func (c *cluster) ready(names ...string) {
	c.t.Helper()
	c.become("ready", v1.NodeState_NODE_STATE_READY, names...)
}

func (c *cluster) become(what string, state v1.NodeState, names ...string) {
	c.t.Helper()
	c.until(strings.Join(names, " ")+" "+what, func() bool {
		for _, name := range names {
			if c.node(name).State != state {
				return false
			}
		}
		return true
	})
}

func (c *cluster) node(name string) *v1.ClusterNode {
	for _, n := range c.m.Nodes() {
		if n.Name == name {
			return n
		}
	}
	c.t.Fatalf("there is no node %s", name)
	return nil
}

// die has a host not answer any more, and its aggregator be empty when it does again.
func (h *host) die() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = true
}

// boot has it answer again, with an empty aggregator if it lost its memory.
func (c *cluster) boot(name string, empty bool) {
	h := c.hosts[name]
	if empty {
		clearPlane(c.t, h.plane)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away, h.deaf, h.mute = false, false, false
}

// kill has a host die, and be found dead.
func (c *cluster) kill(name string) {
	c.hosts[name].die()
	c.m.LoseNode(name, "its lease ended")
}

// call is what happens to a call of a host.
func (h *host) call(ctx context.Context, step string, change bool, do func() error) error {
	if err := h.step(step + "@" + h.name); err != nil {
		return err
	}
	if err := h.step(step); err != nil {
		return err
	}
	h.mu.Lock()
	away, deaf, mute := h.away, h.deaf, h.mute && change
	if mute {
		h.mute = false
		h.away = true
	}
	h.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrNodeAway, ctx.Err())
	case deaf:
		<-ctx.Done()
		return fmt.Errorf("%w: %w", ErrNodeAway, ctx.Err())
	case away:
		return fmt.Errorf("%w: no connection", ErrNodeAway)
	}
	err := do()
	if mute {
		return fmt.Errorf("%w: the connection broke", ErrNodeAway)
	}
	return err
}

func (h *host) AddJob(ctx context.Context, job xdp.Job) error {
	return h.call(ctx, "add", true, func() error { return h.plane.AddJob(job) })
}

func (h *host) RemoveJob(ctx context.Context, id uint16) error {
	return h.call(ctx, "remove", true, func() error { return h.plane.RemoveJob(id) })
}

func (h *host) Jobs(ctx context.Context) (all []xdp.Job, err error) {
	err = h.call(ctx, "list", false, func() error { all = h.plane.Jobs(); return nil })
	return all, err
}

// pathsOf leads from a host to 10.77.0.0/24 by eth0.
type pathsOf struct {
	*host
	home netip.Addr
}

func (p pathsOf) To(ctx context.Context, addr netip.Addr) (path Path, err error) {
	err = p.call(ctx, "path", false, func() error {
		a := addr.As4()
		if a[0] != 10 || a[1] != 77 {
			return fmt.Errorf("no route to %s from eth0", addr)
		}
		path = Path{Ifindex: 3, Interface: "eth0", Home: p.home, MTU: 1500, MAC: net.HardwareAddr{2, 0, a[0], a[1], a[2], a[3]}}
		return nil
	})
	return path, err
}

// quiet waits until nothing moves any more, and then checks what must hold whenever that is so: every running generation is installed exactly at its homes, the account
// is the sum of what jobs hold, and nothing is left anywhere of what was before.
func (c *cluster) quiet() {
	c.t.Helper()
	var problem string
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if problem = c.settled(); problem == "" {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("not as it should be within %v: %s", patience, problem)
		}
	}
}

// settled says what is not as it should be.
func (c *cluster) settled() string {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	records, err := m.store.Jobs()
	if err != nil {
		return err.Error()
	}
	written := map[string]string{}
	for _, record := range records {
		written[record.Name()] = describe(&record)
	}
	want := map[string][]string{}
	for _, j := range m.sorted() {
		if j.moving != nil || j.forming || j.stuck != "" {
			return fmt.Sprintf("job %s: moving %v, forming %v, %s", j.name, j.moving != nil, j.forming, j.stuck)
		}
		if why := m.displaced(j); why != "" {
			return fmt.Sprintf("job %s: %s", j.name, why)
		}
		if is := describe(j.record); is != written[j.name] {
			return fmt.Sprintf("job %s is %s, and written down is %s", j.name, is, written[j.name])
		}
		delete(written, j.name)
		places := m.ledger.Places(j.id)
		if len(places) != len(j.record.Allocation.Places) {
			return fmt.Sprintf("job %s holds %v, and its record says %v", j.name, places, j.record.Allocation.Places)
		}
		for _, place := range j.record.Allocation.Places {
			if is, ok := m.ledger.Place(j.id, place.Node); !ok || is != place {
				return fmt.Sprintf("job %s has %v, and the account %v (%v)", j.name, place, is, ok)
			}
			if j.record.Running != nil {
				want[place.Node] = append(want[place.Node], fmt.Sprintf("%d generation %d cookie %d at %d", j.id, uint8(j.record.Generation), j.record.Running.Cookie, place.First))
			}
		}
		if running := j.record.Running; running != nil && len(running.Homes) != len(j.record.Allocation.Places) {
			return fmt.Sprintf("job %s has %d homes and %d places", j.name, len(running.Homes), len(j.record.Allocation.Places))
		}
	}
	if len(written) > 0 {
		return fmt.Sprintf("written down is what is not there: %v", written)
	}
	for name, h := range c.hosts {
		n := m.nodes[name]
		if n == nil || !n.there {
			continue
		}
		if n.reconciling || !n.clean {
			return fmt.Sprintf("node %s is being looked at: %s", name, n.reason)
		}
		var is []string
		for _, job := range h.plane.Jobs() {
			is = append(is, fmt.Sprintf("%d generation %d cookie %d at %d", job.ID, job.Generation, job.Cookie, *job.Place))
		}
		slices.Sort(is)
		slices.Sort(want[name])
		if !slices.Equal(is, want[name]) {
			return fmt.Sprintf("node %s has %v, and should have %v", name, is, want[name])
		}
	}
	return c.torSettled()
}

// torSettled says what in the ToR is not as it should be. The Manager's lock is held.
func (c *cluster) torSettled() string {
	if c.tor == nil {
		return ""
	}
	has := c.tor.has()
	for _, j := range c.m.sorted() {
		told, ok := has[j.id]
		delete(has, j.id)
		through := j.record.Running != nil && j.record.Running.Through
		if ok != through || ok && (told.Generation != uint8(j.record.Generation) || told.Cookie != j.record.Running.Cookie || told.Home != j.record.Running.Home(0).Addr) {
			return fmt.Sprintf("job %s: through the ToR %v, and that has %v: %+v", j.name, through, ok, told)
		}
	}
	if len(has) > 0 {
		return fmt.Sprintf("the ToR has what nobody knows: %v", has)
	}
	return ""
}
