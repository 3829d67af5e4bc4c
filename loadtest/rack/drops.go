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
		if err := countDrops(worker, hostInterface, r.sw, r.ports[i].name, &d.Uplink, &d.Downlink); err != nil {
			return Drops{}, err
		}
		full, err := worker.socketDrops()
		if err != nil {
			return Drops{}, err
		}
		d.Sockets += full
	}
	err := countDrops(r.home, hostInterface, r.sw, r.homePort.name, &d.FromHome, &d.ToHome)
	return d, err
}

// countDrops adds what a link lost in each direction: in the sender's queue, at the sender's interface (where
// a veth counts what its peer had no room for), and at the receiver's.
func countDrops(a *namespace, nameA string, b *namespace, nameB string, fromA, fromB *uint64) error {
	for _, end := range []struct {
		host          *namespace
		name          string
		sent, arrived *uint64
	}{{a, nameA, fromA, fromB}, {b, nameB, fromB, fromA}} {
		link, err := end.host.link.LinkByName(end.name)
		if err != nil {
			return fmt.Errorf("find interface %s of %s: %w", end.name, end.host.name, err)
		}
		if s := link.Attrs().Statistics; s != nil {
			*end.sent += s.TxDropped
			*end.arrived += s.RxDropped
		}
		queues, err := end.host.link.QdiscList(link)
		if err != nil {
			return fmt.Errorf("list the queues of %s of %s: %w", end.name, end.host.name, err)
		}
		for _, q := range queues {
			if s := q.Attrs().Statistics; s != nil && s.Queue != nil && q.Attrs().Parent == netlink.HANDLE_ROOT {
				*end.sent += uint64(s.Queue.Drops)
			}
		}
	}
	return nil
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
