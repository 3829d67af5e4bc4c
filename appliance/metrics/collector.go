package metrics

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/observe"
)

const (
	// patience is how long an answer may take; a ToR that does not answer is the only thing that makes it slow.
	patience = 2 * observe.Patience
	// late is how long a chunk must have waited for a worker for that to be late.
	late = time.Second
)

// Source is where the metrics are read; an observe.Observer is one.
type Source interface {
	Snapshot(ctx context.Context) *observe.Snapshot
}

// collector reads the source each time Prometheus asks.
type collector struct {
	source Source
	set    *set
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range c.set.all {
		to <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	snapshot := c.source.Snapshot(ctx)
	put := func(m *metric, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
	}
	c.node(snapshot, put)
	c.jobs(snapshot, put)
	c.lateness(snapshot, put, to)
	c.levels(snapshot, put)
	c.tor(snapshot, put)
	put(c.set.failures, float64(len(snapshot.Failures)))
}

type putter func(m *metric, value float64, labels ...string)

func (c *collector) node(s *observe.Snapshot, put putter) {
	node := s.Node
	put(c.set.build, 1, node.GetVersion(), runtime.Version(), node.GetProgramTag())
	put(c.set.adopted, truth(node.GetAdopted()))
	put(c.set.warnings, float64(len(node.GetWarnings())))
	for _, i := range node.GetInterfaces() {
		put(c.set.interfaceUp, truth(i.GetUp()), i.GetName())
		put(c.set.interfaceInfo, 1, i.GetName(), i.GetAddress(), i.GetMode())
	}
	capacity := node.GetCapacity()
	for _, class := range capacity.GetSlotClasses() {
		elements := strconv.Itoa(int(class.GetElements()))
		put(c.set.slots, float64(class.GetSlots().GetTotal()), elements)
		put(c.set.slotsUsed, float64(class.GetSlots().GetUsed()), elements)
		put(c.set.slotsLargest, float64(class.GetLargestFree()), elements)
	}
	amount := func(a *v1.Amount, total, used *metric) {
		if a != nil {
			put(total, float64(a.GetTotal()))
			put(used, float64(a.GetUsed()))
		}
	}
	amount(capacity.GetMemoryBytes(), c.set.memory, c.set.memoryUsed)
	amount(capacity.GetGroups(), c.set.groups, c.set.groupsUsed)
	amount(capacity.GetJobs(), c.set.jobIDs, c.set.jobIDsUsed)
	amount(capacity.GetTorSlots(), c.set.torSlots, c.set.torSlotsUsed)
}

func (c *collector) jobs(s *observe.Snapshot, put putter) {
	byState := map[v1.JobState]int{}
	for _, job := range s.Jobs {
		byState[job.GetState()]++
		put(c.set.moves, float64(job.GetMoves()), job.GetSpec().GetName())
	}
	for _, state := range []v1.JobState{v1.JobState_JOB_STATE_WAITING, v1.JobState_JOB_STATE_RUNNING, v1.JobState_JOB_STATE_DRAINING} {
		put(c.set.jobs, float64(byState[state]), word(state.String(), "JOB_STATE_"))
	}
	for job, workers := range s.Workers {
		byState, lates := map[v1.WorkerState]int{}, 0
		for _, w := range workers {
			byState[w.GetState()]++
			if w.GetLate().AsDuration() > late {
				lates++
			}
		}
		for number := range v1.WorkerState_name {
			if state := v1.WorkerState(number); state != v1.WorkerState_WORKER_STATE_UNSPECIFIED {
				put(c.set.workers, float64(byState[state]), job, word(state.String(), "WORKER_STATE_"))
			}
		}
		put(c.set.late, float64(lates), job)
	}
	for job, age := range s.Oldest {
		put(c.set.oldest, age.Seconds(), job)
	}
}

// lateness puts out how late each worker is, as far as the aggregator sees its contributions.
func (c *collector) lateness(s *observe.Snapshot, put putter, to chan<- prometheus.Metric) {
	for job, workers := range s.Workers {
		for _, w := range workers {
			l := w.GetLateness()
			if l == nil && w.GetReleasedWithout() == 0 {
				continue // nothing is known
			}
			rank, below, n := strconv.Itoa(int(w.GetRank())), map[float64]uint64{}, uint64(0)
			for i, count := range l.GetCounts() {
				if n += count; i < len(l.GetBounds()) {
					below[time.Duration(l.GetBounds()[i]).Seconds()] = n
				}
			}
			to <- prometheus.MustNewConstHistogram(c.set.lateness.desc, n, time.Duration(l.GetSum()).Seconds(), below, job, rank)
			put(c.set.without, float64(w.GetReleasedWithout()), job, rank)
		}
	}
}

func (c *collector) levels(s *observe.Snapshot, put putter) {
	for _, l := range s.Levels {
		put(c.set.contributions, float64(l.GetContributions()), l.GetJob(), l.GetLevel())
		put(c.set.published, float64(l.GetPublished()), l.GetJob(), l.GetLevel())
		if l.GetLevel() == observe.LevelTor { // the home is the last level: it passes nothing on
			put(c.set.spilled, float64(l.GetSpilled()), l.GetJob())
			put(c.set.preempted, float64(l.GetPreempted()), l.GetJob())
			put(c.set.evicted, float64(l.GetResendEvicted()), l.GetJob())
		}
	}
	for _, of := range s.Counters {
		if of.GetDrop() {
			put(c.set.dropped, float64(of.GetValue()), of.GetJob(), of.GetLevel(), of.GetName())
		} else if of.GetJob() != "" { // packets of no job are dropped, all of them
			put(c.set.events, float64(of.GetValue()), of.GetJob(), of.GetLevel(), of.GetName())
		}
	}
}

func (c *collector) tor(s *observe.Snapshot, put putter) {
	if state := s.Node.GetSwitch(); state != v1.SwitchState_SWITCH_STATE_UNSPECIFIED {
		for number, name := range v1.SwitchState_name {
			if number != 0 {
				put(c.set.torState, truth(state == v1.SwitchState(number)), word(name, "SWITCH_STATE_"))
			}
		}
	}
	if s.Switch == nil {
		return
	}
	put(c.set.torSessions, float64(s.Switch.GetSessions()))
	put(c.set.torPushes, float64(s.Switch.GetPushes()))
	put(c.set.torRepairs, float64(s.Switch.GetRepairs()))
	if at := s.Switch.GetLastCheck(); at != nil {
		put(c.set.torChecked, float64(at.AsTime().UnixNano())/1e9)
	}
	for _, t := range s.Switch.GetTables() {
		put(c.set.torEntries, float64(t.GetEntries()), t.GetName())
		put(c.set.torWanted, float64(t.GetWanted()), t.GetName())
	}
}

func word(enum, prefix string) string { return strings.ToLower(strings.TrimPrefix(enum, prefix)) }

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
