package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

const (
	// joinPatience is how long the ranks that have joined wait for the others before it is called wrong.
	joinPatience = 5 * time.Second
	// latePatience is how long chunks wait for a rank before it is called wrong: longer than any resend takes.
	latePatience = 2 * time.Second
)

// workers says which ranks a job waits for, and why.
func (d *diagnosis) workers(job *v1.Job) {
	const check = "workers"
	name, worst := job.Spec.GetName(), len(d.findings)
	d.neverJoined(job)
	for _, w := range d.Workers[name] {
		who := fmt.Sprintf("rank %d", w.Rank)
		if w.Address != "" {
			who += " (" + w.Address + ")"
		}
		waits := w.WaitedFor > 0 && w.Late.AsDuration() >= latePatience
		wait := fmt.Sprintf("%d chunks wait for it, the oldest for %s", w.WaitedFor, span(w.Late.AsDuration()))
		switch {
		case w.State == v1.WorkerState_WORKER_STATE_LOST:
			text := fmt.Sprintf("%s was lost%s: its call ended without farewell", who, d.ago(w))
			if waits {
				text += "; " + wait
			}
			d.fail(check, name, text, "see whether its process and host live. A process that only lost the call resumes by itself; if it ended, "+
				"let the other ranks leave, and start all again: "+
				"a new generation begins when all have joined")
		case w.State == v1.WorkerState_WORKER_STATE_DEAD && job.Spec.GetMinWorkers() > 0:
			d.fail(check, name, fmt.Sprintf("%s is dead: its call broke%s, and was not made again", who, d.ago(w)),
				"the others go on without it as soon as all of them have called Rejoin; start a process in its place, which they take in at their next Rejoin")
		case w.State == v1.WorkerState_WORKER_STATE_DEAD:
			d.fail(check, name, fmt.Sprintf("%s is dead: its call broke%s, and was not made again", who, d.ago(w)),
				"the collectives of the others have failed: let them leave, and start all again. An elastic job (--min-workers) would go on without it")
		case w.State == v1.WorkerState_WORKER_STATE_LEFT && waits:
			d.fail(check, name, fmt.Sprintf("%s has left%s, and %s: it made fewer collectives than the others", who, d.ago(w), wait),
				"all ranks must make the same sequence of collectives: compare their logs, then let the others leave and start all again")
		case w.State == v1.WorkerState_WORKER_STATE_PRESENT && waits && w.Packets == 0:
			d.fail(check, name, fmt.Sprintf("%s takes part, and no packet of it ever reached the aggregator; %s", who, wait),
				"from its host, see whether the home's address is routed by the right interface, whether a firewall drops UDP to the home's ports, "+
					"and whether the MTU on the way "+
					"takes a whole chunk ('ping -M do -s SIZE'); 'spillctl counters --drops' says whether its packets come and are refused")
		case w.State == v1.WorkerState_WORKER_STATE_PRESENT && waits:
			last := ""
			if w.LastPacket != nil {
				last = "; its last packet came " + span(max(0, d.Now.Sub(w.LastPacket.AsTime()))) + " ago"
			}
			d.fail(check, name, fmt.Sprintf("%s is late: %s%s", who, wait, last),
				"see what its process does: it computes longer than the others, has stopped (a debugger, SIGSTOP, a full disk), or its packets are "+
					"lost on the way")
		}
	}
	if len(d.findings) == worst {
		d.fine(check, name, "%d of %d ranks are present, and none is late", job.Present, job.Spec.GetWorkers())
	}
}

// neverJoined is about ranks without which the job cannot start.
func (d *diagnosis) neverJoined(job *v1.Job) {
	name := job.Spec.GetName()
	var joined, missing []uint32
	var first time.Time
	for _, w := range d.Workers[name] {
		switch w.State {
		case v1.WorkerState_WORKER_STATE_JOINED:
			joined = append(joined, w.Rank)
			if since := w.Since.AsTime(); w.Since != nil && (first.IsZero() || since.Before(first)) {
				first = since
			}
		case v1.WorkerState_WORKER_STATE_MISSING:
			missing = append(missing, w.Rank)
		}
	}
	if len(joined) == 0 || len(missing) == 0 || !first.IsZero() && d.Now.Sub(first) < joinPatience {
		return
	}
	if least := job.Spec.GetMinWorkers(); least > 0 && job.Ranks > 0 {
		d.warn("workers", name, fmt.Sprintf("%d wait for the next generation since %s, and the %d of generation %d go on without them", len(joined), span(d.Now.Sub(first)), job.Ranks, job.Generation),
			"the trainer must look whether others wait (AgreeToRejoin) and call Rejoin at a step, at all ranks; see in 'spillctl workers' who has not")
		return
	} else if int(least) > 0 && len(joined) >= int(least) {
		return // it settles
	}
	d.fail("workers", name, fmt.Sprintf("%s never joined; %s wait for it since %s", ranks(missing), ranks(joined), span(d.Now.Sub(first))),
		fmt.Sprintf("start the processes of %s with the job's name %q, or see in their logs why they cannot join (address, certificate, rank); the "+
			"job starts when the last is there",
			ranks(missing), name))
}

func (d *diagnosis) ago(w *v1.Worker) string {
	if w.Since == nil {
		return ""
	}
	return " " + span(max(0, d.Now.Sub(w.Since.AsTime()))) + " ago"
}

// chunks says which chunks wait, since when and for whom.
func (d *diagnosis) chunks(job *v1.Job) {
	const check = "chunks"
	name := job.Spec.GetName()
	slots := d.Slots[name]
	old := 0
	for _, slot := range slots.GetSlots() {
		if slot.Age.AsDuration() >= latePatience {
			old++
		}
	}
	if old == 0 {
		d.fine(check, name, "no chunk waits at the aggregator for longer than %v", latePatience)
		return
	}
	oldest := slots.Slots[0]
	var missing []uint32
	for _, slot := range slots.Slots[:old] {
		missing = append(missing, slot.Missing...)
	}
	slices.Sort(missing)
	d.fail(check, name, fmt.Sprintf("%d chunks wait at the aggregator for longer than %v, the oldest, chunk %d, for %s: for %s",
		uint32(old)+slots.More, latePatience, oldest.Seq, span(oldest.Age.AsDuration()), ranks(slices.Compact(missing))),
		fmt.Sprintf("see what those ranks do ('spillctl workers %s'); a collective that not all ranks make, or make in another order, waits here too", name))
}

// ranks are ranks in words: rank 3; ranks 0, 1 and 2.
func ranks(numbers []uint32) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = fmt.Sprint(n)
	}
	switch len(texts) {
	case 0:
		return "no rank"
	case 1:
		return "rank " + texts[0]
	default:
		return "ranks " + strings.Join(texts[:len(texts)-1], ", ") + " and " + texts[len(texts)-1]
	}
}
