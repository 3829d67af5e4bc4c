package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
)

// The tables job, region, uplink and publish are one map in the kernel, by job
// id: a packet looks its job up once, and sees each change whole.

// SetJob writes an entry of the table job; nil deletes it.
func (d *Dataplane) SetJob(id uint16, params *JobParams) error {
	if params != nil && params.Index == 0 {
		return fmt.Errorf("job %d: %w: index 0 counts packets without a job", id, ErrInvalid)
	}
	err := d.changeTenant(id, func(t *torTenant) error {
		switch {
		case params == nil && t.Present == 0:
			return ErrNoEntry
		case params == nil:
			t.Present, t.Index, t.Generation, t.Cookie, t.Key = 0, 0, 0, 0, 0
			return nil
		case t.Present == 0 && d.jobs == maxJobs:
			return ErrFull
		}
		t.Present, t.Index, t.Generation, t.Cookie, t.Key = 1, params.Index, params.Generation, params.Cookie, params.Key
		return nil
	})
	if err != nil {
		return fmt.Errorf("job %d: %w", id, err)
	}
	return nil
}

// SetRegion writes an entry of the table region; nil deletes it. A job has at
// most four, which do not overlap.
func (d *Dataplane) SetRegion(key RegionKey, mode *RegionMode) error {
	if err := d.checkRegion(key, mode); err != nil {
		return fmt.Errorf("region of job %d, slot %#x mask %#x: %w", key.Job, key.Value, key.Mask, err)
	}
	err := d.changeTenant(key.Job, func(t *torTenant) error {
		i := slices.IndexFunc(t.Regions[:], func(r torRegion) bool {
			return r.Mode != 0 && r.Value == key.Value && r.Mask == key.Mask
		})
		if mode == nil || *mode == NoSlots {
			if i >= 0 {
				copy(t.Regions[i:], t.Regions[i+1:])
				t.Regions[len(t.Regions)-1] = torRegion{}
				return nil
			}
			if mode == nil {
				return ErrNoEntry
			}
			return nil
		}
		if i < 0 {
			for _, r := range t.Regions {
				if r.Mode != 0 && (r.Value^key.Value)&r.Mask&key.Mask == 0 {
					return fmt.Errorf("%w: overlaps slot %#x mask %#x of this job", ErrInvalid, r.Value, r.Mask)
				}
			}
			if i = slices.IndexFunc(t.Regions[:], func(r torRegion) bool { return r.Mode == 0 }); i < 0 {
				return ErrFull
			}
		}
		t.Regions[i] = torRegion{Value: key.Value, Mask: key.Mask, Mode: uint16(*mode)}
		return nil
	})
	if err != nil {
		return fmt.Errorf("region of job %d, slot %#x mask %#x: %w", key.Job, key.Value, key.Mask, err)
	}
	return nil
}

func (d *Dataplane) checkRegion(key RegionKey, mode *RegionMode) error {
	size := uint32(^key.Mask) + 1
	switch {
	case mode != nil && *mode > FirstComeSlots:
		return fmt.Errorf("%w: mode %d", ErrInvalid, *mode)
	case size&(size-1) != 0:
		return fmt.Errorf("%w: want a power of two of slots", ErrInvalid)
	case key.Value&^key.Mask != 0:
		return fmt.Errorf("%w: want %d slots from a multiple of %d on", ErrInvalid, size, size)
	case mode != nil && uint32(key.Value)+size > d.config.Slots:
		return fmt.Errorf("%w: slots %d to %d: there are %d", ErrInvalid, key.Value, uint32(key.Value)+size-1, d.config.Slots)
	}
	return nil
}

// SetUplink writes an entry of the table uplink; nil deletes it.
func (d *Dataplane) SetUplink(job uint16, uplink *Uplink) error {
	err := d.changeTenant(job, func(t *torTenant) error {
		if uplink == nil {
			if t.Uplink.Present == 0 {
				return ErrNoEntry
			}
			t.Uplink = torUplink{}
			return nil
		}
		if err := checkAddressed(uplink.Port, uplink.Src, uplink.Dst); err != nil {
			return err
		}
		t.Uplink = torUplink{
			Present: 1, Index: uplink.Index, Port: uint16(uplink.Port), Mac: uplink.MAC,
			Src: networkOrder(uplink.Src), Dst: networkOrder(uplink.Dst),
			FirstPort: uplink.FirstPort, PortMask: uplink.PortMask, Cookie: uplink.Cookie, Key: uplink.Key,
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("uplink of job %d: %w", job, err)
	}
	return nil
}

// SetPublish writes an entry of the table publish; nil deletes it.
func (d *Dataplane) SetPublish(job uint16, publish *Publish) error {
	err := d.changeTenant(job, func(t *torTenant) error {
		if publish == nil {
			if t.Publish.Kind == publishNot {
				return ErrNoEntry
			}
			t.Publish = torPublish{}
			return nil
		}
		if (publish.ToWorkers == nil) == (publish.ToParent == nil) {
			return fmt.Errorf("%w: want either workers or a parent", ErrInvalid)
		}
		if w := publish.ToWorkers; w != nil {
			if err := checkAddressed(0, w.Src, w.Dst); err != nil {
				return err
			}
			t.Publish = torPublish{
				Kind: publishToWorkers, Out: w.Group, SrcMac: w.SrcMAC, DstMac: w.DstMAC,
				Src: networkOrder(w.Src), Dst: networkOrder(w.Dst), SrcPort: w.SrcPort, DstPort: w.DstPort,
			}
			return nil
		}
		p := publish.ToParent
		if err := checkAddressed(p.Port, p.Src, p.Dst); err != nil {
			return err
		}
		t.Publish = torPublish{
			Kind: publishToParent, Out: uint16(p.Port), DstMac: p.MAC,
			Src: networkOrder(p.Src), Dst: networkOrder(p.Dst), SrcPort: p.FirstPort, DstPort: p.PortMask, Bits: p.Bits,
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("publish of job %d: %w", job, err)
	}
	return nil
}

// PUBLISH_ of bpf/tables.h.
const (
	publishNot       = 0
	publishToWorkers = 1
	publishToParent  = 2
)

// changeTenant replaces what is known of a job id by what change makes of it,
// unless that fails.
func (d *Dataplane) changeTenant(id uint16, change func(*torTenant) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var next torTenant
	current := d.tenants[id]
	if current != nil {
		next = *current
	}
	if err := change(&next); err != nil {
		return err
	}
	if next == (torTenant{}) {
		if current != nil {
			if err := d.objects.Tenants.Delete(uint32(id)); err != nil {
				return fmt.Errorf("delete: %w", err)
			}
		}
		delete(d.tenants, id)
	} else {
		if err := tableError(d.objects.Tenants.Put(uint32(id), next), "write"); err != nil {
			return err
		}
		d.tenants[id] = &next
	}
	d.jobs += int(next.Present)
	if current != nil {
		d.jobs -= int(current.Present)
	}
	return nil
}

func checkAddressed(port Port, addrs ...netip.Addr) error {
	for _, a := range addrs {
		if !a.Is4() {
			return fmt.Errorf("%w: address %v: want IPv4", ErrInvalid, a)
		}
	}
	return checkPort(port)
}
