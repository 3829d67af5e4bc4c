package dataplane

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
)

// SetMulticast sets the ports of a replication group; nil deletes it. Ports that
// are not attached get nothing until they are.
func (d *Dataplane) SetMulticast(group uint16, ports []Port) error {
	for i, port := range ports {
		if err := checkPort(port); err != nil {
			return fmt.Errorf("multicast group %d: %w", group, err)
		}
		if slices.Contains(ports[:i], port) {
			return fmt.Errorf("multicast group %d: %w: port %d is named twice", group, ErrInvalid, port)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	previous, known := d.multicast[group]
	switch {
	case ports == nil && !known:
		return fmt.Errorf("multicast group %d: %w", group, ErrNoEntry)
	case ports == nil:
		delete(d.multicast, group)
	case !known && len(d.multicast) == maxGroups:
		return fmt.Errorf("multicast group %d: %w", group, ErrFull)
	default:
		d.multicast[group] = slices.Clone(ports)
	}
	if err := d.rebuildGroup(group); err != nil {
		delete(d.multicast, group)
		if known {
			d.multicast[group] = previous
		}
		return err
	}
	return nil
}

// rebuildGroupsOf rebuilds all groups that a port is in.
func (d *Dataplane) rebuildGroupsOf(port Port) error {
	var errs []error
	for group, ports := range d.multicast {
		if slices.Contains(ports, port) {
			errs = append(errs, d.rebuildGroup(group))
		}
	}
	return errors.Join(errs...)
}

// rebuildGroup puts a new device map of the group's attached ports in the place
// of the old one, so that a packet sees the one or the other.
func (d *Dataplane) rebuildGroup(group uint16) error {
	var devices []attachment
	for _, port := range d.multicast[group] {
		if at, ok := d.attached[port]; ok {
			devices = append(devices, at)
		}
	}
	if len(devices) == 0 {
		if err := d.objects.Groups.Delete(uint32(group)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("multicast group %d: delete: %w", group, err)
		}
		return nil
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: fmt.Sprintf("group_%d", group), Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: uint32(len(devices)),
	})
	if err != nil {
		return fmt.Errorf("multicast group %d: %w", group, err)
	}
	defer m.Close() // the outer map holds it
	err = devices[0].space.run(func() error {
		for i, at := range devices {
			if err := m.Put(uint32(i), uint32(at.ifindex)); err != nil {
				return fmt.Errorf("interface %d: %w", at.ifindex, err)
			}
		}
		return nil
	})
	if err == nil {
		err = d.objects.Groups.Put(uint32(group), m)
	}
	if err != nil {
		return fmt.Errorf("multicast group %d: %w", group, err)
	}
	return nil
}
