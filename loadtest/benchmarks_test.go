package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spillway/loadtest/chaos"
	"spillway/xdp"
)

// TestBenchmarkPlan reads reports as run and bench write them, and makes a page of them.
func TestBenchmarkPlan(t *testing.T) {
	share := 0.951
	var jobs []JobReport
	for _, name := range []string{"a", "b", "c", "d"} {
		half := 0.5
		jobs = append(jobs, JobReport{Name: name, JCTMS: 250, levels: levels{TorShare: &half, SpillShare: &half, HomePackets: 100, Preempted: 2}})
	}
	run, err := json.Marshal(Report{P50MS: 700.25, P99MS: 712, AlgBWGbps: 0.457, ElementsPerS: 14.3e6, WireShare: &share, Retransmissions: 3, Correct: true, Jobs: jobs, AverageJCTMS: 250})
	if err != nil {
		t.Fatal(err)
	}
	bench := []byte(`[{"elements":32,"merge_ns":60,"publish_ns":90,"bare_ns":20,"payload_gbps":17,"exponent_ns":28,"quantise_ns":80,"dequantise_ns":80,"quantise16_ns":70,"dequantise16_ns":60,"conversion_gbps":43,"full_path":[{"workers":4,"packet_ns":150,"bare_ns":100,"ratio":1.5,"payload_gbps":54.6,"bare_gbps":81.9},{"workers":8,"packet_ns":140,"bare_ns":100,"ratio":1.4,"payload_gbps":58.5,"bare_gbps":81.9}]},
		{"elements":64,"merge_ns":90,"publish_ns":120,"bare_ns":35,"payload_gbps":22,"exponent_ns":28,"quantise_ns":80,"dequantise_ns":80,"quantise16_ns":70,"dequantise16_ns":60,"conversion_gbps":43,"full_path":[{"workers":4,"packet_ns":150,"bare_ns":100,"ratio":1.5,"payload_gbps":54.6,"bare_gbps":81.9},{"workers":8,"packet_ns":140,"bare_ns":100,"ratio":1.4,"payload_gbps":58.5,"bare_gbps":81.9}]},
		{"elements":256,"merge_ns":220,"publish_ns":310,"bare_ns":125,"payload_gbps":37,"exponent_ns":28,"quantise_ns":80,"dequantise_ns":80,"quantise16_ns":70,"dequantise16_ns":60,"conversion_gbps":43,"full_path":[{"workers":4,"packet_ns":150,"bare_ns":100,"ratio":1.5,"payload_gbps":54.6,"bare_gbps":81.9},{"workers":8,"packet_ns":140,"bare_ns":100,"ratio":1.4,"payload_gbps":58.5,"bare_gbps":81.9}]},
		{"elements":832,"merge_ns":600,"publish_ns":900,"bare_ns":400,"payload_gbps":44,"exponent_ns":28,"quantise_ns":80,"dequantise_ns":80,"quantise16_ns":70,"dequantise16_ns":60,"conversion_gbps":43,"full_path":[{"workers":4,"packet_ns":150,"bare_ns":100,"ratio":1.5,"payload_gbps":54.6,"bare_gbps":81.9},{"workers":8,"packet_ns":140,"bare_ns":100,"ratio":1.4,"payload_gbps":58.5,"bare_gbps":81.9}]}]`)
	torBench := []byte(`[{"elements":32,"claim_ns":80,"merge_ns":90,"complete_ns":150,"preempt_ns":160,"spill_ns":100,"resend_ns":120,"bare_ns":30},
		{"elements":64,"claim_ns":80,"merge_ns":90,"complete_ns":150,"preempt_ns":160,"spill_ns":100,"resend_ns":120,"bare_ns":30},
		{"elements":256,"claim_ns":80,"merge_ns":90,"complete_ns":150,"preempt_ns":160,"spill_ns":100,"resend_ns":120,"bare_ns":30},
		{"elements":832,"claim_ns":80,"merge_ns":90,"complete_ns":150,"preempt_ns":160,"spill_ns":100,"resend_ns":120,"bare_ns":30}]`)
	all := comparedReport(t)
	all.Results = all.Results[len(systemNames) : 2*len(systemNames)] // 4 MB on shaped links
	compared, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]float64{}
	for i, policy := range []string{"none_slow", "wait", "quorum"} {
		for _, name := range []string{"steps_per_s_", "accuracy_training_", "tor_slots_held_mean_", "tor_slots_held_most_", "tor_slot_ms_per_step_"} {
			figures[name+policy] = 1 / float64(i+1)
		}
	}
	straggler, err := json.Marshal(map[string]any{"wrong_sums": 0, "figures": figures, "tor_slots_held": map[string]any{
		"wait": []chaos.HeldSlots{{AtMS: 1, Slots: 0}, {AtMS: 6, Slots: 16}}, "quorum": []chaos.HeldSlots{{AtMS: 1, Slots: 2}, {AtMS: 6, Slots: 0}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var liveResults []xdp.LiveResult
	for _, n := range []int{4, 8} {
		for _, scenario := range []string{"one core", "two cores, a job each", "two cores, one job, every other chunk", "two cores, the same chunks"} {
			liveResults = append(liveResults, xdp.LiveResult{
				Scenario: scenario, Workers: n, Elements: 256, Cores: 1, PacketsPerS: 2e6, BarePacketsPerS: 3e6, LinkPacketsPerS: 5e6, PayloadGbps: 16.4, BareGbps: 24.6, Ratio: 1.5, ToOneCore: 1,
			})
		}
	}
	live, err := json.Marshal(liveResults)
	if err != nil {
		t.Fatal(err)
	}
	var grown growthReport
	for _, jobs := range growthJobs {
		grown.Aggregator = append(grown.Aggregator, xdp.GrowthResult{Jobs: jobs, MapBytes: float64(jobs) * 3e5, MapBytesPerJob: 3e5, HeapBytesPerJob: 900, AddMS: 0.5, CountersMS: 0.01, MembersMS: 0.02, SlotsMS: 0.25, PacketNS: 3000})
	}
	for _, bytes := range growthTensors {
		for _, workers := range growthWorkers {
			grown.Worker = append(grown.Worker, workerGrowth{TensorBytes: float64(bytes), Workers: workers, EngineBytes: 4e5, SubmitBytes: float64(bytes) / 200, SubmitMS: 0.25})
		}
	}
	growth, err := json.Marshal(grown)
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	writePageHead(&page, Machine{CPU: "Abacus", Cores: 2, Kernel: "6.1", Go: "go1.26", Arch: "amd64"}, 3)
	for _, s := range benchmarkPlan() {
		var values [][]float64
		var read []figure
		for _, row := range s.rows {
			report := run
			if row.args[0] == "compare" {
				report = compared
			}
			if slices.Contains(row.args, "--tor") && row.args[0] == "bench" {
				report = torBench
			} else if slices.Contains(row.args, "--live") {
				report = live
			} else if slices.Contains(row.args, "--growth") {
				report = growth
			} else if row.args[0] == "bench" {
				report = bench
			} else if row.args[0] == "chaos" {
				report = straggler
			} else if row.args[0] == "torch" {
				report = []byte(`{"spillway":{"elements":25600000,"communication":2,"whole":4},"gloo":{"elements":25600000,"communication":3,"whole":5}}`)
			}
			f, err := row.read(report)
			if err != nil {
				t.Fatalf("%s, %s: %v", s.title, row.label, err)
			}
			read = append(read, f)
			var line []float64
			for _, c := range s.columns {
				value, err := c.value(f, read[row.base])
				if err != nil {
					t.Fatalf("%s, %s, %s: %v", s.title, row.label, c.title, err)
				}
				line = append(line, value)
			}
			values = append(values, line)
		}
		s.write(&page, values)
		if s.plot != nil {
			directory := t.TempDir()
			reports := map[string]json.RawMessage{s.rows[0].command(): straggler}
			if err := s.draw(directory, values, reports); err != nil {
				t.Errorf("%s: %v", s.title, err)
			}
			if drawn, err := os.ReadFile(filepath.Join(directory, s.plot.file)); err != nil || !strings.Contains(string(drawn), "<svg") {
				t.Errorf("%s: %v, %.100q", s.title, err, drawn)
			}
		}
	}
	for title, text := range splitPage(page.String()) {
		if !strings.Contains(page.String(), text) || !strings.HasPrefix(text, sectionMark+title+"\n") {
			t.Errorf("section %q of the page is read as %.100q", title, text)
		}
	}
	if got := len(splitPage(page.String())); got != len(benchmarkPlan()) {
		t.Errorf("%d sections are read from a page of %d", got, len(benchmarkPlan()))
	}
	for _, want := range []string{
		"medians of 3 rounds", "Abacus, 2 cores, Linux 6.1, go1.26 amd64",
		"| E = 256 | 220 | 310 | 125 | 1.76 | 37.0 | merge ≤ 2.0 × the bare loop |",
		"| E = 256, n = 4 | 150 | 100 | 1.50 | 54.6 | 81.9 | ≤ 1.6 × the bare loop (goal: 1.3) |",
		"| n = 8, two cores, a job each | 2000000 | 3000000 | 5000000 | 16.4 | 1.50 | 1.00 |  |",
		"| 16 jobs | 4800000 | 300000 | 900 | 0.50 | 0.010 | 0.020 | 0.25 | 3000 |  |",
		"| 40 MB, 64 workers | 400000 | 200000 | 0.250 |  |",
		"| 500 Mbit/s, E = 256 | 700.25 | 712.00 | 0.457 | 95.1% | 14.3 | 3 | share ≥ 95% |",
		"| 0.1% | 100.0% | 1.00 |",
		"| E = 256 | 80 | 90 | 150 | 160 | 100 | 120 | 30 | 3.00 |  |",
		"![Throughput by memory of the ToR](benchmarks-tor-memory.svg)\n\n| |",
		"| home link 4×, memory for 1/8 | 700.25 | 0.457 | 100.0% | 50.0% | 50.0% | 400 | 0 | 3 | ratio ≥ 90% |",
		"| preemption | 250.0 | 250.0 | 250.0 | 1.00 | 50.0% | 50.0% | 8 | 0 | 3 |",
		"    sudo bin/spill-load run --workers 4 --size 40MB --iterations 10 --output json --rate 1gbit --elements 256\n",
		"| wait | 0.5 | 50.0% | 50.00% | 0.50 | 0 | 0.5 |  |",
		"| 1% of packets lost | 2.00 | 3.00 | 1.50 | 4.00 | 5.00 | 1.25 | ≥ 1.35× (communication) |",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, page.String())
		}
	}
	if n := strings.Count(page.String(), "spill-load bench "); n != 7 {
		t.Errorf("the commands that rows share, one in each of seven tables, are there %d times", n)
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

func TestNoTimesAreNoMeasurement(t *testing.T) {
	if _, err := readStraggler("wait")([]byte(`{"wrong_sums":1,"figures":{}}`)); err == nil {
		t.Error("a run with wrong sums is taken for a measurement")
	}
	if _, err := readStraggler("wait")([]byte(`{"figures":{"steps_per_s_wait":1}}`)); err == nil {
		t.Error("a report without figures is taken for a measurement")
	}
	if _, err := readHeldSlots([]byte(`{"tor_slots_held":{"wait":[{"at_ms":1,"slots":2}]}}`)); err == nil {
		t.Error("half of a course of time is taken for it")
	}
	if _, err := readTorch([]byte(`{"spillway":{"communication":1,"whole":1}}`)); err == nil {
		t.Error("a report without gloo's times is taken for a measurement")
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
