package fabric

import (
	"fmt"
	"net/netip"

	"spillway/p4/pipeline"
)

// Host is the host with an address.
func (f *Fabric) Host(addr netip.Addr) (pipeline.Host, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.places[addr]
	return h, ok
}

// SetHosts wants other machines to be forwarded to, in the place of those before. Jobs that run keep the ports that their workers were at.
func (f *Fabric) SetHosts(hosts []pipeline.Host) error {
	if err := f.setHosts(hosts); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release()
	f.stir()
	return nil
}

// setHosts changes what is wanted, or nothing when it cannot be.
func (f *Fabric) setHosts(hosts []pipeline.Host) error {
	updates, err := pipeline.HostEntries(f.info, f.config.Flood, hosts...)
	if err != nil {
		return fmt.Errorf("ToR: %w", err)
	}
	items, err := pipeline.Items(f.info, updates)
	if err != nil {
		return fmt.Errorf("ToR: hosts: %w", err)
	}
	seen := map[pipeline.Key]string{}
	for _, item := range items {
		if other, ok := seen[item.Key]; ok && other != item.Value {
			return fmt.Errorf("ToR: two hosts differ in what they want of %s: %s and %s", item.Key, other, item.Value)
		}
		seen[item.Key] = item.Value
	}
	places := map[netip.Addr]pipeline.Host{}
	for _, h := range hosts {
		places[h.Addr] = h
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts, f.places = items, places
	return nil
}
