package main

import (
	"fmt"
	"slices"
	"time"

	"spillway/worker"
)

// JobReport is what `run` says of one job. The JSON names are an interface.
type JobReport struct {
	Name        string  `json:"name"`
	ID          uint16  `json:"id"`
	Priority    int     `json:"priority"`
	SizeBytes   int64   `json:"size_bytes"`
	Iterations  int     `json:"iterations"`
	Hosts       []int   `json:"hosts"` // the rack's workers it ran on
	StartMS     float64 `json:"start_ms"`
	StragglerMS float64 `json:"straggler_ms"` // pause of its last worker before each all-reduce

	// JCTMS is the job's completion time: from its start until its last worker has its last result.
	JCTMS   float64   `json:"jct_ms"`
	P50MS   float64   `json:"p50_ms"`
	P99MS   float64   `json:"p99_ms"`
	TimesMS []float64 `json:"times_ms"`

	// Partial are the iterations whose result lacks somebody, MissedShare the share of all workers' elements that are in no result. Only with a quorum.
	Partial     int        `json:"partial"`
	MissedShare float64    `json:"missed_share"`
	Lateness    []Lateness `json:"lateness"`

	levels
	// Resent are the packets that the workers sent again, warm-up not counted.
	Resent  uint64         `json:"resent"`
	Correct bool           `json:"correct"`
	Workers []worker.Stats `json:"workers"`
}

func newJobReport(s *session) JobReport {
	t := s.task
	j := JobReport{
		Name: t.name, ID: t.id, Priority: t.priority, SizeBytes: int64(t.size), Iterations: t.count, Hosts: t.hosts,
		StartMS: milliseconds(t.start), StragglerMS: milliseconds(t.straggler),
		JCTMS: milliseconds(s.completion), Partial: s.partial, MissedShare: s.missed, Lateness: s.lateness, levels: s.levels, Correct: len(s.wrong) == 0, Workers: s.after,
	}
	for _, took := range s.times {
		j.TimesMS = append(j.TimesMS, milliseconds(took))
	}
	sorted := slices.Sorted(slices.Values(s.times))
	j.P50MS, j.P99MS = milliseconds(percentile(sorted, 0.50)), milliseconds(percentile(sorted, 0.99))
	for rank := range s.after {
		j.Resent += s.after[rank].Retransmissions - s.before[rank].Retransmissions
	}
	return j
}

// addJob takes a job into the report. The figures of the report itself are those of the first one.
func (r *Report) addJob(s *session) {
	j := newJobReport(s)
	r.Jobs = append(r.Jobs, j)
	r.Wrong = append(r.Wrong, s.wrong...)
	r.Workers = append(r.Workers, s.after...)
	r.Retransmissions += j.Resent
	if len(r.Jobs) == 1 {
		r.Transport = s.after[0].Transport.Kind
		r.setTimes(s.times)
	}
	r.Correct = len(r.Wrong) == 0
	var all float64
	for _, j := range r.Jobs {
		all += j.JCTMS
	}
	r.AverageJCTMS = all / float64(len(r.Jobs))
}

// writeJobs adds lines about each job to the table.
func (r *Report) writeJobs(row func(name, format string, args ...any)) {
	for _, j := range r.Jobs {
		name := "job " + j.Name
		if len(r.Jobs) > 1 {
			row(name, "%d × %.1f MB at priority %d in %.1f ms, from %v on (all-reduce p50 %.3f ms, p99 %.3f ms)",
				j.Iterations, float64(j.SizeBytes)/1e6, j.Priority, j.JCTMS, time.Duration(j.StartMS*1e6), j.P50MS, j.P99MS)
		}
		if r.Config.Quorum != 0 {
			row(name, "%d of %d results lack somebody; %.2f%% of the workers' elements are in none", j.Partial, j.Iterations, 100*j.MissedShare)
		}
		for _, l := range j.Lateness {
			if l.ReleasedWithout > 0 {
				row(name, "%d chunks were published without rank %d", l.ReleasedWithout, l.Rank)
			}
		}
		if j.TorShare != nil {
			row(name, "contributions: %.1f%% summed in the ToR, %.1f%% spilled; %d partial sums preempted; %d packets resent",
				100**j.TorShare, 100**j.SpillShare, j.Preempted, j.Resent)
			row(name, "chunks: %d completed in the ToR, %d at the aggregator, which got %d packets", j.TorCompleted, j.HomePublished, j.HomePackets)
			row(name+", ToR", "%s", counted(j.Tor))
		}
	}
	if len(r.Jobs) > 1 {
		row("average completion", "%.1f ms", r.AverageJCTMS)
	}
	if r.TorReboots > 0 {
		row("ToR reboots", fmt.Sprintf("%d", r.TorReboots))
	}
	if r.DaemonRestarts > 0 {
		row("daemon restarts", fmt.Sprintf("%d", r.DaemonRestarts))
	}
}
