package xdp

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

// vacate makes sure that no other XDP program is on the interface.
func (a *Aggregator) vacate(at *attachment) error {
	present, err := at.handle.LinkByIndex(at.ifindex)
	if err != nil {
		return err
	}
	xdp := present.Attrs().Xdp
	if xdp == nil || !xdp.Attached {
		return nil
	}
	name := present.Attrs().Name
	foreign := &ForeignError{
		Where: "interface " + name,
		What:  fmt.Sprintf("runs another XDP program, id %d", xdp.ProgId),
		Do:    fmt.Sprintf("take that off (`ip link set dev %s xdp off`, or `bpftool link detach` if a link holds it), or set aggregator.upgrade to have it replaced", name),
	}
	if a.takeover != TakeOver {
		return foreign
	}
	flags := map[uint32]int{nl.XDP_ATTACHED_DRV: nl.XDP_FLAGS_DRV_MODE, nl.XDP_ATTACHED_SKB: nl.XDP_FLAGS_SKB_MODE}[xdp.AttachMode]
	if err := netlink.LinkSetXdpFdWithFlags(present, -1, flags); err == nil {
		slog.Warn("another's XDP program was taken off the interface", "interface", name, "program", xdp.ProgId)
		return nil
	}
	// A link holds it. Only who has CAP_SYS_ADMIN may open another's.
	if err := breakLink(at.ifindex, ebpf.ProgramID(xdp.ProgId)); err != nil {
		foreign.Do = fmt.Sprintf("as root, find its link with `bpftool link` and `bpftool link detach` it (this process tried: %v)", err)
		return foreign
	}
	slog.Warn("another's XDP link was taken off the interface", "interface", name, "program", xdp.ProgId)
	return nil
}

// breakLink detaches whatever link holds the program on the interface.
func breakLink(ifindex int, program ebpf.ProgramID) error {
	links := new(link.Iterator)
	defer links.Close()
	for links.Next() {
		info, err := links.Link.Info()
		if err != nil || info.XDP() == nil || info.Program != program || info.XDP().Ifindex != uint32(ifindex) {
			continue // another kind of link, or gone meanwhile
		}
		return links.Link.Detach()
	}
	if err := links.Err(); err != nil {
		return err
	}
	return errors.New("no link of that program was found")
}
