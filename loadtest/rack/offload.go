package rack

import (
	"fmt"

	"github.com/safchain/ethtool"
)

// Offload settings by the names that the kernel gives them (ethtool -k).
//
// They are what makes packets cross the rack in bunches: a worker's datagrams
// leave as one segmented super-packet, the home's RESULTs are coalesced where
// they enter the bridge, and the worker's socket gets them in bunches again.
var (
	// homePortOffload: forwarding GRO coalesces datagrams that no local socket asked for.
	homePortOffload = map[string]bool{"rx-gro": true, "rx-udp-gro-forwarding": true}
	workerOffload   = map[string]bool{"rx-gro": true}

	// With faults each packet must meet the dice on its own: nothing is coalesced
	// before a worker's port, and nothing arrives at it unsegmented.
	homePortSingly = map[string]bool{"rx-gro": true, "rx-udp-gro-forwarding": false}
	workerSingly   = map[string]bool{"rx-gro": true, "tx-generic-segmentation": false, "tx-udp-segmentation": false}
)

// offload changes settings of an interface and checks that they took: the
// kernel accepts a change that another setting then overrides.
func offload(host *namespace, name string, settings map[string]bool) error {
	return host.do(func() error {
		e, err := ethtool.NewEthtool()
		if err != nil {
			return fmt.Errorf("open ethtool at %s: %w", host.name, err)
		}
		defer e.Close()
		if err := e.Change(name, settings); err != nil {
			return fmt.Errorf("offload settings of %s at %s: %w", name, host.name, err)
		}
		now, err := e.Features(name)
		if err != nil {
			return fmt.Errorf("read the offload settings of %s at %s: %w", name, host.name, err)
		}
		for setting, want := range settings {
			if now[setting] != want {
				return fmt.Errorf("offload setting %s of %s at %s stays %t", setting, name, host.name, now[setting])
			}
		}
		return nil
	})
}
