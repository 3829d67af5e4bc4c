package rack

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"

	"spillway/worker"
	"spillway/worker/engine"
	"spillway/xdp"
)

// addTreeJob puts a job into the aggregators of all racks and of the root.
func (r *Rack) addTreeJob(job Job) error {
	job = r.completed(job)
	if err := r.suitsTree(job); err != nil {
		return err
	}
	var secret [4]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return fmt.Errorf("draw the cookie of job %s: %w", job.Name, err)
	}
	id := uint16(len(r.forest.jobs))
	if id == treeJobs {
		return fmt.Errorf("job %s: several racks run at most %d jobs", job.Name, treeJobs)
	}
	base := xdp.Job{
		ID: id, Generation: 1, Cookie: binary.BigEndian.Uint32(secret[:]), Elements: job.Elements, Window: job.Window, HomePorts: 4,
	}
	root := base
	root.Workers = r.config.Racks
	root.Home, root.WorkerPort = netip.AddrPortFrom(spineAddr(r.config.Racks), treeRootPort), treeSelfPort+id
	root.Group = netip.AddrFrom4([4]byte{239, 77, 255, byte(id)})
	for rack := range r.config.Racks {
		root.Members = append(root.Members, xdp.Member{Addr: spineAddr(rack), Bits: 1 << rack})
	}
	if err := r.forest.nodes[r.config.Racks].plane.AddJob(root); err != nil {
		return fmt.Errorf("the root: %w", err)
	}
	for rack := range r.config.Racks {
		node := r.forest.nodes[rack]
		inner := base
		inner.Workers = r.config.Workers
		inner.Home, inner.WorkerPort, inner.Group = netip.AddrPortFrom(rackHomeAddr(rack), treeHomePort), workerPorts+id, treeGroup(id)
		for i := range r.config.Workers {
			inner.Members = append(inner.Members, xdp.Member{Addr: rackWorkerAddr(rack, i), Bits: 1 << i})
		}
		inner.Parent = &xdp.Parent{
			Home: root.Home, HomePorts: root.HomePorts, Job: id, Generation: root.Generation, Cookie: root.Cookie,
			Children: r.config.Racks, Rank: rack, Self: netip.AddrPortFrom(spineAddr(rack), treeSelfPort+id), Group: root.Group,
			MAC: hardwareAddr(root.Home.Addr()), SelfMAC: hardwareAddr(spineAddr(rack)), ChildrenMAC: hardwareAddr(rackHomeAddr(rack)),
			Up: node.up.index, Down: node.down.index,
		}
		if err := node.plane.AddJob(inner); err != nil {
			return fmt.Errorf("rack %d: %w", rack, err)
		}
	}
	r.forest.jobs[job.Name] = id
	r.forest.cookies = append(r.forest.cookies, base.Cookie)
	return nil
}

// treeGroup is a job's multicast group in every rack.
func treeGroup(id uint16) netip.Addr { return netip.AddrFrom4([4]byte{239, 77, 0, byte(id)}) }

// suitsTree refuses what a job of several racks cannot have.
func (r *Rack) suitsTree(job Job) error {
	switch {
	case job.Quorum != 0:
		return fmt.Errorf("job %s: a job of several racks waits for all its workers; it cannot have a quorum", job.Name)
	case job.MinWorkers != 0:
		return fmt.Errorf("job %s: a job of several racks is not elastic", job.Name)
	case job.Unicast:
		return fmt.Errorf("job %s: several racks publish by multicast", job.Name)
	case len(job.Hosts) != len(r.workers):
		return fmt.Errorf("job %s: a job of several racks runs on all %d workers, not on %d", job.Name, len(r.workers), len(job.Hosts))
	}
	return nil
}

// inviteTree makes the invitations of a job of several racks.
func (r *Rack) inviteTree(job Job) ([]Invitation, error) {
	job = r.completed(job)
	id, ok := r.forest.jobs[job.Name]
	if !ok {
		return nil, fmt.Errorf("there is no job %s", job.Name)
	}
	racks, each := r.config.Racks, r.config.Workers
	beyond := make([][]int, racks)
	for rank := range r.workers {
		beyond[rank/each] = append(beyond[rank/each], rank)
	}
	var all []Invitation
	for rank := range r.workers {
		rack := rank / each
		all = append(all, Invitation{Job: job.Name, Rank: rank, Workers: len(r.workers), Params: &worker.Params{
			Job: id, Generation: 1, Cookie: r.forest.cookies[id], Rank: rank, Workers: len(r.workers),
			Level:    &engine.Level{Bit: rank % each, Ranks: beyond[rack], Beyond: beyond},
			Elements: job.Elements, Window: job.Window, MinRTO: job.MinRTO, MaxRTO: job.MaxRTO, Silence: job.Silence,
			Homes: []worker.Home{{Addr: netip.AddrPortFrom(rackHomeAddr(rack), treeHomePort), Ports: 4}}, Group: treeGroup(id), WorkerPort: workerPorts + id,
			Addr: rackWorkerAddr(rack, rank%each),
		}})
	}
	return all, nil
}

// levelCounters are what the aggregators of a level counted of a job, added up.
func (r *Rack) levelCounters(job string, nodes []*treeNode) (map[string]uint64, error) {
	sum := make(map[string]uint64)
	for _, node := range nodes {
		counters, err := node.plane.Counters(r.forest.jobs[job])
		if err != nil {
			return nil, err
		}
		for name, n := range counters {
			sum[name] += n
		}
	}
	return sum, nil
}

// Racks is how many racks there are.
func (r *Rack) Racks() int { return max(r.config.Racks, 1) }

// TreeCounters are what the aggregators of the racks, together, and of the root counted of a job; nil where there is one rack.
func (r *Rack) TreeCounters(job string) (racks, root map[string]uint64, err error) {
	if r.forest == nil {
		return nil, nil, nil
	}
	if racks, err = r.levelCounters(job, r.forest.nodes[:r.config.Racks]); err != nil {
		return nil, nil, err
	}
	root, err = r.levelCounters(job, r.forest.nodes[r.config.Racks:])
	return racks, root, err
}

// treeUnassigned are what all aggregators counted of packets of no job.
func (r *Rack) treeUnassigned() (map[string]uint64, error) {
	sum := make(map[string]uint64)
	for _, node := range r.forest.nodes {
		counters, err := node.plane.UnknownJobCounters()
		if err != nil {
			return nil, err
		}
		for name, n := range counters {
			sum[name] += n
		}
	}
	return sum, nil
}

// WipeNode makes an aggregator of a tree forget all that it has summed, as a reboot does: that of a rack, or with their number the root's.
func (r *Rack) WipeNode(index int) error {
	plane := r.forest.nodes[index].plane
	for _, job := range plane.Jobs() {
		if err := plane.RemoveJob(job.ID); err != nil {
			return err
		}
		if err := plane.AddJob(job); err != nil {
			return err
		}
	}
	return nil
}
