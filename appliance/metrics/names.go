package metrics

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// A metric is one of the documented ones. Names, labels and meanings are an interface that dashboards and alerts are built on.
type metric struct {
	name   string
	kind   prometheus.ValueType
	labels []string
	help   string
	desc   *prometheus.Desc
}

// set are all metrics that are read when Prometheus asks.
type set struct {
	build, adopted, warnings, failures                                     *metric
	jobs, moves, workers, late, oldest, lateness, without                  *metric
	contributions, published, spilled, preempted, evicted, dropped, events *metric
	slots, slotsUsed, slotsLargest, memory, memoryUsed                     *metric
	groups, groupsUsed, jobIDs, jobIDsUsed                                 *metric
	torSlots, torSlotsUsed, torState, torSessions, torPushes, torRepairs   *metric
	torChecked, torEntries, torWanted                                      *metric
	interfaceUp, interfaceInfo                                             *metric
	leads, led, attends, nodes, write                                      *metric
	all                                                                    []*metric // in the order of the documentation
}

func newSet() *set {
	s := &set{}
	add := func(name string, kind prometheus.ValueType, help string, labels ...string) *metric {
		m := &metric{name: "spillway_" + name, kind: kind, labels: labels, help: help}
		m.desc = prometheus.NewDesc(m.name, help, labels, nil)
		s.all = append(s.all, m)
		return m
	}
	const counter, gauge, histogram = prometheus.CounterValue, prometheus.GaugeValue, prometheus.UntypedValue

	s.build = add("build_info", gauge, "1; the labels say what runs.", "version", "go", "program")
	s.adopted = add("data_plane_adopted", gauge, "1 if the data plane was taken over from a process before, 0 if this one loaded it.")
	s.warnings = add("warnings", gauge, "What is wrong right now, as `spillctl status` shows it.")
	s.failures = add("read_failures", gauge, "Parts of the appliance that could not be read for this answer, whose metrics are missing from it.")

	s.jobs = add("jobs", gauge, "Jobs, by state: waiting, running, draining.", "state")
	s.moves = add("job_moves_total", counter, "How often a running generation of the job went on as a new one, because a home was lost, drained or had lost its memory.", "job")
	s.workers = add("workers", gauge, "Workers of a job, by state: missing, joined, present, lost, dead, left.", "job", "state")
	s.late = add("workers_late", gauge, "Workers that a chunk at the aggregator has waited for more than 1 s.", "job")
	s.oldest = add("oldest_waiting_chunk_seconds", gauge, "Age of the oldest chunk at the aggregator that waits for somebody; 0: none waits.", "job")
	s.lateness = add("worker_lateness_seconds", histogram, "How much later than the first contribution to a chunk a worker's came at the aggregator, in this generation; exact to a tick of its clock, 1 to 10 ms.", "job", "rank")
	s.without = add("released_without_total", counter, "Chunks that were released without the worker in this generation, under a quorum.", "job", "rank")

	s.contributions = add("contributions_total", counter, "Contributions that were summed at the level in this generation, alone or as a part of a partial sum.", "job", "level")
	s.published = add("published_chunks_total", counter, "Chunks whose result the level published in this generation.", "job", "level")
	s.spilled = add("spilled_contributions_total", counter, "Contributions that the ToR passed on to their home unsummed.", "job")
	s.preempted = add("preempted_sums_total", counter, "Partial sums of the job that a more urgent chunk put out of the ToR.", "job")
	s.evicted = add("resend_evicted_sums_total", counter, "Partial sums that a repeated contribution took along from the ToR to their home.", "job")
	s.dropped = add("dropped_packets_total", counter, "Packets that the level dropped, by reason; of no job, at this host, where job is empty.", "job", "level", "reason")
	s.events = add("packet_events_total", counter, "What the level did with packets that it did not drop, by its own counters' names.", "job", "level", "event")

	s.slots = add("slots", gauge, "Slots of the aggregator, by the elements that a slot of the class has room for.", "elements")
	s.slotsUsed = add("slots_used", gauge, "Slots of the aggregator that jobs hold.", "elements")
	s.slotsLargest = add("slots_largest_free", gauge, "The longest run of free slots: a job's must be in one.", "elements")
	s.memory = add("memory_bytes", gauge, "Memory of the aggregator's slots.")
	s.memoryUsed = add("memory_used_bytes", gauge, "Memory of the slots that jobs hold.")
	s.groups = add("groups", gauge, "Multicast groups that jobs can be given.")
	s.groupsUsed = add("groups_used", gauge, "Multicast groups that jobs hold.")
	s.jobIDs = add("job_limit", gauge, "The most jobs at a time.")
	s.jobIDsUsed = add("job_limit_used", gauge, "Jobs that are admitted.")

	s.torSlots = add("tor_slots", gauge, "Slots of the ToR; missing while it is not known.")
	s.torSlotsUsed = add("tor_slots_used", gauge, "Slots of the ToR that are set aside for jobs.")
	s.torState = add("tor_state", gauge, "1 for the state that the ToR is in, 0 for the others: away, backup, syncing, in_sync.", "state")
	s.torSessions = add("tor_sessions_total", counter, "Sessions that were opened with the ToR.")
	s.torPushes = add("tor_pipeline_pushes_total", counter, "Pipelines that were pushed to the ToR because it had another or none.")
	s.torRepairs = add("tor_repaired_entries_total", counter, "Entries of the ToR that were missing, changed or foreign, and were put right.")
	s.torChecked = add("tor_last_check_timestamp_seconds", gauge, "When the ToR was last compared with what it should be.")
	s.torEntries = add("tor_table_entries", gauge, "Entries in a table of the ToR.", "table")
	s.torWanted = add("tor_table_entries_wanted", gauge, "Entries that should be in a table of the ToR.", "table")

	s.interfaceUp = add("interface_up", gauge, "Whether packets can go over an interface of the aggregator.", "interface")
	s.interfaceInfo = add("interface_info", gauge, "1; the labels say how the aggregator is on the interface.", "interface", "address", "mode")

	s.leads = add("cluster_leads", gauge, "1 if this appliance leads its cluster; missing, as all that follow, where an appliance stands alone.")
	s.led = add("cluster_has_leader", gauge, "1 if this appliance knows of one that leads.")
	s.attends = add("cluster_attends", gauge, "1 if this appliance has a part in its cluster; 0 where it does not reach etcd, or etcd has no quorum.")
	s.nodes = add("cluster_nodes", gauge, "Appliances, by state: ready, lost, draining, drained; from the one that leads.", "state")
	s.write = add("cluster_write_seconds", gauge, "How long the last write to etcd took; from an appliance that has led.")
	return s
}

// The metrics that are counted as they happen.
const (
	callsName = "spillway_api_calls_total"
	callsHelp = "Calls of the API that ended, by method and gRPC code."
	waitsName = "spillway_join_wait_seconds"
	waitsHelp = "How long workers waited from their Join until they got their parameters; those that resumed are not counted."
)

var (
	callsLabels = []string{"method", "code"}
	// waitsBuckets go from a job that only waited for the data plane to one that waited for somebody to start a process by hand.
	waitsBuckets = []float64{0.005, 0.02, 0.1, 0.5, 1, 5, 15, 60, 300, 1800}
)

// Table is the list of all metrics as it is in docs/metrics.md.
func Table() string {
	var b strings.Builder
	row := func(name, kind string, labels []string, help string) {
		text := "–"
		if len(labels) > 0 {
			text = "`" + strings.Join(labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, kind, text, help)
	}
	b.WriteString("| metric | type | labels | what it is |\n|---|---|---|---|\n")
	for _, m := range newSet().all {
		kind := "gauge"
		switch m.kind {
		case prometheus.CounterValue:
			kind = "counter"
		case prometheus.UntypedValue: // it has no value, but counts and a sum
			kind = "histogram"
		}
		row(m.name, kind, m.labels, m.help)
	}
	row(callsName, "counter", callsLabels, callsHelp)
	row(waitsName, "histogram", nil, waitsHelp)
	return b.String()
}
