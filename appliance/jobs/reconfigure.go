package jobs

import "spillway/appliance/ledger"

// Reconfigure puts other defaults and quotas in force, for the jobs that are created from now on: those that are there keep what they have. When they are
// wrong, the error says all that is, and those before stay in force.
func (m *Manager) Reconfigure(defaults Defaults, quota ledger.Quota) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	config := m.config
	config.Defaults = defaults
	config.Ledger.Quota = quota
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return err
	}
	m.config.Defaults, m.config.Ledger.Quota = config.Defaults, quota
	m.ledger.SetQuota(quota)
	return nil
}
