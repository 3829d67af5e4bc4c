package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/vishvananda/netlink"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/config"
	"spillway/appliance/events"
	"spillway/appliance/fabric"
	"spillway/appliance/jobs"
	"spillway/appliance/ledger"
	"spillway/appliance/server"
	"spillway/p4/client"
	"spillway/p4/pipeline"
	"spillway/xdp"
)

// What follows turns the configuration into those of the parts.

func planeConfig(c *config.Config) xdp.Config {
	return xdp.Config{Slots: c.Aggregator.Slots.XDP(), MaxJobs: c.Aggregator.MaxJobs, FirstPort: config.FirstHomePort, Ports: config.HomePorts}
}

func ledgerConfig(c *config.Config) ledger.Config {
	of := ledger.Config{
		Slots: c.Aggregator.Slots.XDP(), MaxJobs: c.Aggregator.MaxJobs, Groups: c.Jobs.Groups,
		FirstWorkerPort: c.Jobs.WorkerPorts.First, LastWorkerPort: c.Jobs.WorkerPorts.Last, Quota: quota(c),
	}
	if c.Switch != nil {
		of.SharedSlots = c.Switch.SharedSlots
	}
	return of
}

func quota(c *config.Config) ledger.Quota {
	q := c.Jobs.Quota
	return ledger.Quota{Workers: uint32(q.Workers), Window: uint32(q.Window), Memory: uint64(q.Memory), TorSlots: q.TorSlots, Jobs: uint32(q.Jobs)}
}

func defaults(c *config.Config) jobs.Defaults {
	return jobs.Defaults{
		Window: uint32(c.Jobs.Window), Elements: uint32(c.Jobs.Elements), Tor: torUses[c.Jobs.Tor], TorSlots: c.Jobs.TorSlots,
		Publication: publications[c.Jobs.Publication], Grace: c.Jobs.Grace, LostAfter: c.Jobs.LostAfter,
	}
}

var torUses = map[config.TorUse]v1.TorUse{
	config.TorNone: v1.TorUse_TOR_USE_NONE, config.TorPrivate: v1.TorUse_TOR_USE_PRIVATE, config.TorShared: v1.TorUse_TOR_USE_SHARED,
}

var publications = map[config.Publication]v1.Publication{
	config.Multicast: v1.Publication_PUBLICATION_MULTICAST, config.Unicast: v1.Publication_PUBLICATION_UNICAST,
}

// leastMTU is that of the interfaces.
func leastMTU(homes []home) (int, error) {
	var least int
	for _, h := range homes {
		link, err := netlink.LinkByIndex(h.index)
		if err != nil {
			return 0, fmt.Errorf("the MTU of interface %s: %w", h.name, err)
		}
		if mtu := link.Attrs().MTU; least == 0 || mtu < least {
			least = mtu
		}
	}
	return least, nil
}

func fabricConfig(c *config.Config, homes []home, log *slog.Logger, to *events.Log) (fabric.Config, error) {
	s := c.Switch
	of := fabric.Config{
		Target: s.Target, Device: s.Device, Election: client.ElectionID{Low: s.Election}, Flood: s.FloodGroup, Check: s.Check, Events: to, Log: log,
	}
	var err error
	if of.Hosts, err = hosts(c, homes); err != nil {
		return of, err
	}
	if of.Program, err = fabric.Program(string(s.Program)); err != nil {
		return of, fmt.Errorf("switch.program: %w", err)
	}
	if s.TLS != nil {
		to, err := clientTLS(s.TLS)
		if err != nil {
			return of, fmt.Errorf("switch.tls: %w", err)
		}
		of.Dial = append(of.Dial, grpc.WithTransportCredentials(credentials.NewTLS(to)))
	}
	return of, nil
}

// hosts are those at the ToR's ports: as configured, and the aggregator itself, whose Ethernet address the kernel knows best.
func hosts(c *config.Config, homes []home) ([]pipeline.Host, error) {
	var all []pipeline.Host
	own := homes[0]
	found := false
	for _, h := range c.Switch.Hosts {
		found = found || h.Address == own.address
		all = append(all, pipeline.Host{Addr: h.Address, MAC: pipeline.MAC(h.MAC), Port: h.Port})
	}
	if found {
		return all, nil
	}
	link, err := netlink.LinkByIndex(own.index)
	if err != nil {
		return nil, fmt.Errorf("the Ethernet address of interface %s: %w", own.name, err)
	}
	mac := link.Attrs().HardwareAddr
	if len(mac) != 6 {
		return nil, fmt.Errorf("interface %s has no Ethernet address, which a ToR forwards to: put another first under interfaces, or add a host with address %s to switch.hosts", own.name, own.address)
	}
	return append(all, pipeline.Host{Addr: own.address, MAC: pipeline.MAC(mac), Port: c.Switch.HomePort}), nil
}

// clientTLS is for a session with a server whose certificate comes from the CA; with a certificate of our own where there is one.
func clientTLS(t *config.TLS) (*tls.Config, error) {
	pem, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, fmt.Errorf("read the authorities: %w", err)
	}
	of := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !of.RootCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New(t.CA + " has no certificate in PEM")
	}
	if t.Certificate == "" {
		return of, nil
	}
	pair, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	of.Certificates = []tls.Certificate{pair}
	return of, nil
}

func serverConfig(c *config.Config) server.Config {
	of := server.Config{
		Socket: c.API.Socket, Group: c.API.Group, Listen: c.API.Listen, Plaintext: c.API.PlaintextAllowed(),
		Limits: server.Limits{
			Message: int(c.API.Limits.Message), Connections: c.API.Limits.Connections, CallsPerSecond: float64(c.API.Limits.CallsPerSecond),
		},
	}
	if t := c.API.TLS; t != nil {
		of.TLS = &server.TLS{Certificate: t.Certificate, Key: t.Key, Authorities: t.CA}
	}
	return of
}
