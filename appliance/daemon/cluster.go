package daemon

import (
	"fmt"
	"net"

	"spillway/appliance/cluster"
	"spillway/appliance/cluster/etcd"
	"spillway/appliance/cluster/peer"
	"spillway/appliance/config"
	"spillway/appliance/jobs"
	"spillway/appliance/server"
)

// joinCluster makes this appliance's part in its cluster, which does nothing yet.
func (d *daemon) joinCluster() error {
	c := d.config
	k := c.Cluster
	var err error
	if d.identity, err = peer.LoadIdentity(k.TLS.Certificate, k.TLS.Key, k.TLS.CA); err != nil {
		return fmt.Errorf("cluster.tls: %w", err)
	}
	state, err := etcdConfig(c)
	if err != nil {
		return err
	}
	state.Log = d.log
	homes := d.interfaces.list()
	mtu, err := leastMTU(homes)
	if err != nil {
		return err
	}
	self := cluster.Member{
		Name: c.NodeName(), Peers: k.Listen, Workers: c.WorkersAddress(), Rack: k.Rack, Version: d.options.Version, Slots: c.Aggregator.Slots.XDP(), MTU: mtu, MaxJobs: c.Aggregator.MaxJobs,
	}
	for _, h := range homes {
		self.Interfaces = append(self.Interfaces, cluster.Interface{Name: h.name, Address: h.address.String()})
	}
	d.terms = peer.NewTerms()
	d.cluster = cluster.New(cluster.Config{
		Name: k.Name, Self: self, Etcd: state, Identity: d.identity, Terms: d.terms, Health: d.interfaces.health, Lead: d.lead, Log: d.log,
	})
	return nil
}

// peers is the door of the other appliances.
func (d *daemon) peers() *server.Peers {
	k := d.config.Cluster
	return &server.Peers{
		Listen: k.Listen, TLS: server.TLS{Certificate: k.TLS.Certificate, Key: k.TLS.Key, Authorities: k.TLS.CA},
		Service: peer.NewService(peer.Config{
			Name: d.config.NodeName(), Version: d.options.Version, Terms: d.terms, Aggregator: jobs.Local(d.plane), Plane: d.plane, Paths: &paths{d.interfaces},
			Health: d.interfaces.health,
		}),
	}
}

func etcdConfig(c *config.Config) (etcd.Config, error) {
	e := c.Cluster.Etcd
	if e.Embedded == nil {
		of := etcd.Config{Endpoints: e.Endpoints}
		if e.TLS != nil {
			tls, err := clientTLS(e.TLS)
			if err != nil {
				return of, fmt.Errorf("cluster.etcd.tls: %w", err)
			}
			of.TLS = tls
		}
		return of, nil
	}
	of := &etcd.Embedded{
		Name: c.NodeName(), Members: map[string]string{}, Token: c.Cluster.Name, Data: e.Embedded.Data, Clients: e.Embedded.Clients, Join: e.Embedded.Join,
		Certificate: c.Cluster.TLS.Certificate, Key: c.Cluster.TLS.Key, Authorities: c.Cluster.TLS.CA,
	}
	for _, m := range e.Embedded.Members {
		host, _, err := net.SplitHostPort(m.Address)
		if err != nil {
			return etcd.Config{}, fmt.Errorf("cluster.etcd.embedded.members: %w", err)
		}
		of.Members[m.Name], of.Hosts = m.Address, append(of.Hosts, host)
	}
	return etcd.Config{Embedded: of}, nil
}
