package xdp

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// replicatorName is the filter's, by which it is found again: the filter and its qdisc survive the process by
// themselves, and cannot be pinned.
const replicatorName = "spillway_replicator"

// replicatorPriority is the filter's place among those of the interface, and its handle there.
const replicatorPriority, replicatorHandle = 1, 1

// attachReplicator makes a clsact qdisc, unless there is one, and a direct-action
// filter (cls_bpf, which every supported kernel has; tcx would need 6.6).
func (a *Aggregator) attachReplicator(at *attachment) error {
	qdisc, err := at.clsact()
	if err != nil {
		return err
	}
	if qdisc == nil {
		at.record.Flags |= recordClsact
		if err := a.keepRecord(at); err != nil {
			return err
		}
		if err := at.handle.QdiscAdd(newClsact(at.ifindex)); errors.Is(err, unix.EEXIST) {
			at.record.Flags &^= recordClsact // somebody else's, made in this moment, or an ingress qdisc
			if err := a.keepRecord(at); err != nil {
				return err
			}
		} else if err != nil {
			return fmt.Errorf("add a clsact qdisc (is sch_ingress there?): %w", err)
		}
	}
	present, err := at.ingressFilter()
	if err != nil {
		return err
	}
	ours, err := programID(a.objects.Replicator)
	if err != nil {
		return err
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: at.ifindex, Parent: netlink.HANDLE_MIN_INGRESS, Handle: replicatorHandle,
			Protocol: unix.ETH_P_ALL, Priority: replicatorPriority,
		},
		Fd:           a.objects.Replicator.FD(),
		Name:         replicatorName,
		DirectAction: true,
	}
	bpf, _ := present.(*netlink.BpfFilter)
	switch {
	case present == nil:
	case bpf != nil && bpf.Name == replicatorName && bpf.Id == int(ours):
		return nil
	case bpf != nil && bpf.Name == replicatorName:
		if err := at.handle.FilterReplace(filter); err != nil {
			return fmt.Errorf("put the new replicator in the old one's place: %w", err)
		}
		return nil
	case a.takeover != TakeOver:
		return &ForeignError{
			Where: fmt.Sprintf("interface %d", at.ifindex),
			What:  fmt.Sprintf("has another's %s filter at ingress, priority %d", present.Type(), replicatorPriority),
			Do:    "move it to another priority (`tc filter`), or set aggregator.upgrade to have it replaced",
		}
	default:
		slog.Warn("another's tc filter was taken off the interface", "ifindex", at.ifindex, "type", present.Type(), "priority", replicatorPriority)
		if err := at.handle.FilterDel(present); err != nil {
			return fmt.Errorf("take another's %s filter off: %w", present.Type(), err)
		}
	}
	if err := at.handle.FilterAdd(filter); err != nil {
		return fmt.Errorf("attach the replicator (is cls_bpf there?): %w", err)
	}
	return nil
}

// detachReplicator removes the filter, and the qdisc if it was made here and nobody else uses it by now.
func (at *attachment) detachReplicator() error {
	present, err := at.ingressFilter()
	if err != nil {
		return err
	}
	if bpf, ok := present.(*netlink.BpfFilter); ok && bpf.Name == replicatorName {
		if err := at.handle.FilterDel(present); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("take the replicator off: %w", err)
		}
	}
	if at.record.Flags&recordClsact == 0 {
		return nil
	}
	qdisc, err := at.clsact()
	if err != nil || qdisc == nil {
		return err
	}
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		filters, err := at.filters(parent)
		if err != nil {
			return err
		}
		if len(filters) > 0 {
			return nil
		}
	}
	if err := at.handle.QdiscDel(qdisc); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("remove the clsact qdisc: %w", err)
	}
	return nil
}

func newClsact(ifindex int) *netlink.GenericQdisc {
	return &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: ifindex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT},
		QdiscType:  "clsact",
	}
}

// clsact is the interface's clsact qdisc; nil: none.
func (at *attachment) clsact() (netlink.Qdisc, error) {
	qdiscs, err := at.handle.QdiscList(byIndex(at.ifindex))
	if err != nil {
		return nil, fmt.Errorf("list the qdiscs: %w", err)
	}
	for _, q := range qdiscs {
		if q.Type() == "clsact" {
			return q, nil
		}
	}
	return nil, nil
}

// ingressFilter is whatever filter has the replicator's priority; nil: none.
func (at *attachment) ingressFilter() (netlink.Filter, error) {
	filters, err := at.filters(netlink.HANDLE_MIN_INGRESS)
	if err != nil {
		return nil, err
	}
	for _, f := range filters {
		// A priority may be listed once more for itself, without a handle, before its filters.
		if f.Attrs().Priority == replicatorPriority && f.Attrs().Handle != 0 {
			return f, nil
		}
	}
	return nil, nil
}

func (at *attachment) filters(parent uint32) ([]netlink.Filter, error) {
	filters, err := at.handle.FilterList(byIndex(at.ifindex), parent)
	// Without a qdisc there is nothing to list.
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("list the tc filters: %w", err)
	}
	return filters, nil
}

func byIndex(ifindex int) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: ifindex}}
}
