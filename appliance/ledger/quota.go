package ledger

// SetQuota puts another quota in force. It takes nothing back from the jobs that are there.
func (l *Ledger) SetQuota(quota Quota) { l.config.Quota = quota }
