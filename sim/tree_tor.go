package sim

import "net/netip"

// rackSwitch is the network of a tree of which one rack has a ToR: the workers of node 0, and that node, are behind it.
type rackSwitch struct {
	tor    *Tor
	plain  plain
	behind map[netip.Addr]bool
	group  netip.Addr
}

// Forward implements Switch.
func (s *rackSwitch) Forward(from netip.Addr, frame []byte) ([]Departure, error) {
	to := netip.AddrFrom4([4]byte(frame[30:34]))
	if s.behind[from] && (to == s.group || !to.IsMulticast()) {
		return s.tor.Forward(from, frame)
	}
	return s.plain.Forward(from, frame)
}

// addTor puts the ToR between.
func (w *wood) addTor(k *Kit) error {
	var addrs []netip.Addr
	for n := range w.Nodes {
		addrs = append(addrs, nodeAddr(n))
	}
	tor, err := NewTor(k.Planes[w.Tor.Elements], addrs...)
	if err != nil {
		return err
	}
	w.tor = tor
	// Again, as the ToR's rack has the ToR's ports, and the ToR as a member.
	job := w.node(0)
	if err := w.nodes[0].Serve(job); err != nil {
		return err
	}
	s := &rackSwitch{tor: tor, plain: plain{w.fabric.groups}, behind: map[netip.Addr]bool{nodeAddr(0): true}, group: treeGroup(0)}
	for rank, of := range w.shape.Of {
		tor.Link(treeWorker(rank)) // also those that a move can bring below node 0
		if of == 0 {
			s.behind[treeWorker(rank)] = true
		}
	}
	w.fabric.Switch = s
	w.fabric.Longer = map[netip.Addr]int64{nodeAddr(0): w.Tor.Longer}
	tor.Serve(job, w.Job.Share)
	for _, b := range w.Tor.Reboots {
		w.fabric.At(b.At, func(int64) error { return tor.Reboot(b.Back > 0) })
		w.fabric.At(b.At+b.Back, func(int64) error { return tor.Push() })
	}
	return tor.Push()
}
