package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"spillway/loadtest/faults"
	"spillway/loadtest/rack"
	"spillway/wire"
	"spillway/worker"
)

// headers are the bytes of a packet that are not elements: Ethernet, IPv4, UDP, Spillway.
const headers = rack.EthernetHeader + 20 + 8 + wire.HeaderSize

// Report is what `run` says. The JSON names are an interface.
type Report struct {
	Config ReportConfig `json:"config"`

	P50MS   float64   `json:"p50_ms"`
	P99MS   float64   `json:"p99_ms"`
	MinMS   float64   `json:"min_ms"`
	MaxMS   float64   `json:"max_ms"`
	TimesMS []float64 `json:"times_ms"`
	// AlgBWGbps is 10^9 bits of the tensor / s at the median.
	AlgBWGbps    float64 `json:"algbw_gbps"`
	ElementsPerS float64 `json:"elements_per_s"`
	// WireShare is the ideal time / the median; nil on unshaped links.
	WireShare       *float64 `json:"wire_share"`
	Retransmissions uint64   `json:"retransmissions"`

	// Jobs are all jobs; the figures above are of the first.
	Jobs         []JobReport `json:"jobs"`
	AverageJCTMS float64     `json:"average_jct_ms"`
	TorReboots   int         `json:"tor_reboots"`
	// Transport is what the workers came to use.
	Transport worker.Transport `json:"transport"`
	// DaemonRestarts is how often the aggregator's daemon was killed and started again.
	DaemonRestarts int `json:"daemon_restarts"`

	Correct bool    `json:"correct"`
	Wrong   []wrong `json:"wrong"`

	// Counters are the aggregator's of all jobs and the whole run, Unassigned those of packets of no job.
	Counters   map[string]uint64 `json:"counters"`
	Unassigned map[string]uint64 `json:"unassigned_counters"`
	// RackCounters and RootCounters are those of several racks' aggregators, added up, and of the root's.
	RackCounters map[string]uint64 `json:"rack_counters,omitempty"`
	RootCounters map[string]uint64 `json:"root_counters,omitempty"`
	Workers      []worker.Stats    `json:"workers"`
	Faults       faults.Counters   `json:"faults"`
	// Drops are of the rack's own queues, beside the injected faults.
	Drops   rack.Drops `json:"drops"`
	XDPMode string     `json:"xdp_mode"`
	Machine Machine    `json:"machine"`
}

// ReportConfig is what was asked for.
type ReportConfig struct {
	Workers     int     `json:"workers"`
	Appliances  int     `json:"appliances"`
	Racks       int     `json:"racks"` // with so many workers each
	SizeBytes   int64   `json:"size_bytes"`
	Type        string  `json:"dtype"`
	Elements    int     `json:"elements"`
	WireBits    int     `json:"wire_bits"` // of an element in a packet
	Window      int     `json:"window"`
	RateBPS     uint64  `json:"rate_bps"`      // 0: unshaped
	HomeRateBPS uint64  `json:"home_rate_bps"` // 0: unshaped
	Unicast     bool    `json:"unicast"`
	Transport   string  `json:"transport"`
	BusyPollMS  float64 `json:"busy_poll_ms"`
	Tor         string  `json:"tor"`
	// TorSlots is the ToR's memory in chunks.
	TorSlots     int          `json:"tor_slots"`
	TorPartition string       `json:"tor_partition"`
	Preempt      bool         `json:"preempt"`
	Faults       faults.Rates `json:"faults"`
	Quorum       int          `json:"quorum"` // 0: waits for all
	AfterMS      float64      `json:"after_ms"`
	MaxLag       int          `json:"max_lag"`
	StragglerMS  float64      `json:"straggler_ms"`
	Chance       float64      `json:"straggler_chance"`
	Iterations   int          `json:"iterations"`
	Warmup       int          `json:"warmup"`
	Seed         uint64       `json:"seed"`
}

func newReport(o *runOptions, r *rack.Rack) *Report {
	first := o.tasks()[0]
	return &Report{
		Config: ReportConfig{
			Workers:      o.workers,
			Appliances:   o.appliances,
			Racks:        o.racks,
			SizeBytes:    int64(first.size),
			Type:         o.dtype,
			Elements:     o.elements,
			WireBits:     o.wireBits,
			Window:       o.window,
			RateBPS:      uint64(o.rate),
			HomeRateBPS:  uint64(o.homeRate),
			Unicast:      o.unicast,
			Transport:    o.transport,
			BusyPollMS:   milliseconds(o.busyPoll),
			Faults:       o.faults(),
			Tor:          o.tor,
			TorSlots:     o.slots(),
			TorPartition: o.torPartition,
			Preempt:      o.preempt == switchOn,
			Quorum:       o.quorum,
			AfterMS:      milliseconds(o.after),
			MaxLag:       o.maxLag,
			StragglerMS:  milliseconds(o.straggler),
			Chance:       float64(o.chance),
			Iterations:   first.count,
			Warmup:       o.warmup,
			Seed:         o.seed,
		},
		Wrong:   []wrong{},
		XDPMode: string(r.Mode()),
		Machine: thisMachine(),
	}
}

// setTimes computes all that follows from the iterations' times.
func (r *Report) setTimes(times []time.Duration) {
	for _, t := range times {
		r.TimesMS = append(r.TimesMS, milliseconds(t))
	}
	sorted := slices.Sorted(slices.Values(times))
	p50 := percentile(sorted, 0.50)
	r.P50MS, r.P99MS = milliseconds(p50), milliseconds(percentile(sorted, 0.99))
	r.MinMS, r.MaxMS = milliseconds(sorted[0]), milliseconds(sorted[len(sorted)-1])
	size := float64(r.Config.SizeBytes)
	r.AlgBWGbps = size * 8 / p50.Seconds() / 1e9
	r.ElementsPerS = size / elementSize / p50.Seconds()
	if r.Config.RateBPS != 0 {
		share := r.Config.idealTime().Seconds() / p50.Seconds()
		r.WireShare = &share
	}
	r.Correct = len(r.Wrong) == 0
}

// idealTime is that of the tensor in full packets back to back at the link's rate, headers included.
func (c *ReportConfig) idealTime() time.Duration {
	payload := float64(c.Elements * elementSize)
	bits := float64(c.SizeBytes) / elementSize * float64(c.WireBits) * (payload + headers) / payload
	return time.Duration(bits / float64(c.RateBPS) * float64(time.Second))
}

// setCounters reads what rack and aggregator counted.
func (r *Report) setCounters(ctx context.Context, from *rack.Rack, sessions []*session) (err error) {
	r.Counters = map[string]uint64{}
	for _, s := range sessions {
		counters, _, err := from.Counters(ctx, s.task.job().Name)
		if err != nil {
			return err
		}
		for name, n := range counters {
			r.Counters[name] += n
		}
		if err := r.addTree(from, s.task.job().Name); err != nil {
			return err
		}
	}
	if r.Unassigned, err = from.Unassigned(ctx); err != nil {
		return err
	}
	if r.Drops, err = from.Drops(); err != nil {
		return err
	}
	r.Faults, err = from.Faults()
	return err
}

// percentile is the nearest-rank percentile of sorted values.
func percentile(sorted []time.Duration, p float64) time.Duration {
	return sorted[max(int(math.Ceil(p*float64(len(sorted)))), 1)-1]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// write writes the report in one of the forms of outputFlag.
func (r *Report) write(w io.Writer, form string) error {
	if form == outputJSON {
		return writeJSON(w, r)
	}
	return r.writeTable(w)
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (r *Report) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	row("all-reduce", "p50 %.3f ms, p99 %.3f ms (%.3f to %.3f, %d iterations)", r.P50MS, r.P99MS, r.MinMS, r.MaxMS, r.Config.Iterations)
	row("algorithm bandwidth", "%.3f Gbit/s", r.AlgBWGbps)
	row("elements", "%.1f million/s", r.ElementsPerS/1e6)
	if r.WireShare != nil {
		row("share of the wire limit", "%.1f%%", *r.WireShare*100)
	}
	row("retransmissions", "%d", r.Retransmissions)
	if r.Correct {
		row("correct", "every bit at every worker")
	} else {
		row("correct", "NO: %d wrong results", len(r.Wrong))
	}
	r.writeJobs(row)
	if r.Config.Racks <= 1 { // several have aggregators without a daemon
		row("appliances", "%d", r.Config.Appliances)
	}
	row("aggregator", "%s", counted(r.Counters))
	row("packets of no job", "%s", counted(r.Unassigned))
	if r.Config.Faults.Any() {
		row("faults to the home", "%+v", r.Faults.Uplink)
		row("faults from the home", "%+v", r.Faults.Downlink)
	}
	row("dropped by queues", "%+v", r.Drops)
	row("transport", "%s", r.Transport)
	row("XDP mode", "%s", r.XDPMode)
	row("machine", "%s, %d cores, Linux %s", r.Machine.CPU, r.Machine.Cores, r.Machine.Kernel)
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// counted lists the counters that are not zero, by name.
func counted(counters map[string]uint64) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		if n := counters[name]; n != 0 {
			all = append(all, fmt.Sprintf("%s %d", name, n))
		}
	}
	if all == nil {
		return "none"
	}
	return strings.Join(all, ", ")
}
