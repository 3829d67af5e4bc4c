package main

import (
	"fmt"
	"strconv"
)

// torPlan is what is measured of the first level.
func torPlan() []section {
	return append([]section{torPacketPlan(), memoryPlan()}, preemptionPlan()...)
}

// torPacketPlan measures what a packet costs in the software ToR.
func torPacketPlan() section {
	s := section{
		title: "The software ToR, a packet",
		text: "The whole program on one core, in nanoseconds a DATA packet: it claims a free slot, is merged, completes the chunk (which makes the RESULT and its checksum), preempts a less urgent chunk (contents are " +
			"swapped), is spilled to its home, or is a RESEND that takes along what is in the slot. Beside it, in the same run, a loop that only swaps bytes and adds the same elements.",
		columns: []column{
			{title: "claim, ns", key: "claim_ns"}, {title: "merge, ns", key: "merge_ns"}, {title: "complete, ns", key: "complete_ns"}, {title: "preempt, ns", key: "preempt_ns"},
			{title: "spill, ns", key: "spill_ns"}, {title: "RESEND, ns", key: "resend_ns"}, {title: "bare loop, ns", key: "bare_ns"}, {title: "merge ÷ bare", key: "merge_ns", over: "bare_ns", digits: 2},
		},
	}
	for _, e := range []int{32, 64, 256, 832} {
		s.rows = append(s.rows, row{label: "E = " + strconv.Itoa(e), args: []string{"bench", "--tor", "--rounds", "3", "--output", "json"}, read: readBench(e)})
	}
	return s
}

// sweepWindow is W of the sweep; sweepSlots hold all chunks in flight.
const sweepWindow, sweepSlots = 255, 256

// memoryPlan sweeps the ToR's memory.
func memoryPlan() section {
	s := section{
		title: "Memory of the ToR",
		text: "Four workers at 500 Mbit/s all-reduce 10 MB through the software ToR, whose memory holds a fraction of the 256 chunks in flight (window 255); " +
			"what does not fit is summed at the aggregator. With a link to the aggregator of four times a worker's, spilling is to cost next to nothing: that is what the second level is for. " +
			"With one that is no faster than a worker's, the memory is what counts: without any the four workers share that link. The ratio is to memory for all chunks, in the same round. " +
			"Drops: a port of the software ToR holds 256 packets, and a burst of all workers to the aggregator can be more.",
		plot: &plotted{file: "benchmarks-tor-memory.svg", title: "Throughput by memory of the ToR", xLabel: "slots / chunks in flight", column: 1},
		columns: []column{
			{title: "p50, ms", key: "p50_ms", digits: 2},
			{title: "algorithm bandwidth, Gbit/s", key: "algbw_gbps", digits: 3},
			{title: "ratio to plenty", key: "algbw_gbps", relative: true, percent: true, digits: 1},
			{title: "summed in the ToR", key: "tor_share", percent: true, digits: 1},
			{title: "spilled", key: "spill_share", percent: true, digits: 1},
			{title: "packets to the aggregator", key: "home_packets"},
			{title: "dropped on the way there", key: "to_home_drops"},
			{title: "retransmissions", key: "retransmissions"},
		},
	}
	for _, home := range []struct{ label, rate string }{{"home link 4×", "2gbit"}, {"home link 1×", "500mbit"}} {
		base := len(s.rows)
		for _, slots := range []int{sweepSlots, sweepSlots / 2, sweepSlots / 4, sweepSlots / 8, sweepSlots / 16, 0} {
			r := row{
				label: home.label + ", memory for " + fraction(slots),
				args: []string{"run", "--workers", "4", "--size", "10MB", "--iterations", "5", "--warmup", "1", "--output", "json", "--rate", "500mbit", "--home-rate", home.rate,
					"--window", strconv.Itoa(sweepWindow), "--tor", "soft", "--tor-slots", strconv.Itoa(slots)},
				read: readRun, base: base, curve: home.label, x: float64(slots) / sweepSlots,
			}
			if home.rate == "2gbit" && slots == sweepSlots/8 {
				r.aim = "ratio ≥ 90%"
			}
			s.rows = append(s.rows, r)
		}
	}
	return s
}

// fraction names a part of the chunks in flight.
func fraction(slots int) string {
	switch slots {
	case 0:
		return "none"
	case sweepSlots:
		return "all chunks"
	}
	return "1/" + strconv.Itoa(sweepSlots/slots)
}

// preemptionPlan lets jobs contend for the ToR's memory, one of them with a straggler.
func preemptionPlan() []section {
	var sections []section
	for _, c := range []struct {
		title, text, home string
		priorities        []int // of the jobs a, b, …
	}{
		{"Preemption, two jobs, scarce home link", "Two jobs of the same four workers, and a link to the aggregator that is no faster than one worker's. " +
			"Job a, the least urgent, has a straggler: its last worker pauses 20 ms before each all-reduce, while the others' chunks sit in the ToR. " +
			"All jobs together have memory for the chunks that one of them has in flight. First come: a slot is kept until its chunk is complete. Preemption: a more urgent chunk takes it. " +
			"Private: each job has an equal part of the memory to itself. The ratio says how much sooner the jobs are complete than with first come, on average.", "500mbit", []int{32, 64}},
		{"Preemption, four jobs, scarce home link", "The same with four jobs, each more urgent than the one before.", "500mbit", []int{20, 50, 80, 110}},
		{"Preemption, four jobs, three of them alike", "The same where only the one with the straggler is less urgent. Jobs that are equally urgent preempt each other only when a chunk has lost 129 contests: " +
			"among them it is first come, first served, and chunks that are half in the ToR and half at the aggregator have to be brought together by resending.", "500mbit", []int{32, 64, 64, 64}},
		{"Preemption, four jobs, home link 4×", "Four priorities again, but what is spilled meets no bottleneck: there is little to win by memory, and parts of one's own save the cost of contention.", "2gbit", []int{20, 50, 80, 110}},
	} {
		s := section{title: c.title, text: c.text}
		for i := range c.priorities {
			name := string(rune('a' + i))
			s.columns = append(s.columns, column{title: "job " + name + ", ms", key: "jct_ms." + name, digits: 1})
		}
		s.columns = append(s.columns,
			column{title: "average, ms", key: "average_jct_ms", digits: 1},
			column{title: "ratio to first come", key: "average_jct_ms", relative: true, inverse: true, digits: 2},
			column{title: "summed in the ToR", key: "tor_share", percent: true, digits: 1},
			column{title: "spilled", key: "spill_share", percent: true, digits: 1},
			column{title: "preempted", key: "preempted"},
			column{title: "dropped on the way to the aggregator", key: "to_home_drops"},
			column{title: "retransmissions", key: "retransmissions"})
		for _, mode := range []struct {
			label string
			args  []string
		}{
			{"first come", []string{"--tor-partition", partitionShared, "--preempt", switchOff}},
			{"preemption", []string{"--tor-partition", partitionShared, "--preempt", switchOn}},
			{"private", []string{"--tor-partition", partitionPrivate}},
		} {
			args := []string{"run", "--workers", "4", "--size", "5MB", "--iterations", "6", "--warmup", "1", "--output", "json", "--rate", "500mbit", "--home-rate", c.home,
				"--window", "127", "--tor", "soft", "--tor-slots", "128"}
			args = append(args, mode.args...)
			for i, priority := range c.priorities {
				job := fmt.Sprintf("name=%c,priority=%d", 'a'+i, priority)
				if i == 0 {
					job += ",straggler=20ms"
				}
				args = append(args, "--jobs", job)
			}
			s.rows = append(s.rows, row{label: mode.label, args: args, read: readRun})
		}
		sections = append(sections, s)
	}
	return sections
}
