package rack

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

// Drops counts packets that the rack's own queues and links had no room for,
// apart from injected faults, by the direction they went. A super-packet counts once.
type Drops struct {
	Uplink   uint64 `json:"uplink"`   // from the workers to the switch
	Downlink uint64 `json:"downlink"` // from the switch to the workers
	ToHome   uint64 `json:"to_home"`
	FromHome uint64 `json:"from_home"`
	Sockets  uint64 `json:"sockets"` // datagrams that the workers' sockets had no room for
}

// Drops reads what was dropped so far.
func (r *Rack) Drops() (Drops, error) {
	var d Drops
	for i, worker := range r.workers {
		if err := countDrops(r.links[i], &d.Uplink, &d.Downlink); err != nil {
			return Drops{}, err
		}
		full, err := worker.socketDrops()
		if err != nil {
			return Drops{}, err
		}
		d.Sockets += full
	}
	for _, a := range r.appliances {
		if err := countDrops(a.link, &d.FromHome, &d.ToHome); err != nil {
			return Drops{}, err
		}
	}
	if r.forest == nil {
		return d, nil
	}
	for _, node := range r.forest.nodes {
		for _, link := range node.links {
			if err := countDrops(link, &d.FromHome, &d.ToHome); err != nil {
				return Drops{}, err
			}
		}
	}
	return d, nil
}

// countDrops adds what a host's links lost in each direction.
func countDrops(a attachment, fromHost, toHost *uint64) error {
	for _, h := range a {
		near, err := dropsAt(h.near)
		if err != nil {
			return err
		}
		far, err := dropsAt(h.far)
		if err != nil {
			return err
		}
		// Both ends of a veth count an XDP_TX that found no room.
		*fromHost += near.queue + max(near.sent, far.arrived)
		*toHost += far.queue + max(far.sent, near.arrived)
	}
	return nil
}

// endDrops is what one end of a link counts: in its queue, when it sends, and when something arrives.
type endDrops struct{ queue, sent, arrived uint64 }

func dropsAt(at end) (d endDrops, err error) {
	link, err := at.in.link.LinkByIndex(at.index)
	if err != nil {
		return d, fmt.Errorf("find interface %s of %s: %w", at.name, at.in.name, err)
	}
	if s := link.Attrs().Statistics; s != nil {
		d.sent, d.arrived = s.TxDropped, s.RxDropped
	}
	queues, err := at.in.link.QdiscList(link)
	if err != nil {
		return d, fmt.Errorf("list the queues of %s of %s: %w", at.name, at.in.name, err)
	}
	for _, q := range queues {
		if s := q.Attrs().Statistics; s != nil && s.Queue != nil && q.Attrs().Parent == netlink.HANDLE_ROOT {
			d.queue += uint64(s.Queue.Drops)
		}
	}
	return d, nil
}

// socketDrops is how many datagrams the namespace's UDP sockets had no room for.
func (n *namespace) socketDrops() (drops uint64, err error) {
	var table []byte
	err = n.do(func() (err error) {
		table, err = os.ReadFile("/proc/thread-self/net/snmp")
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("socket statistics of %s: %w", n.name, err)
	}
	// Two lines: the names, and the values in the same order.
	var names []string
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		if at := slices.Index(names, "RcvbufErrors"); at >= 0 && at < len(fields) {
			return strconv.ParseUint(fields[at], 10, 64)
		}
	}
	return 0, fmt.Errorf("socket statistics of %s have no RcvbufErrors", n.name)
}
