package rack

import (
	"fmt"
	"maps"

	"github.com/safchain/ethtool"
)

// Offload settings by the names that the kernel gives them (ethtool -k).
//
// They are what makes packets cross the rack in bunches: a worker's datagrams
// leave as one segmented super-packet, RESULTs are coalesced where they enter a
// bridge, and the worker's socket gets them in bunches again.
//
// And they keep packets in order and safe. A veth whose peer has GRO on, and that has no TCP segmentation
// itself, hands packets over in a ring, which is served in order and makes
// the sender's queue wait when it is full. Otherwise packets go to the backlog of the
// core that sends, which overtakes that of another core and drops when it is full.
var (
	workerOffloads = offloads{host: ring, port: ring, cable: homePortOffload}
	homeOffloads   = offloads{host: ring, port: homePortOffload, cable: ring}

	homePortOffload = with(ring, settings{"rx-udp-gro-forwarding": true}) // coalesces what no local socket asked for

	// With faults each packet must meet the dice on its own: nothing is coalesced
	// before a worker's port, and nothing arrives at it unsegmented.
	workerSingly   = offloads{host: with(ring, settings{"tx-generic-segmentation": false, "tx-udp-segmentation": false}), port: ring, cable: homePortSingly}
	homePortSingly = with(ring, settings{"rx-udp-gro-forwarding": false})
)

// offloads are the settings of a host's interface, of the end that it talks to, and of a cable's end that the ToR talks to.
type offloads struct{ host, port, cable settings }

// settings are offload features of an interface, on or off.
type settings map[string]bool

// ring is what a link's two ends need for packets to be handed over in a ring.
var ring = settings{
	"rx-gro":                       true,
	"tx-tcp-segmentation":          false,
	"tx-tcp-ecn-segmentation":      false,
	"tx-tcp-mangleid-segmentation": false,
	"tx-tcp6-segmentation":         false,
}

// workerOffloads are those of the workers' links.
func (c *Config) workerOffloads() offloads {
	if c.singly() {
		return workerSingly
	}
	if c.Rings {
		return offloads{host: ring, port: ring, cable: homePortSingly}
	}
	return workerOffloads
}

// checksummed is what an interface needs that sends to the ToR: what the ToR redirects loses the note that its checksum is still
// to be filled in, and a TCP peer would drop it.
var checksummed = settings{"tx-checksum-ip-generic": false}

// with joins settings.
func with(all ...settings) settings {
	joined := settings{}
	for _, s := range all {
		maps.Copy(joined, s)
	}
	return joined
}

// uncoalesced has an interface take TCP's packets in as they came over the wire. GRO stays on, for the ring's sake, but may make nothing larger of them (Linux 6.3).
func uncoalesced(at end) error {
	const largest = 1 // byte: no packet of TCP is as small
	link, err := at.in.link.LinkByIndex(at.index)
	if err != nil {
		return fmt.Errorf("find interface %s of %s: %w", at.name, at.in.name, err)
	}
	if err := at.in.link.LinkSetGROIPv4MaxSize(link, largest); err != nil {
		return fmt.Errorf("have %s of %s coalesce no TCP: %w", at.name, at.in.name, err)
	}
	if link, err = at.in.link.LinkByIndex(at.index); err != nil {
		return fmt.Errorf("find interface %s of %s: %w", at.name, at.in.name, err)
	}
	if got := link.Attrs().GROIPv4MaxSize; got != largest {
		return fmt.Errorf("have %s of %s coalesce no TCP, so that every packet meets the dice by itself: the kernel cannot say so of IPv4 (gro_ipv4_max_size stays %d); Linux 6.3 or newer can",
			at.name, at.in.name, got)
	}
	return nil
}

// offload changes settings of an interface and checks that they took: the
// kernel accepts a change that another setting then overrides.
func offload(at end, want settings) error {
	return at.in.do(func() error {
		e, err := ethtool.NewEthtool()
		if err != nil {
			return fmt.Errorf("open ethtool at %s: %w", at.in.name, err)
		}
		defer e.Close()
		if err := e.Change(at.name, want); err != nil {
			return fmt.Errorf("offload settings of %s at %s: %w", at.name, at.in.name, err)
		}
		now, err := e.Features(at.name)
		if err != nil {
			return fmt.Errorf("read the offload settings of %s at %s: %w", at.name, at.in.name, err)
		}
		for setting, on := range want {
			if now[setting] != on {
				return fmt.Errorf("offload setting %s of %s at %s stays %t", setting, at.name, at.in.name, now[setting])
			}
		}
		return nil
	})
}
