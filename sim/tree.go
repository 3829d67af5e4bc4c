package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"spillway/wire"
	"spillway/worker/engine"
	"spillway/xdp"
)

// Tree is a scenario with a job whose home is a tree of nodes.
type Tree struct {
	Seed   uint64
	Faults Faults
	Burst  int
	Job    *Job
	Nodes  int
	Shape  Shape // of the first generation
	// Tor stands between the workers of node 0, that node and the others, and has the job's Share; nil: all are on a switch that only forwards.
	Tor *TorPlan
	// Wipes are times at which a node forgets everything, and goes on.
	Wipes []NodeWipe
	// Deaths are times at which a node dies, and the job moves to a tree without it.
	Deaths []NodeDeath
	Spread int64 // how long it takes at most until a node or a worker has heard of a new generation
}

// Shape is a tree: for each node its parent, for each rank its node. A node that is not in it has itself as its parent.
type Shape struct {
	Root    int
	Parents []int
	Of      []int
}

// NodeWipe is when a node forgets.
type NodeWipe struct {
	At   int64
	Node int
}

// NodeDeath is when a node dies, how long after that the job moves, and how long after that the node may be in a tree again.
type NodeDeath struct {
	At           int64
	Node         int
	Notice, Back int64
}

const (
	treePort     = 9736 // of homes with nodes below them, and of those that no ToR looks after
	selfPort     = 9744 // of node 0, to which its parent's packets come; others' follow
	mostNodes    = 72
	mostChildren = 64
)

func nodeAddr(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 79, 0, byte(n + 1)}) }

// wood is a Tree while it runs.
type wood struct {
	*Tree
	fabric  *Fabric
	base    uint16 // the id of the job at node n is base + n
	nodes   []*Home
	shape   Shape
	job     xdp.Job // what all nodes' have in common
	direct  bool    // past the ToR
	tor     *Tor
	workers []*Worker
	away    map[int]bool
	moves   int
}

// Run plays the scenario over an aggregator with room for mostNodes jobs from the given id on, and returns an error if any worker ends with anything but the
// right result.
func (s *Tree) Run(k *Kit) (o Outcome, err error) {
	w := &wood{Tree: s, base: k.TreeJob, fabric: NewFabric(rand.New(rand.NewPCG(s.Seed, 0xfab)), s.Faults), shape: s.Shape, away: make(map[int]bool)}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.build(k); err != nil {
		return o, err
	}
	for rank, worker := range w.workers {
		for i, c := range s.Job.Collectives {
			w.fabric.At(s.Job.Start[rank][i], func(now int64) error {
				defer w.fabric.Kick(worker.Addr(), now)
				return worker.Submit(now, c.issue(s.Job, rank))
			})
		}
	}
	err = w.fabric.Run(timeLimit, func() bool {
		return !slices.ContainsFunc(w.workers, func(x *Worker) bool { return len(x.Finished) < len(s.Job.Collectives) })
	})
	if o, err = w.outcome(err); err != nil {
		return o, err
	}
	for i, c := range s.Job.Collectives {
		if err := c.check(w.workers, i, s.Job); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (w *wood) build(k *Kit) error {
	w.job = xdp.Job{
		Generation: uint8(w.Seed), Cookie: uint32(w.Seed * 0x9e3779b97f4a7c15 >> 16),
		Elements: w.Job.Elements, Window: w.Job.Window, HomePorts: w.Job.HomePorts, WorkerPort: workerPort,
	}
	for n := range w.Nodes {
		home := NewHome(k.Tree, nodeAddr(n))
		w.nodes = append(w.nodes, home)
		w.fabric.Add(home)
	}
	for n := range w.Nodes {
		if w.inTree(n) {
			if err := w.nodes[n].Serve(w.node(n)); err != nil {
				return err
			}
		}
	}
	if w.Tor != nil {
		if err := w.addTor(k); err != nil {
			return err
		}
	}
	results := make(taken)
	for rank := range w.Job.Workers {
		x, err := NewWorker(treeWorker(rank), workerPort, w.homeOf(rank), w.Job.HomePorts, w.Burst, w.config(rank))
		if err != nil {
			return err
		}
		x.wanders, x.taken = true, results
		// Those of every node that can be its home.
		groups := []netip.Addr{treeGroup(w.shape.Of[rank])}
		for n := range w.Nodes {
			if len(w.Deaths) > 0 && n != w.shape.Of[rank] {
				groups = append(groups, treeGroup(n))
			}
		}
		w.fabric.Add(x, groups...)
		w.workers = append(w.workers, x)
	}
	for _, x := range w.Wipes {
		w.fabric.At(x.At, func(int64) error { return w.wipe(x.Node) })
	}
	for _, d := range w.Deaths {
		w.fabric.At(d.At, func(now int64) error { return w.die(now, d) })
	}
	return nil
}

func treeWorker(rank int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 80, byte(rank >> 8), byte(rank)})
}

func treeGroup(n int) netip.Addr { return netip.AddrFrom4([4]byte{239, 79, 0, byte(n)}) }

func (w *wood) inTree(n int) bool { return n == w.shape.Root || w.shape.Parents[n] != n }

// children are the nodes and the ranks below a node. The nodes have the first bits.
func (s *Shape) children(n int) (nodes, ranks []int) {
	for child, parent := range s.Parents {
		if parent == n && child != n {
			nodes = append(nodes, child)
		}
	}
	for rank, of := range s.Of {
		if of == n {
			ranks = append(ranks, rank)
		}
	}
	return nodes, ranks
}

// homePort is the first of a node's ports for its children.
func (w *wood) homePort(n int) uint16 {
	if n == 0 && w.tor != nil && !w.direct {
		return homePort
	}
	return treePort
}

// node is the job as a node has it. Nodes with other nodes below them send copies, the others have a group.
func (w *wood) node(n int) xdp.Job {
	nodes, ranks := w.shape.children(n)
	job := w.job
	job.ID, job.Workers = w.base+uint16(n), len(nodes)+len(ranks)
	job.Home = netip.AddrPortFrom(nodeAddr(n), w.homePort(n))
	if len(nodes) == 0 {
		job.Group = treeGroup(n)
	}
	for i, child := range nodes {
		job.Members = append(job.Members, xdp.Member{
			Addr: nodeAddr(child), Bits: 1 << i, MAC: macOf2(nodeAddr(child)), Ifindex: 1, Port: selfPort + uint16(child),
		})
	}
	for i, rank := range ranks {
		job.Members = append(job.Members, xdp.Member{
			Addr: treeWorker(rank), Bits: 1 << (len(nodes) + i), MAC: macOf2(treeWorker(rank)), Ifindex: 1,
		})
	}
	if n == 0 && w.tor != nil && !w.direct {
		job.Members = append(job.Members, xdp.Member{Addr: torAddr, Bits: wire.FullBitmap(job.Workers)})
	}
	if n == w.shape.Root {
		return job
	}
	parent := w.shape.Parents[n]
	siblings, others := w.shape.children(parent)
	job.Parent = &xdp.Parent{
		Home: netip.AddrPortFrom(nodeAddr(parent), w.homePort(parent)), HomePorts: w.job.HomePorts,
		Job: w.base + uint16(parent), Generation: job.Generation, Cookie: job.Cookie,
		Children: len(siblings) + len(others), Rank: slices.Index(siblings, n),
		Self: netip.AddrPortFrom(nodeAddr(n), selfPort+uint16(n)),
		MAC:  macOf2(nodeAddr(parent)), SelfMAC: macOf2(nodeAddr(n)), ChildrenMAC: macOf2(nodeAddr(n)),
	}
	return job
}

func macOf2(addr netip.Addr) net.HardwareAddr {
	mac := macOf(addr)
	return mac[:]
}

func (w *wood) homeOf(rank int) []netip.AddrPort {
	n := w.shape.Of[rank]
	return []netip.AddrPort{netip.AddrPortFrom(nodeAddr(n), w.homePort(n))}
}

// config are the numbers of a worker.
func (w *wood) config(rank int) engine.Config {
	n := w.shape.Of[rank]
	nodes, ranks := w.shape.children(n)
	job := w.job
	job.ID = w.base + uint16(n)
	cfg := w.Job.config(&job, 1, w.direct || n != 0)
	cfg.Rank = rank
	level := &engine.Level{Bit: len(nodes) + slices.Index(ranks, rank)}
	for _, node := range nodes {
		// Any rank below it will do: bits of nodes name whoever is there.
		level.Ranks = append(level.Ranks, w.someRank(node))
	}
	level.Ranks = append(level.Ranks, ranks...)
	cfg.Level = level
	return cfg
}

// someRank is a rank below a node.
func (w *wood) someRank(n int) int {
	nodes, ranks := w.shape.children(n)
	if len(ranks) > 0 {
		return ranks[0]
	}
	return w.someRank(nodes[0])
}

// wipe makes a node forget its sums.
func (w *wood) wipe(n int) error {
	if w.away[n] || len(w.nodes[n].jobs) == 0 {
		return nil
	}
	_, err := w.nodes[n].Wipe()
	return err
}

// die kills a node with its memory.
func (w *wood) die(now int64, d NodeDeath) error {
	if w.away[d.Node] || len(w.away)+1 == w.Nodes {
		return nil
	}
	home := w.nodes[d.Node]
	home.Wipes++
	home.dead, w.away[d.Node] = true, true
	if err := home.Close(); err != nil {
		return err
	}
	w.fabric.At(now+d.Notice, func(now int64) error { return w.move(now) })
	w.fabric.At(now+d.Notice+d.Back, func(int64) error {
		home.dead = false
		delete(w.away, d.Node)
		return nil
	})
	return nil
}

// move begins a new generation over another tree of those that are there, of which everybody hears in their own time.
func (w *wood) move(now int64) error {
	dice := w.fabric.rand
	var able []int
	for n := range w.Nodes {
		if !w.away[n] {
			able = append(able, n)
		}
	}
	w.moves++
	w.shape = drawShape(dice, able, w.Nodes, w.Job.Workers)
	w.job.Generation++
	w.job.Cookie = dice.Uint32()
	w.direct = true
	if s, ok := w.fabric.Switch.(*rackSwitch); ok {
		s.group = netip.Addr{} // its members are no longer those that the ToR was told
	}
	generation := w.job.Generation
	soon := func() int64 { return now + dice.Int64N(w.Spread+1) }
	for n, home := range w.nodes {
		if !w.inTree(n) {
			continue // it keeps what it has, and is right for whoever has not heard
		}
		job := w.node(n)
		w.fabric.At(soon(), func(int64) error {
			if w.job.Generation != generation || home.dead {
				return nil
			}
			return home.Serve(job)
		})
	}
	for rank, x := range w.workers {
		x.Resume(w.fabric, soon(), w.config(rank), w.homeOf(rank))
	}
	return nil
}

func (w *wood) close() error {
	var errs []error
	if w.tor != nil {
		errs = append(errs, w.tor.Close())
	}
	for _, home := range w.nodes {
		errs = append(errs, home.Close())
	}
	return errors.Join(errs...)
}

func (w *wood) outcome(failure error) (Outcome, error) {
	f := w.fabric
	o := Outcome{
		Frames: f.Frames, Lost: f.Lost, Duplicated: f.Duplicated, Reordered: f.Reordered,
		Marked: f.Marked, Moves: w.moves, Time: time.Duration(f.now),
	}
	var text string
	for rank, x := range w.workers {
		stats := x.engine.Stats()
		o.Chunks += stats.Results
		o.Resends += stats.Resends
		o.Probes += stats.Probes
		o.SolicitAnswers += stats.SolicitAnswers
		text += fmt.Sprintf(" rank %d finished %d %+v;", rank, len(x.Finished), *stats)
	}
	for n, home := range w.nodes {
		events, err := home.Events()
		if err != nil {
			return o, errors.Join(failure, err)
		}
		o.Wipes += home.Wipes
		o.HomeEvents = added(o.HomeEvents, events)
		text += fmt.Sprintf(" node %d %v;", n, events)
	}
	if w.tor != nil {
		events, err := w.tor.Events()
		if err != nil {
			return o, errors.Join(failure, err)
		}
		o.Reboots, o.Events = w.tor.Reboots, events
	}
	if failure == nil {
		return o, nil
	}
	return o, fmt.Errorf("%w; shape %+v, away %v;%s", failure, w.shape, w.away, text)
}
