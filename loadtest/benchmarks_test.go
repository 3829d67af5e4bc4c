package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestBenchmarkPlan reads reports as run and bench write them, and makes a page of them.
func TestBenchmarkPlan(t *testing.T) {
	share := 0.951
	run, err := json.Marshal(Report{P50MS: 700.25, P99MS: 712, AlgBWGbps: 0.457, ElementsPerS: 14.3e6, WireShare: &share, Retransmissions: 3, Correct: true})
	if err != nil {
		t.Fatal(err)
	}
	bench := []byte(`[{"elements":32,"merge_ns":60,"publish_ns":90,"bare_ns":20,"payload_gbps":17,"exponent_ns":28,"quantise_ns":80,"dequantise_ns":80,"conversion_gbps":43},
		{"elements":64,"merge_ns":90,"publish_ns":120,"bare_ns":35,"payload_gbps":22,"exponent_ns":28,"quantise_ns":80,"dequantise_ns":80,"conversion_gbps":43},
		{"elements":256,"merge_ns":220,"publish_ns":310,"bare_ns":125,"payload_gbps":37,"exponent_ns":28,"quantise_ns":80,"dequantise_ns":80,"conversion_gbps":43},
		{"elements":832,"merge_ns":600,"publish_ns":900,"bare_ns":400,"payload_gbps":44,"exponent_ns":28,"quantise_ns":80,"dequantise_ns":80,"conversion_gbps":43}]`)
	var page strings.Builder
	writePageHead(&page, Machine{CPU: "Abacus", Cores: 2, Kernel: "6.1", Go: "go1.26", Arch: "amd64"}, 3)
	for _, s := range benchmarkPlan() {
		var values [][]float64
		var first figure
		for i, row := range s.rows {
			report := run
			if row.args[0] == "bench" {
				report = bench
			}
			f, err := row.read(report)
			if err != nil {
				t.Fatalf("%s, %s: %v", s.title, row.label, err)
			}
			if i == 0 {
				first = f
			}
			var line []float64
			for _, c := range s.columns {
				value, err := c.value(f, first)
				if err != nil {
					t.Fatalf("%s, %s, %s: %v", s.title, row.label, c.title, err)
				}
				line = append(line, value)
			}
			values = append(values, line)
		}
		s.write(&page, values)
	}
	for _, want := range []string{
		"medians of 3 rounds", "Abacus, 2 cores, Linux 6.1, go1.26 amd64",
		"| E = 256 | 220 | 310 | 125 | 1.76 | 37.0 | merge ≤ 2.0 × the bare loop |",
		"| 500 Mbit/s, E = 256 | 700.25 | 712.00 | 0.457 | 95.1% | 14.3 | 3 | share ≥ 95% |",
		"| 0.1% | 100.0% |",
		"    sudo bin/spill-load run --workers 4 --size 40MB --iterations 10 --output json --rate 1gbit --elements 256\n",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, page.String())
		}
	}
	if n := strings.Count(page.String(), "spill-load bench "); n != 2 {
		t.Errorf("the commands that four rows share, one in each of two tables, are there %d times", n)
	}
}

// TestBenchmarkCommands holds the plan to the command line: its flags must be ones that `run` and `bench` take.
func TestBenchmarkCommands(t *testing.T) {
	for _, s := range benchmarkPlan() {
		for _, row := range s.rows {
			var said strings.Builder
			// An argument at the end is refused after the flags were understood.
			code := execute(t.Context(), append(append([]string{"spill-load"}, row.args...), "now"), streams{strings.NewReader(""), &said, &said})
			if code != exitUsage || !strings.Contains(said.String(), `unexpected argument "now"`) {
				t.Errorf("%v: exit code %d: %s", row.args, code, said.String())
			}
		}
	}
}

func TestWrongRunIsNoMeasurement(t *testing.T) {
	if _, err := readRun([]byte(`{"p50_ms": 1, "correct": false}`)); err == nil {
		t.Error("a run with wrong bits is taken for a measurement")
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{5, 1, 3}, 3}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}
