package main

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, c := range []struct {
		sorted []time.Duration
		p      float64
		want   time.Duration
	}{
		{[]time.Duration{7}, 0.5, 7}, {[]time.Duration{7}, 0.99, 7},
		{[]time.Duration{1, 2}, 0.5, 1}, {[]time.Duration{1, 2, 3}, 0.5, 2}, {[]time.Duration{1, 2, 3}, 0.99, 3},
		{hundred, 0.5, 50}, {hundred, 0.99, 99},
	} {
		if got := percentile(c.sorted, c.p); got != c.want {
			t.Errorf("percentile %g of %v = %d, want %d", c.p, c.sorted, got, c.want)
		}
	}
}

func TestIdealTime(t *testing.T) {
	// 40 MB at 500 Mbit/s, 1024 bytes of payload and 70 of headers a packet: 40e6·8/500e6·1094/1024 s.
	c := ReportConfig{SizeBytes: 40_000_000, RateBPS: 500_000_000, Elements: 256, WireBits: 32}
	if got := c.idealTime().Seconds(); math.Abs(got-0.68375) > 1e-6 {
		t.Errorf("ideal time %g s", got)
	}
	c.WireBits = 16
	if got := c.idealTime().Seconds(); math.Abs(got-0.68375/2) > 1e-6 {
		t.Errorf("ideal time in 16 bits %g s", got)
	}
}

func TestReportFigures(t *testing.T) {
	r := &Report{Config: ReportConfig{SizeBytes: 40_000_000, RateBPS: 500_000_000, Elements: 256, WireBits: 32}}
	r.setTimes([]time.Duration{900 * time.Millisecond, 700 * time.Millisecond, 800 * time.Millisecond})
	if r.P50MS != 800 || r.P99MS != 900 || r.MinMS != 700 || r.MaxMS != 900 {
		t.Errorf("times %+v", r)
	}
	if !slices.Equal(r.TimesMS, []float64{900, 700, 800}) {
		t.Errorf("times_ms %v", r.TimesMS)
	}
	if math.Abs(r.AlgBWGbps-0.4) > 1e-9 || math.Abs(r.ElementsPerS-12.5e6) > 1e-3 || math.Abs(*r.WireShare-0.68375/0.8) > 1e-6 {
		t.Errorf("bandwidth %g, elements %g, share %g", r.AlgBWGbps, r.ElementsPerS, *r.WireShare)
	}
	if !r.Correct {
		t.Error("correct is false")
	}
	wrong := &Report{Config: r.Config, Wrong: []wrong{{Rank: 1}}}
	wrong.setTimes([]time.Duration{1})
	if wrong.Correct {
		t.Error("a wrong result is correct")
	}
	unshaped := &Report{Config: ReportConfig{SizeBytes: 4000, Elements: 256}}
	unshaped.setTimes([]time.Duration{time.Millisecond})
	if unshaped.WireShare != nil {
		t.Errorf("share of an unshaped link %g", *unshaped.WireShare)
	}
}

func TestReportForms(t *testing.T) {
	r := &Report{Config: ReportConfig{SizeBytes: 4000, Elements: 256, Iterations: 1}, Counters: map[string]uint64{"merged": 3, "stale": 0}}
	r.setTimes([]time.Duration{time.Millisecond})
	var out strings.Builder
	if err := r.write(&out, outputTable); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"every bit at every worker", "merged 3\n", "p50 1.000 ms"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "stale") || strings.Contains(out.String(), "wire limit") {
		t.Errorf("says what is nothing:\n%s", out.String())
	}
	out.Reset()
	if err := r.write(&out, outputJSON); err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal([]byte(out.String()), &keys); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"p50_ms", "p99_ms", "algbw_gbps", "elements_per_s", "wire_share", "retransmissions", "correct", "counters",
		"times_ms", "min_ms", "max_ms", "wrong", "unassigned_counters", "workers", "faults", "xdp_mode", "machine", "config"} {
		if _, ok := keys[key]; !ok {
			t.Errorf("no key %q", key)
		}
	}
}

func TestDurations(t *testing.T) {
	answers := []answer{
		{Spans: []span{{Start: 100, End: 200}, {Start: 210, End: 300}}},
		{Spans: []span{{Start: 90, End: 180}, {Start: 220, End: 330}}},
	}
	got, all, err := durations(answers, 2, 80, 0)
	if err != nil || !slices.Equal(got, []time.Duration{110, 120}) || all != 250 {
		t.Errorf("got %v, %v, %v", got, all, err)
	}
	// With a quorum of one, the first to be done.
	if got, all, err = durations(answers, 2, 80, 1); err != nil || !slices.Equal(got, []time.Duration{90, 90}) || all != 220 {
		t.Errorf("got %v, %v, %v", got, all, err)
	}
	if _, _, err := durations(answers, 3, 80, 0); err == nil {
		t.Error("a missing span goes unnoticed")
	}
}
