package rack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"

	"spillway/xdp"
)

// slotsMap is the map, in both data planes, that says what is in their slots: the sums under way and, at the home, those that are kept for whoever asks again.
const slotsMap = "slots"

// ForgetTorSlots clears all slots of the software ToR, of which neither its P4Runtime server nor the daemon learns anything.
func (r *Rack) ForgetTorSlots() error {
	if r.tor == nil {
		return errNoTor
	}
	r.tor.mu.Lock()
	defer r.tor.mu.Unlock()
	maps, err := mapsOf(r.tor.process.PID())
	if err != nil {
		return fmt.Errorf("wipe the ToR: %w", err)
	}
	defer closeMaps(maps)
	if maps[slotsMap] == nil {
		return errors.New("wipe the ToR: its process has no map of slots")
	}
	if err := clearSlots(maps[slotsMap]); err != nil {
		return fmt.Errorf("wipe the ToR: %w", err)
	}
	return nil
}

// ForgetSlots clears all slots of an appliance's aggregator, of which its daemon learns nothing.
func (r *Rack) ForgetSlots(index int) error {
	a, err := r.appliance(index)
	if err != nil {
		return err
	}
	err = a.host.do(func() error {
		slots, err := ebpf.LoadPinnedMap(filepath.Join(daemonPin, "aggregator", slotsMap), nil)
		if err != nil {
			return err
		}
		return errors.Join(xdp.ForgetSlots(slots), slots.Close())
	})
	if err != nil {
		return fmt.Errorf("wipe the aggregator's memory: %w", err)
	}
	return nil
}

// clearSlots makes all slots of the ToR empty, each under its lock, so that it is lost whole.
func clearSlots(slots *ebpf.Map) error {
	zero := make([]byte, slots.ValueSize())
	for i := range slots.MaxEntries() {
		if err := slots.Update(i, zero, ebpf.UpdateLock); err != nil {
			return fmt.Errorf("slot %d: %w", i, err)
		}
	}
	return nil
}

// mapsOf are the BPF maps that a process has open, by name.
func mapsOf(pid int) (map[string]*ebpf.Map, error) {
	ids, err := idsOf(pid, "map_id:")
	if err != nil {
		return nil, err
	}
	maps := map[string]*ebpf.Map{}
	for id := range ids {
		if err := addMap(maps, ebpf.MapID(id)); err != nil {
			closeMaps(maps)
			return nil, err
		}
	}
	return maps, nil
}

// addMap opens a map under its name, unless there is one of that name.
func addMap(maps map[string]*ebpf.Map, id ebpf.MapID) error {
	m, err := ebpf.NewMapFromID(id)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open map %d: %w", id, err)
	}
	info, err := m.Info()
	if err != nil {
		return errors.Join(fmt.Errorf("map %d: %w", id, err), m.Close())
	}
	if maps[info.Name] != nil {
		return m.Close()
	}
	maps[info.Name] = m
	return nil
}

func closeMaps(maps map[string]*ebpf.Map) {
	for _, m := range maps {
		// Nothing was written through the descriptor.
		_ = m.Close()
	}
}
