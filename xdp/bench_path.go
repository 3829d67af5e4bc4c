package xdp

import (
	"fmt"

	"github.com/cilium/ebpf"

	"spillway/wire"
)

// PathResult is what the whole life of a chunk costs on one core: a contribution of each worker, of which the first claims the
// slot, the last completes the sum and is published in its packet, and those between are merged.
type PathResult struct {
	Workers int `json:"workers"`
	// Nanoseconds a packet, on average over a chunk's: the full path, and a bare byte-swap-and-add loop over the same packets and slots. Medians over the rounds.
	PacketNS float64 `json:"packet_ns"`
	BareNS   float64 `json:"bare_ns"`
	// Ratio is the median of their ratios within a round.
	Ratio float64 `json:"ratio"`
	// PayloadGbps is what one core takes in at PacketNS, in 10^9 bits of elements a second; BareGbps at BareNS.
	PayloadGbps float64 `json:"payload_gbps"`
	BareGbps    float64 `json:"bare_gbps"`
	// Cycles and Instructions are those of a packet on the full path; nil where the processor does not count them for this machine.
	Cycles       *float64 `json:"cycles"`
	Instructions *float64 `json:"instructions"`
}

// PathWorkers are the sizes of job that the full path is measured with.
var PathWorkers = []int{4, 8}

// benchPath measures whole chunks of a job of so many workers.
func benchPath(elements, workers, rounds, runs int) (PathResult, error) {
	a, err := Load(Config{MaxJobs: 2, Slots: Slots{512, 512, 512, 512}})
	if err != nil {
		return PathResult{}, err
	}
	defer a.Close() // nothing is attached, there is nothing to report
	job := benchJob(elements, workers)
	if err := a.AddJob(job); err != nil {
		return PathResult{}, err
	}
	frame := benchFrame(job)
	clear(frame[benchHeaders:])
	// The bare loop has slots of its own.
	job.ID = 1
	if err := a.AddJob(job); err != nil {
		return PathResult{}, err
	}
	progs, err := a.loadBench(frame, job, "bench_chunk", "bench_bare_chunk")
	if err != nil {
		return PathResult{}, err
	}
	defer progs.close()
	var path, bare, ratio []float64
	for range rounds {
		p, err := a.timePath(progs["bench_chunk"], frame, runs, workers)
		if err != nil {
			return PathResult{}, err
		}
		_, b, err := run(progs["bench_bare_chunk"], frame, runs)
		if err != nil {
			return PathResult{}, err
		}
		path, bare, ratio = append(path, p), append(bare, b), append(ratio, p/b)
	}
	r := newPathResult(elements, workers, median(path), median(bare), median(ratio))
	counts, err := countHardware(func() error {
		_, err := a.timePath(progs["bench_chunk"], frame, runs, workers)
		return err
	})
	if err != nil {
		return PathResult{}, err
	}
	if counts != nil {
		cycles, instructions := counts[0]/float64(runs), counts[1]/float64(runs)
		r.Cycles, r.Instructions = &cycles, &instructions
	}
	return r, nil
}

func newPathResult(elements, workers int, path, bare, ratio float64) PathResult {
	bits := float64(elements * wire.ElementSize * 8)
	return PathResult{Workers: workers, PacketNS: path, BareNS: bare, Ratio: ratio, PayloadGbps: bits / path, BareGbps: bits / bare}
}

// timePath is the mean time of a contribution in nanoseconds. Chunks must have gone the whole way, all of them.
func (a *Aggregator) timePath(chunk *ebpf.Program, frame []byte, runs, workers int) (float64, error) {
	before, err := a.Counters(0)
	if err != nil {
		return 0, err
	}
	_, ns, err := run(chunk, frame, runs)
	if err != nil {
		return 0, err
	}
	after, err := a.Counters(0)
	if err != nil {
		return 0, err
	}
	of := func(counter string) int { return int(after[counter] - before[counter]) }
	data, claimed, published := of("data"), of("claimed"), of("published")
	if data < runs || claimed+of("merged") != data || abs(claimed-published) > 1 || abs(published*workers-data) > workers {
		return 0, fmt.Errorf("of %d contributions %d claimed a slot, %d were merged, and %d chunks published: want chunks of %d", data, claimed, of("merged"), published, workers)
	}
	return ns, nil
}

func abs(x int) int { return max(x, -x) }
