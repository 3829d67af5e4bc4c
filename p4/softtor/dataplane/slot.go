package dataplane

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Slot is the state of a slot, of one moment.
func (d *Dataplane) Slot(index uint32) (Slot, error) {
	if index >= d.config.Slots {
		return Slot{}, fmt.Errorf("slot %d: there are %d", index, d.config.Slots)
	}
	var s torSlot
	if err := d.objects.Slots.LookupWithFlags(index, &s, ebpf.LookupLock); err != nil {
		return Slot{}, fmt.Errorf("read slot %d: %w", index, err)
	}
	return Slot{ID: s.Id, Urgency: uint32(s.Urgency), Tag: s.Tag, Bitmap: s.Bitmap, Flags: s.Flags}, nil
}

// Wipe clears all tables, slots and counters, as a reboot does. Ports stay
// attached. A packet that is in the program at this moment may still claim a slot.
func (d *Dataplane) Wipe() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget()
	o := &d.objects
	// Tables first: from then on nothing is admitted.
	errs := []error{
		empty[uint32, torTenant](o.Tenants),
		empty[torMemberKey, torMember](o.Members),
		empty[torPrefix, torRoute](o.Forward),
		empty[uint32, uint32](o.GroupRoutes),
		empty[torBridgeKey, torBridgeTo](o.Bridge),
		empty[uint32, ebpf.MapID](o.Groups),
	}
	errs = append(errs, d.ClearSlots(), zeroAll(o.Events), zeroAll(o.Preempted), zeroAll(o.Saturated))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("wipe: %w", err)
	}
	return nil
}

// ClearSlots frees all slots and loses what they hold; tables and counters stay. A
// packet that is in the program at this moment may still claim one.
func (d *Dataplane) ClearSlots() error {
	n := d.config.Slots
	_, err := d.objects.Slots.BatchUpdate(indices(n), make([]torSlot, n), &ebpf.BatchOptions{ElemFlags: uint64(ebpf.UpdateLock)})
	if err != nil {
		return fmt.Errorf("clear the slots: %w", err)
	}
	return nil
}

// empty deletes all entries of a map.
func empty[K, V any](m *ebpf.Map) error {
	var keys []K
	var key K
	var value V
	entries := m.Iterate()
	for entries.Next(&key, &value) {
		keys = append(keys, key)
	}
	if err := entries.Err(); err != nil {
		return fmt.Errorf("list %s: %w", m, err)
	}
	for _, k := range keys {
		if err := m.Delete(k); err != nil {
			return fmt.Errorf("empty %s: %w", m, err)
		}
	}
	return nil
}

// zeroAll clears all counters of a map.
func zeroAll(counters *ebpf.Map) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("clear %s: %w", counters, err)
	}
	n := counters.MaxEntries()
	if _, err := counters.BatchUpdate(indices(n), make([]uint64, int(n)*cpus), nil); err != nil {
		return fmt.Errorf("clear %s: %w", counters, err)
	}
	return nil
}

// indices is 0 to n-1.
func indices(n uint32) []uint32 {
	all := make([]uint32, n)
	for i := range all {
		all[i] = uint32(i)
	}
	return all
}
