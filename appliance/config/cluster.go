package config

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"

	"spillway/appliance/certs"
)

// Cluster is what an appliance must know to serve the same jobs as others.
type Cluster struct {
	// Name is that of the cluster: appliances that share an etcd and not the name have nothing to do with each other.
	Name string `yaml:"name"`
	// Rack is where the appliance stands; empty: there is only one rack.
	Rack string `yaml:"rack"`
	// Listen is the address and port at which the other appliances reach this one. It is on no network that workers are on, if there is another.
	Listen string `yaml:"listen"`
	// Workers is the address and port that workers are told when this appliance leads; empty: api.listen.
	Workers string `yaml:"workers"`
	// TLS has the appliance's identity in the cluster: a certificate with spillway://node/NAME.
	TLS  *TLS `yaml:"tls,omitempty"`
	Etcd Etcd `yaml:"etcd"`
}

// Etcd is where the cluster's state is: in the appliances themselves, or in an etcd that is there anyway.
type Etcd struct {
	// Embedded is a member of it that runs in the daemon; nil: there is none.
	Embedded *EmbeddedEtcd `yaml:"embedded,omitempty"`
	// Endpoints are the clients' addresses of an external one, host:port each.
	Endpoints []string `yaml:"endpoints"`
	// TLS is for the external one's clients.
	TLS *TLS `yaml:"tls,omitempty"`
}

// EmbeddedEtcd is a member of etcd in the daemon.
type EmbeddedEtcd struct {
	// Data is the member's directory.
	Data string `yaml:"data"`
	// Clients is an address and port for appliances that have no member of their own; empty: none.
	Clients string `yaml:"clients"`
	// Members are all, this one included, by the names of the appliances.
	Members []EtcdMember `yaml:"members"`
	// Join says that the others are there already and this member was added to them (etcdctl member add): it takes the place of one that is lost.
	Join bool `yaml:"join"`
}

// EtcdMember is an appliance with a member of etcd.
type EtcdMember struct {
	Name string `yaml:"name"`
	// Address is where its member listens for the others, host:port.
	Address string `yaml:"address"`
}

// defaultCluster is what a cluster section that says nothing has.
func defaultCluster() *Cluster { return &Cluster{Name: "spillway"} }

// defaultEmbedded is what an embedded section that says nothing has.
func defaultEmbedded() *EmbeddedEtcd { return &EmbeddedEtcd{Data: "/var/lib/spillway/etcd"} }

// WorkersAddress is where workers reach an appliance of a cluster.
func (c *Config) WorkersAddress() string {
	if c.Cluster != nil && c.Cluster.Workers != "" {
		return c.Cluster.Workers
	}
	return c.API.Listen
}

func (c *Config) validateCluster(f *findings) {
	k := c.Cluster
	if k == nil {
		return
	}
	if !certs.IsJobName(k.Name) {
		f.wrong("cluster.name", "write 1 to 63 small letters, digits and '-', such as rack7", "%q is not a name", k.Name)
	}
	if k.Rack != "" && !word.MatchString(k.Rack) {
		f.wrong("cluster.rack", "write 1 to 64 letters, digits, '-' or '.', such as rack7", "%q is not a name", k.Rack)
	}
	f.reached("cluster.listen", k.Listen, "10.1.0.1:9692")
	workers, path := k.Workers, "cluster.workers"
	if workers == "" {
		workers = c.API.Listen
	}
	switch host, port, err := net.SplitHostPort(workers); {
	case c.API.Listen == "":
		f.wrong("api.listen", "write listen, such as 10.0.0.1:9690, with tls", "workers and the other appliances must reach each appliance of a cluster")
	case k.Workers == "" && (err != nil || !isHost(host) || port == "0"):
		f.wrong(path, "write the address that workers reach this appliance at, such as 10.0.0.1:9690", "is missing, and api.listen (%s) does not name one", c.API.Listen)
	case k.Workers != "":
		f.reached(path, k.Workers, "10.0.0.1:9690")
	}
	if k.Listen != "" && (k.Listen == c.API.Listen || k.Listen == c.Metrics.Listen) {
		f.wrong("cluster.listen", "write another port, such as 9692", "%s is taken by api.listen or metrics.listen", k.Listen)
	}
	if k.TLS == nil {
		f.wrong("cluster.tls", "write tls: {certificate: FILE, key: FILE, ca: FILE} (spillctl certs node makes some for a lab)", "is missing: appliances take orders from whoever has a certificate of the cluster")
	}
	f.tls("cluster.tls", k.TLS, true)
	c.validateEtcd(f)
}

func (c *Config) validateEtcd(f *findings) {
	e := &c.Cluster.Etcd
	switch {
	case e.Embedded == nil && len(e.Endpoints) == 0:
		f.wrong("cluster.etcd", "write embedded, with its members, or the endpoints of an etcd that is there", "says of no etcd where it is")
	case e.Embedded != nil && len(e.Endpoints) > 0:
		f.wrong("cluster.etcd.endpoints", "leave one of the two out", "an etcd in the daemon (embedded) and another one at once")
	case e.Embedded != nil && e.TLS != nil:
		f.wrong("cluster.etcd.tls", "leave it out", "an etcd in the daemon goes by cluster.tls")
	}
	for i, endpoint := range e.Endpoints {
		f.reached(fmt.Sprintf("cluster.etcd.endpoints[%d]", i), endpoint, "10.1.0.10:2379")
	}
	f.tls("cluster.etcd.tls", e.TLS, false)
	if e.Embedded == nil {
		return
	}
	f.path("cluster.etcd.embedded.data", e.Embedded.Data, "/var/lib/spillway/etcd")
	if n := len(e.Embedded.Data) + len("/etcd.sock"); n > maxSocketPath {
		f.wrong("cluster.etcd.embedded.data", "write a shorter path, such as /var/lib/spillway/etcd", "its socket would have a path of %d bytes, which is too long", n)
	}
	if e.Embedded.Clients != "" {
		f.reached("cluster.etcd.embedded.clients", e.Embedded.Clients, "10.1.0.1:2379")
		if k := c.Cluster; k.TLS != nil && c.API.TLS != nil && k.TLS.CA == c.API.TLS.CA {
			f.wrong("cluster.tls.ca", "make an authority that issues to appliances alone (spillctl certs ca), or leave cluster.etcd.embedded.clients out",
				"%s is that of workers too (api.tls.ca): each of them could change the cluster's state", k.TLS.CA)
		}
	}
	const path = "cluster.etcd.embedded.members"
	names, addresses := map[string]bool{}, map[string]bool{}
	for i, m := range e.Embedded.Members {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !word.MatchString(m.Name) {
			f.wrong(at+".name", "write the name of an appliance (name)", "%q is not a name", m.Name)
		} else if names[m.Name] {
			f.wrong(at+".name", "give each appliance one member", "%s is in the list already", m.Name)
		}
		f.reached(at+".address", m.Address, "10.1.0.1:2380")
		if addresses[m.Address] {
			f.wrong(at+".address", "give each member an address of its own", "%s is another member's already", m.Address)
		}
		names[m.Name], addresses[m.Address] = true, true
	}
	switch n := len(e.Embedded.Members); {
	case n == 0:
		f.wrong(path, "list all members, this one included: members: [{name: rack7-a, address: 10.1.0.1:2380}]", "is missing")
	case !names[c.NodeName()]:
		f.wrong(path, "add this appliance, or leave embedded out here and name endpoints", "%s, this appliance (name), is not among them", c.NodeName())
	case n%2 == 0:
		f.wrong(path, "write an odd number of members: one, three or five; other appliances can do without", "%d members survive no more failures than %d", n, n-1)
	}
}

// reached notes what is not an address and port that others can call.
func (f *findings) reached(path, value, example string) {
	if value == "" {
		f.wrong(path, "write ADDRESS:PORT, such as "+example, "is missing")
		return
	}
	host, port, err := net.SplitHostPort(value)
	if err != nil || !isHost(host) || !isPort(port) || port == "0" {
		f.wrong(path, "write ADDRESS:PORT, such as "+example, "%q is not an address and a port that others can call", value)
	}
}

// isHost tells whether others can call it: a name, or the address of a host.
func isHost(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return !addr.IsUnspecified() && !addr.IsMulticast()
	}
	return word.MatchString(host)
}

// checkCluster holds the cluster's section to this machine.
func (c *Config) checkCluster(f *findings) {
	k := c.Cluster
	if k == nil {
		return
	}
	if k.TLS != nil {
		checkTLS(f, "cluster.tls", k.TLS)
		checkNode(f, k.TLS, c.NodeName())
	}
	if k.Etcd.TLS != nil {
		checkTLS(f, "cluster.etcd.tls", k.Etcd.TLS)
	}
	if k.Etcd.Embedded != nil {
		checkDirectory(f, "cluster.etcd.embedded.data", filepath.Dir(k.Etcd.Embedded.Data))
	}
}

// checkNode notes a certificate that does not say that its holder is this appliance.
func checkNode(f *findings, t *TLS, name string) {
	pair, err := certs.ReadPair(t.Certificate, t.Key, t.CA)
	if err != nil {
		return // checkTLS has said so
	}
	identity, err := pair.Identity()
	const instead = "issue one for it (spillctl certs node --node %s)"
	switch {
	case err != nil:
		f.wrong("cluster.tls.certificate", fmt.Sprintf(instead, name), "%s: %v", t.Certificate, err)
	case identity.Node != name:
		f.wrong("cluster.tls.certificate", fmt.Sprintf(instead, name), "%s says %s, and this appliance (name) is %s", t.Certificate, identity, name)
	}
}
