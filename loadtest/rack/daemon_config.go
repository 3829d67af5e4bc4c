package rack

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"spillway/appliance/certs"
)

// daemonCertificate is what a daemon serves the API with.
func (r *Rack) daemonCertificate(index int) certs.Request {
	return certs.Request{Name: daemonTLSName, Server: true, Addresses: []netip.Addr{ApplianceAddr(index)}}
}

// homeAPI is where the daemon serves the API to workers.
const homeAPI = 9690

// daemonConfig is the file that the rack's spillwayd is started with, as an operator would write it.
func (r *Rack) daemonConfig(index int) ([]byte, error) {
	own := ApplianceAddr(index)
	type keys = map[string]any
	slots := keys{}
	for class, n := range r.config.Slots {
		slots[fmt.Sprint([]int{32, 64, 256, 832}[class])] = n
	}
	file := keys{
		"name":       ApplianceName(index),
		"interfaces": []keys{{"name": hostInterface, "address": own.String()}},
		// One port: the links have one queue, and what goes to one port crosses them in one super-packet.
		"aggregator": keys{"pin": daemonPin, "ports": 1, "slots": slots},
		"jobs":       keys{"worker_ports": fmt.Sprintf("%d-%d", workerPorts, workerPorts+MaxJobs)},
		"api": keys{
			"socket": daemonSocket,
			"listen": netip.AddrPortFrom(own, homeAPI).String(),
			"tls": keys{"certificate": filepath.Join(daemonDir, daemonTLSName+".crt"), "key": filepath.Join(daemonDir, daemonTLSName+".key"),
				"ca": filepath.Join(daemonDir, "ca.crt")},
			// All workers of all jobs join at the same moment, and operators look often.
			"limits": keys{"connections": 4096, "calls_per_second": 10_000},
		},
		"state": daemonState,
		"log":   keys{"level": "warn"},
	}
	if r.tor != nil {
		var hosts []keys
		for host := range r.config.Workers {
			addr := WorkerAddr(host)
			hosts = append(hosts, keys{"address": addr.String(), "mac": hardwareAddr(addr).String(), "port": torWorkerPort(host)})
		}
		for _, a := range r.appliances {
			if addr := ApplianceAddr(a.index); a.index != index {
				hosts = append(hosts, keys{"address": addr.String(), "mac": hardwareAddr(addr).String(), "port": torAppliancePort(a.index)})
			}
		}
		program := "software"
		if r.config.Tor.Kind == TorBMv2 {
			program = "bmv2"
		}
		tor := keys{"target": torListen, "device": torDevice, "program": program, "address": TorAddr().String(), "home_port": torAppliancePort(index),
			"shared_slots": r.config.Tor.sharedSlots(), "hosts": hosts}
		if check := r.config.Tor.Check; check != 0 {
			tor["check"] = check.String()
		}
		file["switch"] = tor
	}
	if len(r.appliances) > 1 {
		file["cluster"] = r.clusterConfig(index)
	}
	text, err := yaml.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("the daemon's configuration: %w", err)
	}
	return text, nil
}

// Where the appliances of a rack meet, on the management network: what they say to each other, and what their members of etcd do.
const (
	peersPort       = 9692
	etcdPort        = 2380
	etcdClientsPort = 2379
)

// nodeTLSName is the name of the files by which an appliance proves to the others which it is.
const nodeTLSName = "node"

// nodeDir has them, with the authority that issues to appliances alone.
var nodeDir = filepath.Join(daemonDir, "nodes")

// nodeCertificate is what it proves it with.
func nodeCertificate(index int) certs.Request {
	return certs.Request{Name: ApplianceName(index), Identity: certs.Identity{Node: ApplianceName(index)}, Addresses: []netip.Addr{managementAddr(index)}}
}

// clusterConfig is the section by which an appliance shares its jobs with the others.
func (r *Rack) clusterConfig(index int) map[string]any {
	type keys = map[string]any
	tls := keys{"certificate": filepath.Join(nodeDir, nodeTLSName+".crt"), "key": filepath.Join(nodeDir, nodeTLSName+".key"), "ca": filepath.Join(nodeDir, "ca.crt")}
	// Of an even number of appliances the last has no member of etcd: it would help nobody to a majority.
	var members []keys
	var endpoints []string
	for _, a := range r.appliances[:(len(r.appliances)-1)/2*2+1] {
		members = append(members, keys{"name": ApplianceName(a.index), "address": netip.AddrPortFrom(managementAddr(a.index), etcdPort).String()})
		endpoints = append(endpoints, netip.AddrPortFrom(managementAddr(a.index), etcdClientsPort).String())
	}
	etcd := keys{"endpoints": endpoints, "tls": tls}
	if index < len(members) {
		etcd = keys{"embedded": keys{"data": filepath.Join(daemonDir, "etcd"), "clients": endpoints[index], "members": members}}
	}
	return keys{"listen": netip.AddrPortFrom(managementAddr(index), peersPort).String(), "tls": tls, "etcd": etcd}
}

func writeConfig(text []byte) error {
	if err := os.WriteFile(daemonConfig, text, 0o600); err != nil {
		return fmt.Errorf("the daemon's configuration: %w", err)
	}
	return nil
}
