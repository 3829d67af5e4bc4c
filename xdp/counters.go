package xdp

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// counterNames reads the names from the program's own enum counter, so that
// they are written once.
func counterNames(types *btf.Spec) ([]string, error) {
	var enum *btf.Enum
	if err := types.TypeByName("counter", &enum); err != nil {
		return nil, fmt.Errorf("the compiled program's counters: %w", err)
	}
	var names []string
	for i, v := range enum.Values {
		name := strings.ToLower(strings.TrimPrefix(v.Name, "COUNT_"))
		if v.Value != uint64(i) {
			return nil, fmt.Errorf("counter %s has value %d, want %d", name, v.Value, i)
		}
		names = append(names, name)
	}
	return names[:len(names)-1], nil // but for the end mark
}

// Counters are a job's counters since it was added, by the names of enum counter
// in bpf/counters.h: what came in, what was done with it, and why packets were dropped.
func (a *Aggregator) Counters(job uint16) (map[string]uint64, error) {
	if uint32(job) >= a.config.MaxJobs {
		return nil, fmt.Errorf("job %d: %w", job, ErrNoJob)
	}
	return a.readCounters(uint32(job))
}

// UnknownJobCounters count the packets that were dropped before their job was known.
func (a *Aggregator) UnknownJobCounters() (map[string]uint64, error) {
	return a.readCounters(a.config.MaxJobs)
}

func (a *Aggregator) readCounters(index uint32) (map[string]uint64, error) {
	var perCPU []aggregatorJobCounters
	if err := a.objects.Counters.Lookup(index, &perCPU); err != nil {
		return nil, fmt.Errorf("read counters %d: %w", index, err)
	}
	sums := make(map[string]uint64, len(a.names))
	for i, name := range a.names {
		sums[name] = 0
		for _, c := range perCPU {
			sums[name] += c.Of[i]
		}
	}
	return sums, nil
}

func (a *Aggregator) clearCounters(index uint32) error {
	var perCPU []aggregatorJobCounters
	if err := a.objects.Counters.Lookup(index, &perCPU); err != nil {
		return fmt.Errorf("read counters %d: %w", index, err)
	}
	clear(perCPU)
	if err := a.objects.Counters.Put(index, perCPU); err != nil {
		return fmt.Errorf("clear counters %d: %w", index, err)
	}
	return nil
}
