package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"spillway/loadtest/faults"
	"spillway/loadtest/quantity"
	"spillway/loadtest/rack"
)

// CompareReport is what `compare` says. The JSON names are an interface.
type CompareReport struct {
	Config  CompareConfig `json:"config"`
	Systems []string      `json:"systems"` // that took part
	// Missing are those that were asked for and are not installed.
	Missing []Missing         `json:"missing"`
	Results []CompareResult   `json:"results"`
	Correct bool              `json:"correct"`
	Wrong   []CompareWrong    `json:"wrong"`
	Command string            `json:"command"`  // that made this report
	Started map[string]string `json:"commands"` // that started the peers, as they were in the last rack
	// Versions are those of the peers' parts.
	Versions map[string]string `json:"versions"`
	Machine  Machine           `json:"machine"`
}

// CompareConfig is what was asked for.
type CompareConfig struct {
	Elements int          `json:"elements"`
	Window   int          `json:"window"`
	WireBits int          `json:"wire_bits"` // of an element, Spillway's
	Rounds   int          `json:"rounds"`
	Faults   faults.Rates `json:"faults"` // Spillway's
	Seed     uint64       `json:"seed"`
}

// Missing is a system that is not installed.
type Missing struct {
	System string `json:"system"`
	Fix    string `json:"fix"`
	Cause  string `json:"cause"`
}

// CompareResult is one system with tensors of one size on one rack.
type CompareResult struct {
	System     string    `json:"system"`
	Workers    int       `json:"workers"`
	RateBPS    uint64    `json:"rate_bps"` // 0: unshaped
	SizeBytes  int64     `json:"size_bytes"`
	Iterations int       `json:"iterations"` // of each round
	P50MS      float64   `json:"p50_ms"`
	RoundsMS   []float64 `json:"rounds_ms"`
	// AlgBWGbps is 10^9 bits of the tensor / s at the median.
	AlgBWGbps float64 `json:"algbw_gbps"`
	// RatioToBestPeer is the time of the fastest peer / this system's: above 1 this one is faster, and the fastest peer itself has 1. The median over the rounds.
	RatioToBestPeer float64            `json:"ratio_to_best_peer"`
	RatioTo         map[string]float64 `json:"ratio_to"` // the same to each other system
	// WireShare is the ideal time / the median; nil on unshaped links.
	WireShare *float64 `json:"wire_share"`
}

// CompareWrong says where a result is wrong.
type CompareWrong struct {
	System string `json:"system"`
	wrong
}

// newCompareReport finds out who can take part.
func (o *compareOptions) newCompareReport(ctx context.Context) (*CompareReport, error) {
	r := &CompareReport{
		Config: CompareConfig{Elements: o.elements, Window: o.window, WireBits: o.wireBits, Rounds: o.rounds, Faults: faults.Rates{Loss: float64(o.loss)}, Seed: o.seed},
		// Empty lists are lists.
		Missing: []Missing{}, Results: []CompareResult{}, Wrong: []CompareWrong{}, Correct: true,
		Command: "spill-load " + strings.Join(os.Args[1:], " "), Started: map[string]string{}, Versions: map[string]string{}, Machine: thisMachine(),
	}
	if err := o.writeScript(); err != nil {
		return nil, err
	}
	for _, name := range o.systems {
		if missing := o.missing(ctx, name); missing != nil {
			fmt.Fprintf(o.err, "%s is not there: %s\n%s\n", systemTitle(name), missing.Fix, missing.Cause)
			r.Missing = append(r.Missing, *missing)
			continue
		}
		r.Systems = append(r.Systems, name)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if len(r.Systems) < 2 {
		return nil, errors.New("there is nothing to compare Spillway with")
	}
	return r, nil
}

// missing tries what a system needs.
func (o *compareOptions) missing(ctx context.Context, name string) *Missing {
	var probes [][]string
	fix := ""
	switch name {
	case systemGloo:
		probes = [][]string{{o.python, "-c", "import numpy, torch.distributed; assert torch.distributed.is_gloo_available(), 'torch was built without gloo'"}}
		fix = "apt-get install python3-torch python3-numpy (Debian 12), or name the Python that has both with --python"
	case systemOpenMPI:
		probes = [][]string{
			{"mpirun", "--version"},
			{o.python, "-c", "import numpy, mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; assert 'Open MPI' in MPI.Get_library_version(), MPI.Get_library_version()"},
			{"nsenter", "--version"},
		}
		fix = "apt-get install openmpi-bin python3-mpi4py python3-numpy (Debian 12), or name the Python that has the last two with --python"
	}
	for _, probe := range probes {
		if out, err := exec.CommandContext(ctx, probe[0], probe[1:]...).CombinedOutput(); err != nil {
			return &Missing{name, fix, strings.TrimSpace(fmt.Sprintf("%v\n%s", err, out))}
		}
	}
	return nil
}

// started takes down how a peer was started.
func (r *CompareReport) started(c *contestant) {
	if c.command != "" {
		r.Started[c.name] = c.command
	}
	maps.Copy(r.Versions, c.versions)
}

// add takes in what all systems did with one size on one rack, and forgets nothing that was wrong.
func (r *CompareReport) add(c *comparison, t *task, rounds [][]time.Duration) {
	for at, system := range c.contestants {
		result := CompareResult{
			System: system.name, Workers: t.workers(), RateBPS: uint64(c.place.rate), SizeBytes: int64(t.size), Iterations: t.count, RatioTo: map[string]float64{},
		}
		for _, took := range rounds[at] {
			result.RoundsMS = append(result.RoundsMS, milliseconds(took))
		}
		result.P50MS = median(result.RoundsMS)
		result.AlgBWGbps = float64(t.size) * 8 / result.P50MS / 1e6
		best := make([]float64, len(rounds[at])) // of the peers' ratios, by round
		for other, peer := range c.contestants {
			ratios := make([]float64, len(rounds[at]))
			for round, took := range rounds[at] {
				ratios[round] = rounds[other][round].Seconds() / took.Seconds()
				if peer.peer() && (best[round] == 0 || ratios[round] < best[round]) {
					best[round] = ratios[round]
				}
			}
			if other != at {
				result.RatioTo[peer.name] = median(ratios)
			}
		}
		result.RatioToBestPeer = median(best)
		if c.place.rate != 0 {
			share := idealTime(system.name, t, c.options.rack(c.place)).Seconds() * 1e3 / result.P50MS
			result.WireShare = &share
		}
		r.Results = append(r.Results, result)
		for _, w := range system.session.wrong {
			r.Wrong = append(r.Wrong, CompareWrong{system.name, w})
		}
	}
	r.Correct = len(r.Wrong) == 0
}

// tcpHeaders are the bytes of a TCP packet that are not payload: Ethernet, IPv4, and TCP with timestamps.
const tcpHeaders = rack.EthernetHeader + 20 + 32

// idealTime is that of all that a system must send over a worker's link, in full packets back to back at the link's rate, headers included. Without help from
// the network or a server, nobody can all-reduce with less than 2·(n-1)/n tensors each way (Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, 2009).
func idealTime(system string, t *task, config rack.Config) time.Duration {
	n, payload := float64(t.workers()), float64(t.options.elements*elementSize)
	packet, tensors := payload+headers, 1.0
	if system == systemSpillway {
		tensors = float64(t.options.wireBits) / wireBits32
	} else {
		payload = float64(config.MTU() - 20 - 32)
		packet = payload + tcpHeaders
		if system != systemServer {
			tensors = 2 * (n - 1) / n
		}
	}
	bits := float64(t.size) * 8 * tensors * packet / payload
	return time.Duration(bits / float64(t.options.rate) * float64(time.Second))
}

// write writes the report in one of the forms of outputFlag.
func (r *CompareReport) write(w io.Writer, form string) error {
	if form == outputJSON {
		return writeJSON(w, r)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "workers\tlinks\ttensor\tsystem\tp50 ms\tGbit/s\tof its wire limit\t")
	for _, name := range r.Systems {
		fmt.Fprintf(t, "vs %s\t", name)
	}
	fmt.Fprintln(t)
	for _, result := range r.Results {
		share := "-"
		if result.WireShare != nil {
			share = fmt.Sprintf("%.1f%%", *result.WireShare*100)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%.3f\t%.3f\t%s\t", result.Workers, rateText(result.RateBPS), sizeText(result.SizeBytes), result.System, result.P50MS, result.AlgBWGbps, share)
		for _, name := range r.Systems {
			if name == result.System {
				fmt.Fprint(t, "\t")
			} else {
				fmt.Fprintf(t, "%.2fx\t", result.RatioTo[name])
			}
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	correct := "every bit of Spillway's sums, and the others' within the bound of float32, at every worker"
	if !r.Correct {
		correct = fmt.Sprintf("NO: %d wrong results", len(r.Wrong))
	}
	_, err := fmt.Fprintf(w, "\nratios: times faster; medians of %d rounds\ncorrect: %s\nmachine: %s, %d cores, Linux %s\n%s\n",
		r.Config.Rounds, correct, r.Machine.CPU, r.Machine.Cores, r.Machine.Kernel, r.versions())
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// versions lists those of the peers' parts.
func (r *CompareReport) versions() string {
	all := []string{runtime.Version()}
	for _, part := range []string{"torch", "mpi", "mpi4py"} {
		if version := r.Versions[part]; version != "" {
			all = append(all, part+" "+version)
		}
	}
	return "versions: " + strings.Join(all, ", ")
}

func rateText(bps uint64) string {
	rate := quantity.Rate(bps)
	return rate.String()
}

func sizeText(bytes int64) string {
	size := quantity.Size(bytes)
	return size.String()
}
