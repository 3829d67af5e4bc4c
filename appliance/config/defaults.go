package config

import (
	"net/netip"
	"time"

	"spillway/p4/pipeline"
	"spillway/xdp"
)

// Default is the configuration of an empty file: what is left out of one has these values. It is not valid, as it names no interface.
func Default() *Config {
	return &Config{
		Interfaces: []Interface{},
		Aggregator: Aggregator{
			Pin:     "/sys/fs/bpf/spillway",
			Ports:   HomePorts / 2,
			Slots:   Slots{xdp.DefaultSlots[0], xdp.DefaultSlots[1], xdp.DefaultSlots[2], xdp.DefaultSlots[3]},
			MaxJobs: 255,
		},
		Jobs: Jobs{
			Window:      255,
			TorSlots:    256,
			Publication: Multicast,
			Grace:       10 * time.Minute,
			Groups:      netip.MustParsePrefix("239.77.0.0/16"),
			WorkerPorts: PortRange{9800, 10055},
			Quota:       Quota{Workers: 64},
		},
		API: API{
			Socket: "/run/spillway/spillwayd.sock",
			Limits: Limits{Connections: 1024, CallsPerSecond: 100, Message: 1 << 20},
		},
		Metrics: Metrics{Listen: "127.0.0.1:9691"},
		State:   "/var/lib/spillway/state.db",
		Log:     Log{Level: "info", Format: "text"},
	}
}

// defaultSwitch is what a switch section that says nothing has.
func defaultSwitch() *Switch {
	return &Switch{Device: 1, Election: 1, FloodGroup: defaultFloodGroup, Check: 5 * time.Second}
}

// defaultFloodGroup is the first that is above all jobs': targets differ in how high group numbers may be (BMv2: 32767).
const defaultFloodGroup = pipeline.MaxIndex + 1
