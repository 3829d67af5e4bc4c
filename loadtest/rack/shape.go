package rack

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// minRate in bit/s: below it 256 kB of burst would be seconds of traffic.
const minRate = 1_000_000

// shape puts a token bucket in front of an interface, rate in bit/s.
//
// The kernel takes the bucket's depth as the time that it takes to send it, in
// scheduler ticks, and the queue's length in bytes: what arrives in the latency
// plus one bucket (as tc-tbf(8) computes it).
func shape(h *netlink.Handle, ifindex int, rate uint64) error {
	if rate == 0 {
		return nil
	}
	bytesPerSecond := rate / 8
	qdisc := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: ifindex,
			Handle:    netlink.MakeHandle(1, 0),
			Parent:    netlink.HANDLE_ROOT,
		},
		Rate:   bytesPerSecond,
		Buffer: netlink.Xmittime(bytesPerSecond, burst),
		Limit:  uint32(bytesPerSecond*latencyUS/1_000_000 + burst),
	}
	if err := h.QdiscReplace(qdisc); err != nil {
		return fmt.Errorf("shape interface %d to %d bit/s (needs sch_tbf): %w", ifindex, rate, err)
	}
	return nil
}
