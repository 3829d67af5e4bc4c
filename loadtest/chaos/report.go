package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// Report is what came of a campaign. The first six fields are for everybody who compares; the others say more.
type Report struct {
	Scenario string `json:"scenario"`
	// Count is how many faults were to be made, Survived after how many of them the job went on in time.
	Count    int `json:"count"`
	Survived int `json:"survived"`
	// WrongSums counts results with a wrong bit, at each worker, and a training that ended with other weights.
	WrongSums int `json:"wrong_sums"`
	// Recovery times are of the faults survived (nearest rank); null without any.
	RecoveryP50MS *float64 `json:"recovery_p50_ms"`
	RecoveryP99MS *float64 `json:"recovery_p99_ms"`

	Seed    uint64 `json:"seed"`
	Workers int    `json:"workers"`
	// Appliances of the rack.
	Appliances int `json:"appliances"`
	// Workload is pattern or training.
	Workload string `json:"workload"`
	// Steps are the collectives that were compared, each at all workers.
	Steps int `json:"steps"`
	// UndisturbedMS is the median time of a collective before the first fault.
	UndisturbedMS float64   `json:"undisturbed_ms"`
	RecoveriesMS  []float64 `json:"recoveries_ms"`
	// Weights is the SHA-256 of the weights that a training must end with, and ended with at all workers if no failure says otherwise.
	Weights  string   `json:"weights,omitempty"`
	Failures []string `json:"failures"`
	// Figures are a scenario's own.
	Figures map[string]float64 `json:"figures,omitempty"`
	// TorSlotsHeld is how many slots of the ToR held an incomplete sum, over time, by run; of a scenario that looks.
	TorSlotsHeld map[string][]HeldSlots `json:"tor_slots_held,omitempty"`

	recoveries []time.Duration
}

func newReport(s *Scenario, o *Options) *Report {
	workload := "pattern"
	if s.needs.training {
		workload = "training"
	}
	return &Report{Scenario: s.Name, Count: o.Count, Seed: o.Seed, Workers: o.Workers, Appliances: s.needs.inRack(o), Workload: workload, RecoveriesMS: []float64{}, Failures: []string{}}
}

// survive notes a fault after which the job went on.
func (r *Report) survive(took time.Duration) {
	r.Survived++
	r.recoveries = append(r.recoveries, took)
	r.RecoveriesMS = append(r.RecoveriesMS, milliseconds(took))
}

// fail notes what went wrong.
func (r *Report) fail(format string, args ...any) {
	r.Failures = append(r.Failures, fmt.Sprintf(format, args...))
}

// figure notes one of the scenario's own.
func (r *Report) figure(name string, value float64) {
	if r.Figures == nil {
		r.Figures = map[string]float64{}
	}
	r.Figures[name] = value
}

// finish computes what follows from the rest.
func (r *Report) finish() *Report {
	if len(r.recoveries) > 0 {
		sorted := slices.Sorted(slices.Values(r.recoveries))
		p50, p99 := milliseconds(percentile(sorted, 0.50)), milliseconds(percentile(sorted, 0.99))
		r.RecoveryP50MS, r.RecoveryP99MS = &p50, &p99
	}
	return r
}

// Good reports whether all faults were survived without a wrong sum or anything else that failed.
func (r *Report) Good() bool {
	return r.WrongSums == 0 && r.Survived >= r.Count && len(r.Failures) == 0
}

// WriteJSON writes the report as a JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// WriteTable writes it for people.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	row("scenario", "%s, seed %d", r.Scenario, r.Seed)
	row("appliances", "%d", r.Appliances)
	row("survived", "%d of %d", r.Survived, r.Count)
	row("wrong sums", "%d of %d at each of %d workers", r.WrongSums, r.Steps, r.Workers)
	if r.RecoveryP50MS != nil {
		row("recovery", "p50 %.1f ms, p99 %.1f ms, beyond the %.1f ms of an undisturbed step", *r.RecoveryP50MS, *r.RecoveryP99MS, r.UndisturbedMS)
	}
	if r.Weights != "" {
		row("weights", "%.16s at all workers, as without a network", r.Weights)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		row(name, "%g", r.Figures[name])
	}
	for _, failure := range r.Failures {
		row("FAILED", "%s", failure)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// percentile is the nearest-rank percentile of sorted values.
func percentile(sorted []time.Duration, p float64) time.Duration {
	return sorted[max(int(math.Ceil(p*float64(len(sorted)))), 1)-1]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
