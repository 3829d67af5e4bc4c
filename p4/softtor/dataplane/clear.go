package dataplane

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// ClearSlots frees all slots and loses what they hold; tables and counters stay. A
// packet that is in the program at this moment may still claim one.
func (d *Dataplane) ClearSlots() error {
	for index := range d.config.Slots {
		if err := d.objects.Slots.Update(index, torSlot{}, ebpf.UpdateLock); err != nil {
			return fmt.Errorf("clear slot %d: %w", index, err)
		}
	}
	return nil
}
