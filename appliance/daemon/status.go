package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

// statusEvery is how old the text may be that the service manager shows.
const statusEvery = time.Second

// followStatus keeps the text that the service manager shows, until ctx ends.
func (d *daemon) followStatus(ctx context.Context) error {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.notify.say("%s", d.status())
		case <-ctx.Done():
			return nil
		}
	}
}

// status is the appliance in a line.
func (d *daemon) status() string {
	var running, workers int
	list := d.seat.List()
	for _, job := range list {
		workers += int(job.GetPresent())
		if job.GetState() == v1.JobState_JOB_STATE_RUNNING {
			running++
		}
	}
	parts := []string{fmt.Sprintf("%s (%d running), %s", count(len(list), "job"), running, count(workers, "worker"))}
	if r := d.seat.now.Load(); r != nil && r.fabric != nil {
		state, _ := r.fabric.State()
		parts = append(parts, "ToR "+switchWords[state])
	}
	if d.cluster != nil {
		parts = append([]string{d.clusterStatus()}, parts...)
	}
	warnings := d.warnings.list()
	switch len(warnings) {
	case 0:
	case 1:
		parts = append(parts, "warning: "+warnings[0])
	default:
		parts = append(parts, fmt.Sprintf("%d warnings, the first: %s", len(warnings), warnings[0]))
	}
	return strings.Join(parts, "; ")
}

var switchWords = map[v1.SwitchState]string{
	v1.SwitchState_SWITCH_STATE_AWAY: "away", v1.SwitchState_SWITCH_STATE_BACKUP: "has another primary",
	v1.SwitchState_SWITCH_STATE_SYNCING: "syncing", v1.SwitchState_SWITCH_STATE_IN_SYNC: "in sync",
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// clusterStatus is the appliance's part in the cluster.
func (d *daemon) clusterStatus() string {
	status := d.cluster.Status()
	switch {
	case status.Leads:
		return fmt.Sprintf("leads %s", count(len(status.Members), "appliance"))
	case status.Leader.Term != 0:
		return "led by " + status.Leader.Name
	}
	return "without a leader"
}
