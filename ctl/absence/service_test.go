package absence

import (
	"strings"
	"testing"

	v1 "spillway/appliance/api/spillway/v1"
)

// TestJudge: what systemd says of the unit, in the words of its properties.
func TestJudge(t *testing.T) {
	const (
		ok      = v1.FindingLevel_FINDING_LEVEL_OK
		warning = v1.FindingLevel_FINDING_LEVEL_WARNING
		failure = v1.FindingLevel_FINDING_LEVEL_ERROR
	)
	for name, c := range map[string]struct {
		properties map[string]any
		level      v1.FindingLevel
		says, do   string
	}{
		"not installed": {map[string]any{"LoadState": "not-found"}, failure, "there is no unit spillwayd.service", "start it"},
		"stopped": {map[string]any{"LoadState": "loaded", "ActiveState": "inactive", "SubState": "dead", "UnitFileState": "enabled"}, failure,
			"inactive (dead)", "'systemctl start spillwayd'"},
		"never enabled": {map[string]any{"LoadState": "loaded", "ActiveState": "inactive", "SubState": "dead", "UnitFileState": "disabled"}, failure,
			"inactive", "enable --now"},
		"failed": {map[string]any{"LoadState": "loaded", "ActiveState": "failed", "SubState": "failed", "Result": "exit-code",
			"ExecMainStatus": int32(2)}, failure, "exit-code, exit status 2", "journalctl"},
		"fails again": {map[string]any{"LoadState": "loaded", "ActiveState": "activating", "SubState": "auto-restart", "Result": "watchdog",
			"ExecMainStatus": int32(6)}, failure, "watchdog", "journalctl"},
		"starts": {map[string]any{"LoadState": "loaded", "ActiveState": "activating", "SubState": "start",
			"StatusText": "bringing the jobs back"}, warning, "bringing the jobs back", "wait"},
		"runs": {map[string]any{"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "StatusText": "2 jobs"}, ok, "2 jobs", ""},
	} {
		f := judge(unit, c.properties)
		if f.Check != "service" || f.Level != c.level || !strings.Contains(f.Text, c.says) || !strings.Contains(f.Remedy, c.do) {
			t.Errorf("%s: %v; want %v, a text with %q, a remedy with %q", name, f, c.level, c.says, c.do)
		}
	}
}
