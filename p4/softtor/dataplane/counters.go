package dataplane

import (
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
)

// EventCount is the number of packets of an event (EventNames) at a job index.
func (d *Dataplane) EventCount(index uint8, event int) (packets uint64, err error) {
	at, err := eventIndex(index, event)
	if err != nil {
		return 0, err
	}
	return total(d.objects.Events, at)
}

// PreemptedCount is the number of partial sums of a job, by its index, that lost
// their slot to another chunk.
func (d *Dataplane) PreemptedCount(index uint8) (packets uint64, err error) {
	return total(d.objects.Preempted, uint32(index))
}

// SaturatedCount is the number of a job's sums that left the ToR after they had
// left the int32 range in it.
func (d *Dataplane) SaturatedCount(index uint8) (packets uint64, err error) {
	return total(d.objects.Saturated, uint32(index))
}

// ForwardCount is what matched an entry of the table forward; bytes are of whole frames.
func (d *Dataplane) ForwardCount(prefix netip.Prefix) (packets, bytes uint64, err error) {
	d.mu.Lock()
	index, ok := d.routes[prefix]
	d.mu.Unlock()
	if !ok {
		return 0, 0, fmt.Errorf("forward %v: %w", prefix, ErrNoEntry)
	}
	return traffic(d.objects.ForwardTraffic, index)
}

// MemberCount is what matched an entry of the table member; bytes are of whole frames.
func (d *Dataplane) MemberCount(key MemberKey) (packets, bytes uint64, err error) {
	d.mu.Lock()
	index, ok := d.members[key]
	d.mu.Unlock()
	if !ok {
		return 0, 0, fmt.Errorf("member %v: %w", key, ErrNoEntry)
	}
	return traffic(d.objects.MemberTraffic, index)
}

// ResetEvent sets a counter to 0, and so do the other Resets. What is counted
// at the same moment may be lost.
func (d *Dataplane) ResetEvent(index uint8, event int) error {
	at, err := eventIndex(index, event)
	if err != nil {
		return err
	}
	return zero[uint64](d.objects.Events, at)
}

// ResetPreempted sets PreemptedCount of a job index to 0.
func (d *Dataplane) ResetPreempted(index uint8) error {
	return zero[uint64](d.objects.Preempted, uint32(index))
}

// ResetSaturated sets SaturatedCount of a job index to 0.
func (d *Dataplane) ResetSaturated(index uint8) error {
	return zero[uint64](d.objects.Saturated, uint32(index))
}

// ResetForward sets ForwardCount of an entry to 0.
func (d *Dataplane) ResetForward(prefix netip.Prefix) error {
	d.mu.Lock()
	index, ok := d.routes[prefix]
	d.mu.Unlock()
	if !ok {
		return fmt.Errorf("forward %v: %w", prefix, ErrNoEntry)
	}
	return zero[torTraffic](d.objects.ForwardTraffic, index)
}

// ResetMember sets MemberCount of an entry to 0.
func (d *Dataplane) ResetMember(key MemberKey) error {
	d.mu.Lock()
	index, ok := d.members[key]
	d.mu.Unlock()
	if !ok {
		return fmt.Errorf("member %v: %w", key, ErrNoEntry)
	}
	return zero[torTraffic](d.objects.MemberTraffic, index)
}

func eventIndex(index uint8, event int) (uint32, error) {
	if event < 0 || event >= int(torEventEVENT_END) {
		return 0, fmt.Errorf("event %d: want 0 to %d", event, torEventEVENT_END-1)
	}
	return uint32(index)*uint32(torEventEVENT_END) + uint32(event), nil
}

// total is a counter over all CPUs.
func total(counters *ebpf.Map, index uint32) (uint64, error) {
	var perCPU []uint64
	if err := counters.Lookup(index, &perCPU); err != nil {
		return 0, fmt.Errorf("read counter %d: %w", index, err)
	}
	var sum uint64
	for _, n := range perCPU {
		sum += n
	}
	return sum, nil
}

func traffic(counters *ebpf.Map, index uint32) (packets, bytes uint64, err error) {
	var perCPU []torTraffic
	if err := counters.Lookup(index, &perCPU); err != nil {
		return 0, 0, fmt.Errorf("read counter %d: %w", index, err)
	}
	for _, t := range perCPU {
		packets, bytes = packets+t.Packets, bytes+t.Bytes
	}
	return packets, bytes, nil
}

// zero clears one counter on all CPUs.
func zero[T any](counters *ebpf.Map, index uint32) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("clear counter %d: %w", index, err)
	}
	if err := counters.Put(index, make([]T, cpus)); err != nil {
		return fmt.Errorf("clear counter %d: %w", index, err)
	}
	return nil
}
