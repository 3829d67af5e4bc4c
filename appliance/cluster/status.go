package cluster

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/cluster/peer"
)

// Status is how the cluster stands, as far as this appliance knows.
type Status struct {
	Leader Leadership
	// Leads says that this appliance is the leader.
	Leads bool
	// Trouble is why this appliance has no part in the cluster; empty: it has.
	Trouble string
	// Since is when Trouble became what it is.
	Since time.Time
	// Members are the names of the appliances that are there, Missing those that were there once and are not.
	Members, Missing []string
	// Versions are the members', by name.
	Versions map[string]string
	// Write is how long the last write to etcd took; 0: none was made here.
	Write time.Duration
}

// Status says how the cluster stands.
func (c *Cluster) Status() Status {
	members, leader, _ := c.view.look()
	s := Status{Leader: leader, Leads: leader.Term != 0 && leader.Name == c.config.Self.Name, Versions: map[string]string{}, Write: time.Duration(c.took.Load())}
	for name, m := range members {
		s.Members, s.Versions[name] = append(s.Members, name), m.Version
	}
	for name := range c.view.ever() {
		if _, there := members[name]; !there {
			s.Missing = append(s.Missing, name)
		}
	}
	slices.Sort(s.Members)
	slices.Sort(s.Missing)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Trouble, s.Since = c.trouble, c.since
	return s
}

// Describe adds to the appliances that jobs know of what the cluster knows, and those that only the cluster does.
func (c *Cluster) Describe(nodes []*v1.ClusterNode) []*v1.ClusterNode {
	members, leader, _ := c.view.look()
	known := c.view.ever()
	for name, m := range known {
		there := slices.ContainsFunc(nodes, func(n *v1.ClusterNode) bool { return n.GetName() == name })
		if !there {
			n := &v1.ClusterNode{Name: name, Rack: m.Rack, State: v1.NodeState_NODE_STATE_LOST, Reason: "it does not answer", Since: timestamppb.New(leader.Since)}
			if _, registered := members[name]; !registered {
				n.Reason = "it has not been there since this leader was elected"
			}
			nodes = append(nodes, n)
		}
	}
	for _, n := range nodes {
		if m, ok := known[n.GetName()]; ok {
			n.Api, n.Version = m.Workers, m.Version
		}
		n.Leader = leader.Term != 0 && n.GetName() == leader.Name
	}
	slices.SortFunc(nodes, func(a, b *v1.ClusterNode) int { return strings.Compare(a.GetName(), b.GetName()) })
	return nodes
}

// LeaderConn is a connection to the appliance that leads, when that is another; nil: none is known to. It is the Cluster's: nobody else closes it.
func (c *Cluster) LeaderConn() *grpc.ClientConn {
	_, leader, _ := c.view.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	if leader.Term == 0 || leader.Name == c.config.Self.Name {
		return nil
	}
	if c.toLeader != nil && c.leaderTerm == leader.Term {
		return c.toLeader.Conn()
	}
	if c.toLeader != nil {
		_ = c.toLeader.Close() // of a connection to one that leads no more there is nothing to say
		c.toLeader = nil
	}
	client, err := peer.Dial(leader.Name, leader.Peers, c.config.Identity)
	if err != nil {
		c.config.Log.Warn("no connection to the leader", "leader", leader.Name, "error", err)
		return nil
	}
	c.toLeader, c.leaderTerm = client, leader.Term
	return client.Conn()
}

// closeLeader drops the connection to the leader.
func (c *Cluster) closeLeader() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.toLeader != nil {
		_ = c.toLeader.Close() // nobody calls any more
		c.toLeader = nil
	}
}
