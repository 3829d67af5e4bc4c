package dataplane

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
)

// Process runs one Ethernet frame through the compiled program as if it had
// arrived at port, and returns what leaves: one emission for each port of a
// group, in its order. It is the kernel's program, not a model of it. Ports need not be attached.
// The kernel takes frames from 14 bytes on.
func (d *Dataplane) Process(port Port, frame []byte) ([]Emission, error) {
	d.runMu.Lock()
	defer d.runMu.Unlock()
	if err := d.objects.RunPort.Set(uint32(port)); err != nil {
		return nil, fmt.Errorf("set the port of the frame: %w", err)
	}
	opts := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256)}
	decision, err := d.objects.TorRun.Run(&opts)
	if err != nil {
		return nil, fmt.Errorf("run a frame of %d bytes: %w", len(frame), err)
	}
	value := uint16(decision)
	switch kind := torKind(decision >> 16); kind {
	case torKindKIND_DROP:
		return nil, nil
	case torKindKIND_PORT:
		return []Emission{{Port(value), opts.DataOut}}, nil
	case torKindKIND_GROUP, torKindKIND_FLOOD:
		d.mu.Lock()
		ports := d.multicast[value]
		d.mu.Unlock()
		var out []Emission
		for _, p := range ports {
			if kind == torKindKIND_GROUP || p != port {
				out = append(out, Emission{p, slices.Clone(opts.DataOut)})
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("the program decided %#x", decision)
}
