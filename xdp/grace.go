package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// waitForPackets returns when all packets have left that were in a BPF program when it was called; this takes some 20
// milliseconds. The kernel waits so for programs that may use a map which is taken out of another one (maybe_wait_bpf_programs in its
// syscall.c), and has no call for the waiting alone.
func waitForPackets() error {
	inner := &ebpf.MapSpec{Name: "grace_inner", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	outer, err := ebpf.NewMap(&ebpf.MapSpec{Name: "grace", Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: inner})
	if err != nil {
		return fmt.Errorf("wait for packets: make a map: %w", err)
	}
	in, err := ebpf.NewMap(inner)
	if err != nil {
		return errors.Join(fmt.Errorf("wait for packets: make a map: %w", err), outer.Close())
	}
	if err = outer.Put(uint32(0), in); err != nil {
		err = fmt.Errorf("wait for packets: %w", err)
	}
	return errors.Join(err, in.Close(), outer.Close())
}
