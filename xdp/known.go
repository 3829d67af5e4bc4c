package xdp

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// clearKnown has every CPU forget the members of a job.
func (a *Aggregator) clearKnown(index uint32) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count the CPUs: %w", err)
	}
	if err := a.objects.Known.Put(index, make([]aggregatorJobKnown, cpus)); err != nil {
		return fmt.Errorf("clear the known members %d: %w", index, err)
	}
	return nil
}
