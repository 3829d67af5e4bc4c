package rack

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// A receiver is an XDP program that passes everything on.
//
// A veth that is sent to with XDP_TX queues the packets, but the sender wakes it up
// only if it has an XDP program of its own (veth_xdp_flush in drivers/net/veth.c, up
// to 6.18 at least). So the switch's port of the aggregator has this one.
type receiver struct {
	program *ebpf.Program
	link    link.Link
}

// newReceiver attaches one in native mode; call it in the interface's namespace.
func newReceiver(ifindex int) (*receiver, error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "rack_receiver",
		Type:         ebpf.XDP,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()},
		License:      "Dual MIT/GPL",
	})
	if err != nil {
		return nil, fmt.Errorf("load an XDP program: %w", err)
	}
	attached, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: ifindex, Flags: link.XDPDriverMode})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach an XDP program in native mode to interface %d: %w", ifindex, err), program.Close())
	}
	return &receiver{program, attached}, nil
}

// xdpPass is XDP_PASS of linux/bpf.h.
const xdpPass = 2

// close detaches it.
func (r *receiver) close() error {
	if r == nil {
		return nil
	}
	if err := errors.Join(r.link.Close(), r.program.Close()); err != nil {
		return fmt.Errorf("detach the XDP program of the aggregator's port: %w", err)
	}
	return nil
}
