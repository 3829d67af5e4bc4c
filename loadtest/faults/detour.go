package faults

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// Link is what an Injector must know of the link at a port.
type Link struct {
	Rate uint64 // bit/s; 0: unshaped
	MTU  int    // bytes
}

const (
	// lateness is by how many packets of the link's rate a reordered packet is late, at least…
	lateness = 8
	// …unless so many are reordered that the detour must be faster to carry them: each
	// direction's share of the packets, each behind a filler, and half as much again.
	detourHeadroom = 6
	// unshapedRate in bit/s stands for the rate of an unshaped link.
	unshapedRate = 1_000_000_000
	// detourQueue in bytes is some 300 full packets.
	detourQueue    = 1 << 20
	ethernetHeader = 14
)

// detourRate in bit/s is the rate of a port's detour: a packet takes 1/rate on it.
func detourRate(link Link, reorder float64) uint64 {
	rate := link.Rate
	if rate == 0 {
		rate = unshapedRate
	}
	return max(rate/lateness, uint64(detourHeadroom*reorder*float64(rate)))
}

// addDetour makes the port's detour, a veth pair inside the switch: what enters its near end leaves its
// far end late, because the near end's token bucket holds one packet and fills slowly.
func (i *Injector) addDetour(h *netlink.Handle, port int, link Link) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = fmt.Sprintf("near%d", port), link.MTU
	near := &netlink.Veth{LinkAttrs: attrs, PeerName: fmt.Sprintf("far%d", port), PeerMTU: uint32(link.MTU)}
	if err := h.LinkAdd(near); err != nil {
		return fmt.Errorf("make the detour of port %d: %w", port, err)
	}
	far, err := h.LinkByName(near.PeerName)
	if err != nil {
		return fmt.Errorf("find the far end of the detour of port %d: %w", port, err)
	}
	for _, end := range []netlink.Link{near, far} {
		if err := h.LinkSetUp(end); err != nil {
			return fmt.Errorf("bring the detour of port %d up: %w", port, err)
		}
	}
	bytesPerSecond := detourRate(link, i.rates.Reorder) / 8
	bucket := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: near.Attrs().Index,
			Handle:    netlink.MakeHandle(1, 0),
			Parent:    netlink.HANDLE_ROOT,
		},
		Rate: bytesPerSecond,
		// Ticks are coarse at high rates, and a bucket smaller than a packet passes none: a tenth more.
		Buffer: netlink.Xmittime(bytesPerSecond, uint32(link.MTU+ethernetHeader)*11/10),
		Limit:  detourQueue,
	}
	if err := h.QdiscReplace(bucket); err != nil {
		return fmt.Errorf("slow the detour of port %d (needs sch_tbf): %w", port, err)
	}
	if err := addHooks(h, far.Attrs().Index); err != nil {
		return err
	}
	if err := addProgram(h, far.Attrs().Index, netlink.HANDLE_MIN_INGRESS, i.objects.FaultsReturn); err != nil {
		return err
	}
	if err := i.objects.Detours.Put(uint32(port), uint32(near.Attrs().Index)); err != nil {
		return fmt.Errorf("register the detour of port %d: %w", port, err)
	}
	return nil
}
