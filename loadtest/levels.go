package main

import "spillway/loadtest/rack"

// levels says what of a job was summed where. A contribution is a DATA packet of a worker.
type levels struct {
	// TorShare is the share of the contributions that were summed in the ToR, SpillShare that of those that
	// it passed on to the home unsummed; the rest took part in repairs. Null without a ToR.
	TorShare   *float64 `json:"tor_share"`
	SpillShare *float64 `json:"spill_share"`
	// TorCompleted and HomePublished count the chunks whose RESULT came from the ToR and from the home.
	TorCompleted  uint64 `json:"tor_completed"`
	HomePublished uint64 `json:"home_published"`
	// Preempted are the job's partial sums that a more urgent chunk put out of their slot.
	Preempted uint64 `json:"preempted"`
	// HomePackets are the packets of members that came to the home.
	HomePackets uint64 `json:"home_packets"`
	// Tor and Home are what both counted, by event.
	Tor  map[string]uint64 `json:"tor_counters"`
	Home map[string]uint64 `json:"counters"`
}

// newLevels takes what was counted between two moments.
func newLevels(tor, torBefore rack.TorCounters, home, homeBefore map[string]uint64) levels {
	l := levels{Tor: difference(tor.Events, torBefore.Events), Home: difference(home, homeBefore), Preempted: since(tor.Preempted, torBefore.Preempted)}
	l.TorCompleted, l.HomePublished = l.Tor["completed"], l.Home["published"]
	l.HomePackets = l.Home["data"] + l.Home["result"] + l.Home["probe"]
	if tor.Events == nil {
		return l
	}
	summed := l.Tor["claimed"] + l.Tor["merged"] + l.Tor["completed"] + l.Tor["preempts"]
	spilled := l.Tor["spilled"] + l.Tor["passed"]
	all := summed + spilled + l.Tor["resend_evicted"] + l.Tor["duplicate"] + l.Tor["overlap"] + l.Tor["mismatch"]
	if all == 0 {
		// A job without a part of the ToR's memory goes past its pipeline, which counts nothing of it.
		spilled, all = l.Home["data"], l.Home["data"]
	}
	l.TorShare, l.SpillShare = share(summed, all), share(spilled, all)
	return l
}

func share(part, whole uint64) *float64 {
	s := float64(part) / float64(max(whole, 1))
	return &s
}

// since is what was counted between two looks at a counter.
func since(now, before uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

// difference is what was counted since; nil if nothing is. A counter that is smaller than before has begun anew: its ToR was rebooted, and the daemon that knew
// what it had counted was restarted as well.
func difference(now, before map[string]uint64) map[string]uint64 {
	if now == nil {
		return nil
	}
	d := make(map[string]uint64, len(now))
	for name, n := range now {
		d[name] = since(n, before[name])
	}
	return d
}
