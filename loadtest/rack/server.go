package rack

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
)

// ordinary are the offloads of a link between hosts that speak TCP, as network cards have them and as a veth has them when nobody has changed it: a
// packet of up to 64 kB crosses the rack whole, and its checksum is never computed.
var ordinary = settings{
	"rx-gro":                       true,
	"tx-generic-segmentation":      true,
	"tx-tcp-segmentation":          true,
	"tx-tcp-ecn-segmentation":      true,
	"tx-tcp-mangleid-segmentation": true,
	"tx-checksum-ip-generic":       true,
}

// ServerAddr is the address of the rack's server.
func ServerAddr() netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, 199}) }

// addServer makes the host of a server that others than Spillway have: where the aggregator is, on a link like its own, without a program on it. All
// hosts know each other's hardware addresses, and TCP keeps its pace over the pauses between measurements.
func (r *Rack) addServer() (err error) {
	if !r.config.Server {
		return nil
	}
	if r.server, err = newNamespace("the server"); err != nil {
		return err
	}
	link, err := r.attach(r.server, "server", ServerAddr(), false, offloads{host: ordinary, port: ordinary})
	if err != nil {
		return err
	}
	if err := errors.Join(enqueue(link.host()), shape(link.port(), r.config.HomeRate)); err != nil {
		return err
	}
	for rank, worker := range r.workers {
		if err := introduce(r.server, ServerAddr(), worker, WorkerAddr(rank)); err != nil {
			return err
		}
		for other := range rank {
			if err := introduce(r.workers[other], WorkerAddr(other), worker, WorkerAddr(rank)); err != nil {
				return err
			}
		}
	}
	for _, host := range append([]*namespace{r.server}, r.workers...) {
		if err := host.sysctl("ipv4/tcp_slow_start_after_idle", "0"); err != nil {
			return err
		}
	}
	return nil
}

// StartServer runs a command in the namespace of the rack's server. Close of the rack stops it.
func (r *Rack) StartServer(c Command) (*Process, error) {
	if r.server == nil {
		return nil, errors.New("the rack was built without a server")
	}
	return r.start(r.server, c)
}

// MTU is that of all links of the rack.
func (c *Config) MTU() int { return c.mtu() }

// Ordinary gives the workers' links the offloads that hosts have for TCP, or those that a rack has for Spillway. Nothing may be under way.
func (r *Rack) Ordinary(on bool) error {
	if r.tor != nil {
		return errors.New("offloads for TCP: the rack has a ToR, which they do not get past")
	}
	want := r.config.workerOffloads()
	if on {
		want = offloads{host: ordinary, port: ordinary}
	}
	for _, link := range r.links {
		if err := errors.Join(offload(link.host(), want.host), offload(link.port(), want.port)); err != nil {
			return err
		}
	}
	return nil
}

// WorkerNamespace is a path by which a program that changes namespaces by itself, like nsenter(1), finds that of the worker with this rank.
func (r *Rack) WorkerNamespace(rank int) string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(r.workers[rank].handle))
}
