package doctor

import (
	"fmt"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

// syncPatience is how long bringing the ToR to what it should be may take.
const syncPatience = 15 * time.Second

// tor says how the appliance stands with the ToR.
func (d *diagnosis) tor() {
	const check = "switch"
	tor := d.Switch
	if tor == nil {
		if d.Node != nil && d.Node.Switch == v1.SwitchState_SWITCH_STATE_UNSPECIFIED {
			d.fine(check, "", "the configuration has no ToR: all sums are made by the aggregator")
		}
		return
	}
	since := ""
	if tor.Since != nil && !d.Now.IsZero() {
		since = " for " + span(d.Now.Sub(tor.Since.AsTime()))
	}
	switch tor.State {
	case v1.SwitchState_SWITCH_STATE_AWAY:
		text := fmt.Sprintf("there has been no session with the ToR at %s%s%s", tor.Target, since, because(tor.Reason))
		remedy := fmt.Sprintf("see whether the switch is up, its P4Runtime server runs, and %s can be reached from here (switch.target, switch.tls)",
			tor.Target)
		if through := d.through(); through > 0 {
			d.fail(check, "", fmt.Sprintf("%s; %d jobs go through it", text, through), remedy)
		} else {
			d.warn(check, "", text+"; jobs go on through the aggregator alone", remedy)
		}
	case v1.SwitchState_SWITCH_STATE_BACKUP:
		d.fail(check, "", fmt.Sprintf("another controller is the primary at the ToR %s%s%s: this appliance cannot program it", tor.Target, since,
			because(tor.Reason)),
			fmt.Sprintf("end the other controller, or give this one a higher switch.election than its %s and restart it", tor.ElectionId))
	case v1.SwitchState_SWITCH_STATE_SYNCING:
		if tor.Since != nil && d.Now.Sub(tor.Since.AsTime()) > syncPatience {
			d.fail(check, "", fmt.Sprintf("the ToR is being brought to what it should be%s, which should take seconds%s", since, because(tor.Reason)),
				"look at the daemon's log ('journalctl -u spillwayd') for what the switch refuses")
		} else {
			d.fine(check, "", "the ToR is being brought to what it should be")
		}
	case v1.SwitchState_SWITCH_STATE_IN_SYNC:
		d.entries(tor)
	}
}

// entries says whether the ToR's tables are left alone.
func (d *diagnosis) entries(tor *v1.GetSwitchResponse) {
	const check = "switch"
	for _, table := range tor.Tables {
		if table.Entries != table.Wanted {
			d.fail(check, "", fmt.Sprintf("table %s of the ToR has %d entries, and the jobs need %d", table.Name, table.Entries, table.Wanted),
				"it is repaired at the next check (switch.check); if it comes again, another controller writes there: end it, or let it be a backup")
			return
		}
	}
	if tor.Repairs > 0 {
		d.warn(check, "", fmt.Sprintf("since the daemon began, %d entries of the ToR were missing, changed or foreign, and were put right: "+
			"somebody else writes to it", tor.Repairs),
			"find the other controller and end it, or let it be a backup (a lower election id); 'spillctl events' says what was repaired, and when")
		return
	}
	d.fine(check, "", "the ToR %s is reached, this appliance is its primary, and its entries are as they should be", tor.Target)
}

// through counts the running jobs whose chunks go through the ToR.
func (d *diagnosis) through() int {
	n := 0
	for _, job := range d.Jobs {
		if job.State == v1.JobState_JOB_STATE_RUNNING && job.Path == v1.JobPath_JOB_PATH_TOR {
			n++
		}
	}
	return n
}

// fewData is below which a comparison of counters says nothing.
const fewData = 64

// region says whether a job's part of the ToR's memory is used.
func (d *diagnosis) region(job *v1.Job) {
	const check = "region"
	name, region := job.Spec.GetName(), job.Allocation.GetRegion()
	if region.GetSlots() == 0 {
		return
	}
	if job.State == v1.JobState_JOB_STATE_RUNNING && job.Path == v1.JobPath_JOB_PATH_DIRECT {
		d.warn(check, name, fmt.Sprintf("the job has %d slots in the ToR, and this generation goes past it%s", region.Slots, because(job.Reason)),
			"when the ToR is in sync again ('spillctl switch'), let the workers leave and join again: the next generation goes through it")
		return
	}
	summed := d.value("tor", name, "claimed") + d.value("tor", name, "merged") + d.value("tor", name, "completed")
	data := d.value("aggregator", name, "data")
	if summed == 0 && data >= fewData && job.Spec.GetWorkers() > 1 {
		d.warn(check, name, fmt.Sprintf("the job has %d slots in the ToR, which summed nothing, while %d contributions came to the aggregator",
			region.Slots, data),
			"the workers' packets do not pass the ToR, or it does not know the job: compare 'spillctl switch' and the cabling with switch.hosts of "+
				"the configuration")
		return
	}
	if region.Slots < region.Period && !region.Shared {
		d.fine(check, name, "%d of every %d chunks have a slot in the ToR; --tor-slots of 'spillctl job create' can give it more", region.Slots, region.Period)
		return
	}
	d.fine(check, name, "the ToR has slots for all chunks")
}

// because is a reason behind a text.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// span is a duration for people.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}
