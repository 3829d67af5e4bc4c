package jobs

import (
	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/store"
	"spillway/p4/pipeline"
)

// SwitchChanged tells the workers of jobs that go through the ToR how it stands now, and why in words when it is not in sync. The daemon calls it at each
// change of the ToR's state.
func (m *Manager) SwitchChanged(state v1.SwitchState, reason string) {
	m.learnLimits()
	text := "the ToR is as it should be"
	switch state {
	case v1.SwitchState_SWITCH_STATE_IN_SYNC:
	case v1.SwitchState_SWITCH_STATE_SYNCING:
		text = "the ToR is being brought to what it should be"
	case v1.SwitchState_SWITCH_STATE_BACKUP:
		text = "another controller programs the ToR"
	default:
		text = "there is no session with the ToR: what is in it goes on, and nothing in it is repaired"
	}
	if reason != "" {
		text += ": " + reason
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.torState = text
	if state == v1.SwitchState_SWITCH_STATE_IN_SYNC {
		m.torState = ""
	}
	for _, j := range m.jobs {
		j.torState = m.torState
		if j.record.Running == nil || !j.record.Running.Through {
			continue
		}
		for rank := range j.members {
			if c := j.members[rank].call; c != nil {
				c.tor = text
				c.poke()
			}
		}
		m.changed(j)
	}
}

// learnLimits asks what the ToR can hold, and writes it down when it is news: after a restart jobs can then be admitted before the ToR was reached.
func (m *Manager) learnLimits() {
	if m.config.Switch == nil {
		return
	}
	limits, known := m.config.Switch.Limits()
	if !known || !m.begin() {
		return
	}
	defer m.running.Done()
	m.mu.Lock()
	news := limits != m.limits
	m.useLimits(limits)
	m.mu.Unlock()
	if !news {
		return
	}
	if err := m.store.PutLimits(store.Limits{Slots: limits.Slots, Elements: limits.Elements}); err != nil {
		m.config.Log.Warn("what the ToR can hold is not written down: after a restart no job can use it before it was reached", "error", err)
	}
}

// useLimits takes note of what the ToR can hold. The lock is held, or nobody else has the Manager.
func (m *Manager) useLimits(limits pipeline.Limits) {
	m.limits = limits
	m.ledger.SetTorSlots(limits.Slots)
}
