package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

// Cluster is how an appliance stands with the others that serve the same jobs.
type Cluster struct {
	Name string
	// Leader is the appliance that leads; empty: none is known to. Leads says that this one does.
	Leader string
	Leads  bool
	// Since is when the leader became what it is.
	Since time.Time
	// Trouble is why this appliance has no part in the cluster, for example that etcd has no quorum; empty: it has.
	Trouble string
	// Nodes are the appliances as the leader sees them; nil where this is not the leader.
	Nodes []*v1.ClusterNode
	// Versions are those of the appliances that are there, by name.
	Versions map[string]string
	// Write is how long the last write to etcd took here; 0: none was made.
	Write time.Duration
}

// slowWrite is how long a write to etcd may take before it is worth a word: moves wait for it.
const slowWrite = 250 * time.Millisecond

// cluster says how the appliance stands with the others.
func (d *diagnosis) cluster() {
	const check = "cluster"
	c := d.Cluster
	if c == nil {
		return
	}
	found := len(d.findings)
	if c.Leader == "" {
		text := fmt.Sprintf("no appliance leads cluster %s: jobs are neither made nor moved, and no worker can join; what runs goes on", c.Name)
		if !c.Since.IsZero() && !d.Now.IsZero() {
			text = fmt.Sprintf("no appliance has led cluster %s for %s: jobs are neither made nor moved, and no worker can join; what runs goes on", c.Name, span(d.Now.Sub(c.Since)))
		}
		d.fail(check, "", text+because(c.Trouble),
			"see whether more than half of the members of etcd run and reach each other (cluster.etcd), and whether their clocks and certificates are right; the daemons' logs say what each misses")
	} else if c.Trouble != "" {
		d.fail(check, "", fmt.Sprintf("this appliance has no part in cluster %s: %s", c.Name, c.Trouble),
			"see whether more than half of the members of etcd run, and whether this host reaches them (cluster.etcd, cluster.tls)")
	}
	if c.Write > slowWrite {
		d.warn(check, "", fmt.Sprintf("the last write to etcd took %s: moves and joins wait for such", span(c.Write)),
			"give etcd a faster disk (cluster.etcd.embedded.data), and see whether one of its members is away")
	}
	for _, n := range c.Nodes {
		switch n.GetState() {
		case v1.NodeState_NODE_STATE_LOST:
			d.warn(check, "", fmt.Sprintf("appliance %s is lost%s", n.GetName(), because(n.GetReason())),
				"see whether its host is up, spillwayd runs on it ('systemctl status spillwayd') and it is reached from here at cluster.listen; its jobs have moved if there was room; 'spillctl forget "+n.GetName()+"' when it is gone for good")
		case v1.NodeState_NODE_STATE_DRAINED, v1.NodeState_NODE_STATE_DRAINING:
			d.fine(check, "", "appliance %s is drained: 'spillctl undrain %s' lets it be used again", n.GetName(), n.GetName())
		}
	}
	if versions := slices.Compact(slices.Sorted(maps.Values(c.Versions))); len(versions) > 1 {
		var all []string
		for _, name := range slices.Sorted(maps.Keys(c.Versions)) {
			all = append(all, name+" "+c.Versions[name])
		}
		d.warn(check, "", "the appliances run different versions: "+strings.Join(all, ", "), "install the newest on all; drain an appliance before it is upgraded (spillctl drain)")
	}
	if len(d.findings) > found {
		return
	}
	role := "led by " + c.Leader
	if c.Leads {
		role = "which this one leads"
	}
	d.fine(check, "", "this is one of %d appliances of cluster %s, %s", len(c.Versions), c.Name, role)
}
