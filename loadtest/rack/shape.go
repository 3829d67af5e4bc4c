package rack

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// minRate in bit/s: below it 256 kB of burst would be seconds of traffic.
const minRate = 1_000_000

// unshapedQueue is the length, in packets, of the queue in front of an unshaped link.
const unshapedQueue = 16384

// shape puts a token bucket in front of an interface, rate in bit/s, or a plain queue if the rate is 0.
//
// The kernel takes the bucket's depth as the time that it takes to send it, in
// scheduler ticks, and the queue's length in bytes: what arrives in the latency
// plus one bucket (as tc-tbf(8) computes it).
func shape(at end, rate uint64) error {
	if rate == 0 {
		return enqueue(at)
	}
	bytesPerSecond := rate / 8
	qdisc := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: at.index,
			Handle:    netlink.MakeHandle(1, 0),
			Parent:    netlink.HANDLE_ROOT,
		},
		Rate:   bytesPerSecond,
		Buffer: netlink.Xmittime(bytesPerSecond, burst),
		Limit:  uint32(bytesPerSecond*latencyUS/1_000_000 + burst),
	}
	if err := at.in.link.QdiscReplace(qdisc); err != nil {
		return fmt.Errorf("shape %s of %s to %d bit/s (needs sch_tbf): %w", at.name, at.in.name, rate, err)
	}
	return nil
}

// enqueue puts a first-in-first-out queue in front of an interface. A veth holds 256 packets for its peer and
// has no queue by itself; with one, the kernel (6.16 and later) waits for room instead of dropping.
func enqueue(at end) error {
	link, err := at.in.link.LinkByIndex(at.index)
	if err != nil {
		return fmt.Errorf("find %s of %s: %w", at.name, at.in.name, err)
	}
	if err := at.in.link.LinkSetTxQLen(link, unshapedQueue); err != nil {
		return fmt.Errorf("queue length of %s of %s: %w", at.name, at.in.name, err)
	}
	qdisc := &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: at.index,
			Handle:    netlink.MakeHandle(1, 0),
			Parent:    netlink.HANDLE_ROOT,
		},
		QdiscType: "pfifo", // as long as the interface's queue length says
	}
	if err := at.in.link.QdiscReplace(qdisc); err != nil {
		return fmt.Errorf("put a queue in front of %s of %s (needs sch_fifo): %w", at.name, at.in.name, err)
	}
	return nil
}
