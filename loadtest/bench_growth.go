package main

import (
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
	"time"

	"spillway/worker/engine"
	"spillway/xdp"
)

// growthReport is what things cost as a function of how many or how large others are.
type growthReport struct {
	Aggregator []xdp.GrowthResult `json:"aggregator"` // by jobs
	Worker     []workerGrowth     `json:"worker"`     // by tensor and workers
}

// workerGrowth is what a worker's engine has for a job of window 127 and 256 elements a chunk, besides the tensor itself.
type workerGrowth struct {
	TensorBytes float64 `json:"tensor_bytes"`
	Workers     int     `json:"workers"`
	EngineBytes float64 `json:"engine_bytes"` // from the job's start on: its ring of chunks and results
	SubmitBytes float64 `json:"submit_bytes"` // for the first all-reduce of the tensor, and kept for the next ones
	SubmitMS    float64 `json:"submit_ms"`
}

// growthTensors are the sizes that are compared, in bytes of float32.
var growthTensors = []int{4_000, 400_000, 40_000_000, 160_000_000}

// growthWorkers are the sizes of job that are compared.
var growthWorkers = []int{4, 64}

// growthJobs are the numbers of jobs that are compared.
var growthJobs = []int{1, 16, 64, 256}

// benchGrowth measures what the aggregator has and does as a function of its jobs.
// Of the worker, it measures what its engine has as a function of the tensor.
func benchGrowth(done func() error) (report growthReport, err error) {
	for _, jobs := range growthJobs {
		r, err := xdp.RunGrowthBench(jobs)
		if err != nil {
			return report, err
		}
		report.Aggregator = append(report.Aggregator, r)
		if err := done(); err != nil {
			return report, err
		}
	}
	for _, bytes := range growthTensors {
		for _, workers := range growthWorkers {
			r, err := growWorker(bytes, workers)
			if err != nil {
				return report, fmt.Errorf("an engine of %d workers: %w", workers, err)
			}
			report.Worker = append(report.Worker, r)
		}
	}
	return report, nil
}

// growWorker measures the engine of one worker.
func growWorker(bytes, workers int) (workerGrowth, error) {
	r := workerGrowth{TensorBytes: float64(bytes), Workers: workers}
	collective := &engine.Collective{F32: make([]float32, bytes/4)}
	before := heapInUse()
	e, err := engine.New(engine.Config{Workers: workers, Elements: 256, Window: 127, Shards: 1, MinRTO: 1e6, MaxRTO: 50e6, Silence: 1e9})
	if err != nil {
		return r, err
	}
	made := heapInUse()
	start := time.Now()
	if err := e.Submit(0, collective); err != nil {
		return r, err
	}
	r.SubmitMS = float64(time.Since(start)) / float64(time.Millisecond)
	r.EngineBytes, r.SubmitBytes = max(0, made-before), max(0, heapInUse()-made)
	runtime.KeepAlive(e)
	runtime.KeepAlive(collective)
	return r, nil
}

// heapInUse is this process's memory that is in use, in bytes.
func heapInUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func writeGrowthBench(w io.Writer, report growthReport) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "jobs\tmaps MB\tmaps a job kB\theap a job kB\tadd ms\tcounters ms\tmembers ms\tslots ms\tpacket ns\t")
	for _, r := range report.Aggregator {
		fmt.Fprintf(t, "%d\t%.1f\t%.0f\t%.1f\t%.2f\t%.3f\t%.3f\t%.2f\t%.0f\t\n",
			r.Jobs, r.MapBytes/1e6, r.MapBytesPerJob/1e3, r.HeapBytesPerJob/1e3, r.AddMS, r.CountersMS, r.MembersMS, r.SlotsMS, r.PacketNS)
	}
	fmt.Fprintln(t, "\ntensor MB\tworkers\tengine kB\tall-reduce kB\tsubmit ms\t")
	for _, r := range report.Worker {
		fmt.Fprintf(t, "%.3f\t%d\t%.1f\t%.1f\t%.3f\t\n", r.TensorBytes/1e6, r.Workers, r.EngineBytes/1e3, r.SubmitBytes/1e3, r.SubmitMS)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
