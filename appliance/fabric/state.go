package fabric

import (
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

// standing is how the appliance and the ToR stand; guarded by Fabric.mu.
type standing struct {
	state   v1.SwitchState
	reason  string
	since   time.Time
	changed chan struct{} // closed and replaced when state or reason changes
	// connecting tells that the first attempt is still under way: nothing is known about the ToR.
	connecting bool
}

const (
	away    = v1.SwitchState_SWITCH_STATE_AWAY
	backup  = v1.SwitchState_SWITCH_STATE_BACKUP
	syncing = v1.SwitchState_SWITCH_STATE_SYNCING
	inSync  = v1.SwitchState_SWITCH_STATE_IN_SYNC
)

// State says how the appliance and the ToR stand, and why in words when it is not in sync.
func (f *Fabric) State() (v1.SwitchState, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state, f.reason
}

// Changed is closed at the next change of what State says.
func (f *Fabric) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// become changes the state, and says so when it is another.
func (f *Fabric) become(state v1.SwitchState, reason string) {
	f.mu.Lock()
	before, was, first := f.state, time.Since(f.since), f.connecting
	if state == before && reason == f.reason && !first {
		f.mu.Unlock()
		return
	}
	f.reason, f.connecting = reason, false
	if state != before {
		f.state, f.since = state, time.Now()
	}
	close(f.changed)
	f.changed = make(chan struct{})
	f.move()
	jobs, entries := len(f.jobs), len(f.have)
	f.mu.Unlock()

	if before == away && state != away && !first {
		f.event(v1.EventLevel_EVENT_LEVEL_INFO, "switch-back", "the ToR at %s is back after %v", f.config.Target, was.Round(time.Millisecond))
	}
	if state == before && !first {
		if state != away { // why it is away changes from attempt to attempt
			f.log.Info("state of the ToR", "state", state, "reason", reason)
		}
		return
	}
	switch state {
	case away:
		f.event(v1.EventLevel_EVENT_LEVEL_WARNING, "switch-away", "the ToR at %s is away: %s", f.config.Target, reason)
	case backup:
		f.event(v1.EventLevel_EVENT_LEVEL_WARNING, "switch-backup", "%s; this appliance waits", reason)
	case inSync:
		f.event(v1.EventLevel_EVENT_LEVEL_INFO, "switch-in-sync", "the ToR has all that it should: %d entries and multicast groups, for %d jobs", entries, jobs)
	}
}
