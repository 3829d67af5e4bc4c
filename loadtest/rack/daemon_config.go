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
	text, err := yaml.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("the daemon's configuration: %w", err)
	}
	return text, nil
}

func writeConfig(text []byte) error {
	if err := os.WriteFile(daemonConfig, text, 0o600); err != nil {
		return fmt.Errorf("the daemon's configuration: %w", err)
	}
	return nil
}
