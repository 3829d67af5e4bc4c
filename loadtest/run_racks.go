package main

import "spillway/loadtest/rack"

// hosts are the workers of all racks.
func (o *runOptions) hosts() int { return o.workers * max(o.racks, 1) }

// checkRacks refuses what several racks do not have.
func (o *runOptions) checkRacks() error {
	if o.racks <= 1 {
		return nil
	}
	for name, given := range map[string]bool{
		"tor": o.tor != string(rack.TorNone), "quorum": o.quorum != 0, "unicast": o.unicast, "daemon-restarts": o.daemonRestarts > 0, "home-rate": o.homeRate != 0,
	} {
		if given {
			return usagef("run: --%s is not for --racks: several racks have bridges, an aggregator each without a daemon, and jobs that wait for all", name)
		}
	}
	return nil
}

// addTree adds what the levels of several racks counted of a job.
func (r *Report) addTree(from *rack.Rack, job string) error {
	racks, root, err := from.TreeCounters(job)
	if err != nil || racks == nil {
		return err
	}
	if r.RackCounters == nil {
		r.RackCounters, r.RootCounters = map[string]uint64{}, map[string]uint64{}
	}
	for name, n := range racks {
		r.RackCounters[name] += n
	}
	for name, n := range root {
		r.RootCounters[name] += n
	}
	return nil
}
