package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// figure is what one command measured, by the JSON keys of its report.
type figure map[string]float64

// section is a table of the page, and may have a plot of one of its columns.
type section struct {
	title, text string
	rows        []row
	columns     []column
	plot        *plotted
}

// row is one command, or one part of what a command reports.
type row struct {
	label string
	args  []string
	aim   string // what the project set itself, as the page says it; empty for none
	read  func(report []byte) (figure, error)
	base  int     // the row that relative columns compare with
	curve string  // of the section's plot, empty if the row is not in it
	x     float64 // in the plot
}

// command is the row's, as the page gives it.
func (r row) command() string { return strings.Join(r.args, " ") }

// column is a value of every row: a key of the report, or the ratio of two, in the
// same row or (relative) against the base row of the same round.
type column struct {
	title    string
	key      string
	over     string // divided by this key; empty for none
	relative bool
	inverse  bool // the ratio's, so that more is better where less of the value is
	percent  bool
	digits   int
}

func (c column) value(f, base figure) (float64, error) {
	value, there := f[c.key]
	if !there {
		return 0, fmt.Errorf("the report has no %s", c.key)
	}
	if c.over != "" {
		value /= f[c.over]
	}
	if c.relative {
		value /= base[c.key]
	}
	if c.inverse {
		value = 1 / value
	}
	return value, nil
}

func (c column) format(value float64) string {
	if c.percent {
		return fmt.Sprintf("%.*f%%", c.digits, 100*value)
	}
	return fmt.Sprintf("%.*f", c.digits, value)
}

// benchmarkPlan is all that is measured, in the order of the page.
func benchmarkPlan() []section {
	bench := []string{"bench", "--output", "json"}[:3:3] // full, so that append copies
	bulk := func(more ...string) []string {
		return append([]string{"run", "--workers", "4", "--size", "40MB", "--iterations", "10", "--output", "json"}, more...)
	}
	small := func(more ...string) []string {
		return append([]string{"run", "--workers", "4", "--size", "4kB", "--iterations", "2000", "--output", "json"}, more...)
	}
	p50, p99 := column{title: "p50, ms", key: "p50_ms", digits: 2}, column{title: "p99, ms", key: "p99_ms", digits: 2}
	bandwidth := column{title: "algorithm bandwidth, Gbit/s", key: "algbw_gbps", digits: 3}
	share := column{title: "share of the wire limit", key: "wire_share", percent: true, digits: 1}
	elements := column{title: "aggregated, million elements/s", key: "elements_millions_per_s", digits: 1}
	resent := column{title: "retransmissions", key: "retransmissions"}
	var packets, conversions []row
	for _, e := range []int{32, 64, 256, 832} {
		aim := ""
		if e == 256 {
			aim = "merge ≤ 2.0 × the bare loop"
		}
		packets = append(packets, row{label: "E = " + strconv.Itoa(e), args: bench, aim: aim, read: readBench(e)})
		conversions = append(conversions, row{label: "E = " + strconv.Itoa(e), args: append(bench, "--rounds", "3"), read: readBench(e)})
	}
	sections := []section{{
		title: "The aggregator, a packet",
		text: "The whole program on one core, in nanoseconds a packet: a merge into a slot, and the last merge, which also publishes. Beside it, in the same run, a loop that " +
			"only swaps bytes and adds the same elements. Payload is what one core merges in Gbit/s of elements.",
		rows: packets,
		columns: []column{
			{title: "merge, ns", key: "merge_ns"}, {title: "merge + publish, ns", key: "publish_ns"}, {title: "bare loop, ns", key: "bare_ns"},
			{title: "merge ÷ bare", key: "merge_ns", over: "bare_ns", digits: 2}, {title: "payload a core, Gbit/s", key: "payload_gbps", digits: 1},
		},
	}, {
		title: "The worker's conversions, a chunk",
		text: "What a worker does to a chunk of float32, on one core: find its exponent, quantise it into the packet, and back from the RESULT; and the latter two of the same elements in 16 bits each. Out and back is what one core " +
			"converts in Gbit/s of elements; as long as that is far above the link's rate, conversion is not the bottleneck.",
		rows: conversions,
		columns: []column{
			{title: "exponent, ns", key: "exponent_ns"}, {title: "quantise, ns", key: "quantise_ns"}, {title: "dequantise, ns", key: "dequantise_ns"},
			{title: "quantise in 16 bits, ns", key: "quantise16_ns"}, {title: "dequantise, ns", key: "dequantise16_ns"},
			{title: "out and back, Gbit/s", key: "conversion_gbps", digits: 1},
		},
	}, {
		title: "Four workers on shaped links",
		text:  "All-reduce of 40 MB, SUM over float32. The wire limit is payload ÷ all bytes on the wire, headers included, times the links' rate.",
		rows: []row{
			{label: "500 Mbit/s, E = 256", args: bulk("--rate", "500mbit", "--elements", "256"), aim: "share ≥ 95%", read: readRun},
			{label: "1 Gbit/s, E = 256", args: bulk("--rate", "1gbit", "--elements", "256"), aim: "share ≥ 85%", read: readRun},
		},
		columns: []column{p50, p99, bandwidth, share, elements, resent},
	}, {
		title: "16 bits on the wire",
		text: "A job may have its sums of floats in 16 bits an element, two to each element of a packet: half the packets, and coarser sums (docs/protocol.md, section 5). The same tensor of 40 MB, " +
			"and each result still compared bit for bit with a sum made apart from the library. The wire limit of the second row is half that of the first.",
		rows: []row{
			{label: "32 bits", args: bulk("--rate", "500mbit", "--elements", "256", "--wire-bits", "32"), read: readRun},
			{label: "16 bits", args: bulk("--rate", "500mbit", "--elements", "256", "--wire-bits", "16"), aim: "2 × as fast", read: readRun},
		},
		columns: []column{p50, p99, {title: "times as fast", key: "algbw_gbps", relative: true, digits: 2}, bandwidth, share, elements, resent},
	}, {
		title: "Four workers on unshaped links",
		text:  "What the machine's cores allow: workers, switch and aggregator share them. At E = 832 it is the bytes that cost, not the packets: each element is copied or converted about ten times on its way out and back, and the aim is missed.",
		rows: []row{
			{label: "E = 256", args: bulk("--rate", "unshaped", "--elements", "256"), aim: "> 0.96 Gbit/s", read: readRun},
			{label: "E = 832", args: bulk("--rate", "unshaped", "--elements", "832"), aim: "> 2.6 Gbit/s", read: readRun},
			{label: "E = 832, AF_XDP with copies", args: bulk("--rate", "unshaped", "--elements", "832", "--transport", "af_xdp"), read: readRun},
		},
		columns: []column{p50, p99, bandwidth, elements, resent},
	}, {
		title: "Loss",
		text: "The same at 500 Mbit/s with packets lost at every worker's port, each way. Goodput is relative to the run without loss of the same round. " +
			"Losses cost more than their share because every worker waits for the last chunk of every other. " +
			"The second row loses next to nothing: it shows what the injection itself costs, which switches off offloads so that each packet meets the dice on its own.",
		rows: []row{
			{label: "none", args: bulk("--rate", "500mbit", "--elements", "256", "--loss", "0%"), read: readRun},
			{label: "one in 100 million", args: bulk("--rate", "500mbit", "--elements", "256", "--loss", "0.000001%"), read: readRun},
			{label: "0.1%", args: bulk("--rate", "500mbit", "--elements", "256", "--loss", "0.1%"), aim: "≥ 90%", read: readRun},
			{label: "1%", args: bulk("--rate", "500mbit", "--elements", "256", "--loss", "1%"), aim: "≥ 60%, time ≤ 1.5 × that of none", read: readRun},
		},
		columns: []column{{title: "goodput", key: "algbw_gbps", relative: true, percent: true, digits: 1}, {title: "time ÷ that of none", key: "p50_ms", relative: true, digits: 2}, bandwidth, p50, p99, resent},
	}, {
		title: "Small messages",
		text:  "Latency of an all-reduce of 4 kB, 1,000 float32: a descriptor and four chunks, two round trips.",
		rows: []row{
			{label: "unshaped", args: small("--rate", "unshaped"), read: readRun},
			{label: "1 Gbit/s", args: small("--rate", "1gbit"), read: readRun},
			{label: "unshaped, busy poll", args: small("--rate", "unshaped", "--busy-poll", "50us"), read: readRun},
			{label: "unshaped, AF_XDP with copies", args: small("--rate", "unshaped", "--transport", "af_xdp"), read: readRun},
			{label: "unshaped, both", args: small("--rate", "unshaped", "--transport", "af_xdp", "--busy-poll", "50us"), read: readRun},
		},
		columns: []column{{title: "p50, ms", key: "p50_ms", digits: 3}, {title: "p99, ms", key: "p99_ms", digits: 3}},
	}}
	return slices.Concat(sections, comparePlan(), torPlan(), stragglerPlan(), torchPlan())
}

// readRun reads the report of `spill-load run`. A run with a wrong bit is no measurement.
func readRun(report []byte) (figure, error) {
	var r struct {
		P50             *float64 `json:"p50_ms"`
		P99             *float64 `json:"p99_ms"`
		Bandwidth       *float64 `json:"algbw_gbps"`
		Elements        *float64 `json:"elements_per_s"`
		Share           *float64 `json:"wire_share"` // null on unshaped links
		Retransmissions *float64 `json:"retransmissions"`
		AverageJCT      *float64 `json:"average_jct_ms"`
		Correct         bool     `json:"correct"`
		Drops           struct {
			ToHome float64 `json:"to_home"`
		} `json:"drops"`
		Jobs []struct {
			Name        string   `json:"name"`
			JCT         float64  `json:"jct_ms"`
			TorShare    *float64 `json:"tor_share"` // null without a ToR
			SpillShare  *float64 `json:"spill_share"`
			Preempted   float64  `json:"preempted"`
			HomePackets float64  `json:"home_packets"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal(report, &r); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	if !r.Correct {
		return nil, errors.New("the report says that a result was wrong")
	}
	f := figure{}
	for key, value := range map[string]*float64{
		"p50_ms": r.P50, "p99_ms": r.P99, "algbw_gbps": r.Bandwidth, "wire_share": r.Share, "retransmissions": r.Retransmissions,
		"average_jct_ms": r.AverageJCT,
	} {
		if value != nil {
			f[key] = *value
		}
	}
	f["to_home_drops"] = r.Drops.ToHome
	for _, j := range r.Jobs {
		f["jct_ms."+j.Name] = j.JCT
		f["preempted"] += j.Preempted
		f["home_packets"] += j.HomePackets
		if j.TorShare != nil && j.SpillShare != nil { // means over the jobs
			f["tor_share"] += *j.TorShare / float64(len(r.Jobs))
			f["spill_share"] += *j.SpillShare / float64(len(r.Jobs))
		}
	}
	if r.Elements != nil {
		f["elements_millions_per_s"] = *r.Elements / 1e6
	}
	return f, nil
}

// readBench reads the figures of one E from the report of `spill-load bench`.
func readBench(elements int) func([]byte) (figure, error) {
	return func(report []byte) (figure, error) {
		var results []figure
		if err := json.Unmarshal(report, &results); err != nil {
			return nil, fmt.Errorf("read the report: %w", err)
		}
		at := slices.IndexFunc(results, func(f figure) bool { return f["elements"] == float64(elements) })
		if at < 0 {
			return nil, fmt.Errorf("the report has nothing about %d elements", elements)
		}
		return results[at], nil
	}
}
