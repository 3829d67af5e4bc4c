package xdp

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Mode is how the program sits on an interface.
type Mode string

// The modes, the faster first.
const (
	Native  Mode = "native"  // in the driver, before the kernel makes a socket buffer
	Generic Mode = "generic" // after; works on any interface, and is slow
)

// Attach puts the program on the interface of the current network namespace
// (lock the OS thread when that is not the process's). It prefers native mode;
// Generic is a fallback that it logs a warning about. The replicator for unicast jobs goes to
// the interface's tc ingress.
func (a *Aggregator) Attach(ifindex int) (Mode, error) {
	a.mu.Lock()
	defer a.mu.Unlock()

	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return "", fmt.Errorf("open netlink: %w", err)
	}
	at := attachment{handle: handle}
	mode := Native
	at.link, err = link.AttachXDP(link.XDPOptions{Program: a.objects.Aggregator, Interface: ifindex, Flags: link.XDPDriverMode})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		mode = Generic
		native := err
		at.link, err = link.AttachXDP(link.XDPOptions{Program: a.objects.Aggregator, Interface: ifindex, Flags: link.XDPGenericMode})
		if err != nil {
			err = fmt.Errorf("%w (native: %w)", err, native)
		} else {
			slog.Warn("the interface's driver has no native XDP: the aggregator runs in generic mode, which is slow", "ifindex", ifindex, "native", native)
		}
	}
	if err != nil {
		handle.Close()
		return "", fmt.Errorf("attach the aggregator to interface %d: %w", ifindex, err)
	}
	if err := at.attachReplicator(ifindex, a.objects.Replicator.FD()); err != nil {
		return "", errors.Join(err, at.detach())
	}
	a.attached = append(a.attached, at)
	return mode, nil
}

// attachReplicator makes a clsact qdisc, unless there is one, and a direct-action
// filter (cls_bpf, which every supported kernel has; tcx would need 6.6).
func (at *attachment) attachReplicator(ifindex, program int) error {
	qdisc := &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: ifindex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT},
		QdiscType:  "clsact",
	}
	switch err := at.handle.QdiscAdd(qdisc); {
	case err == nil:
		at.ownClsact = qdisc
	case !errors.Is(err, unix.EEXIST):
		return fmt.Errorf("add a clsact qdisc to interface %d (is sch_ingress there?): %w", ifindex, err)
	}
	filter := &netlink.BpfFilter{
		FilterAttrs:  netlink.FilterAttrs{LinkIndex: ifindex, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
		Fd:           program,
		Name:         "spillway_replicator",
		DirectAction: true,
	}
	if err := at.handle.FilterAdd(filter); err != nil {
		return fmt.Errorf("attach the replicator to interface %d (is cls_bpf there?): %w", ifindex, err)
	}
	at.filter = filter
	return nil
}
