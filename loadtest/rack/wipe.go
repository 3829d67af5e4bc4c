package rack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
)

// Memory is what can be lost of a data plane behind the back of those who manage it.
type Memory struct {
	// Tables are what it was told: without them it knows no job.
	Tables bool
	// Slots are the sums that are under way, and those that are kept for whoever asks again.
	Slots bool
}

// Maps by what they hold, as the BPF programs name them. Slots are cleared in their metadata, under their locks, so that each is lost whole.
var (
	torTables        = []string{"tenants", "members", "forward", "group_routes", "bridge", "groups"}
	aggregatorTables = []string{"jobs", "members"}
	slotMaps         = []string{"slots"}
)

// WipeTor empties maps of the software ToR, of which neither its P4Runtime server nor the daemon learns anything.
func (r *Rack) WipeTor(what Memory) error {
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
	if err := wipe(maps, what, torTables); err != nil {
		return fmt.Errorf("wipe the ToR: %w", err)
	}
	return nil
}

// WipeAggregator empties maps of an appliance's aggregator, of which its daemon learns nothing.
func (r *Rack) WipeAggregator(index int, what Memory) error {
	a, err := r.appliance(index)
	if err != nil {
		return err
	}
	maps := map[string]*ebpf.Map{}
	defer func() { closeMaps(maps) }()
	err = a.host.do(func() error {
		return filepath.WalkDir(daemonPin, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			name := filepath.Base(path)
			for _, wanted := range append(aggregatorTables, slotMaps...) {
				if name == wanted {
					if maps[name], err = ebpf.LoadPinnedMap(path, nil); err != nil {
						return fmt.Errorf("open the pinned map %s: %w", name, err)
					}
				}
			}
			return nil
		})
	})
	if err == nil {
		err = wipe(maps, what, aggregatorTables)
	}
	if err != nil {
		return fmt.Errorf("wipe the aggregator's memory: %w", err)
	}
	return nil
}

// wipe empties maps by name.
func wipe(maps map[string]*ebpf.Map, what Memory, tables []string) error {
	var names []string
	if what.Tables { // first: from then on nothing is admitted
		names = append(names, tables...)
	}
	if what.Slots {
		names = append(names, slotMaps...)
	}
	for _, name := range names {
		m := maps[name]
		if m == nil {
			return fmt.Errorf("there is no map %s", name)
		}
		if err := empty(m); err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
	}
	return nil
}

// empty deletes all that is in a map, or makes zeros of it where nothing can be deleted.
func empty(m *ebpf.Map) error {
	if m.Type() == ebpf.Array {
		zero := make([]byte, m.ValueSize())
		for i := range m.MaxEntries() {
			// A value with a lock in it is changed under the lock, and keeps it.
			err := m.Update(i, zero, ebpf.UpdateLock)
			if errors.Is(err, ebpf.ErrNotSupported) || err != nil && i == 0 {
				err = m.Update(i, zero, ebpf.UpdateAny)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	key, next := []byte(nil), make([]byte, m.KeySize())
	for {
		if err := m.NextKey(key, &next); errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		if err := m.Delete(next); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
}

// mapsOf are the BPF maps that a process has open, by name.
func mapsOf(pid int) (map[string]*ebpf.Map, error) {
	dir := fmt.Sprintf("/proc/%d/fdinfo", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look at the files of a process: %w", err)
	}
	maps := map[string]*ebpf.Map{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		for line := range strings.Lines(string(text)) {
			value, ok := strings.CutPrefix(line, "map_id:")
			if !ok {
				continue
			}
			id, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32)
			if err != nil {
				continue
			}
			if err := addMap(maps, ebpf.MapID(id)); err != nil {
				closeMaps(maps)
				return nil, err
			}
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
