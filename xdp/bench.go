package xdp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"spillway/wire"
)

// BenchResult is what the data plane costs at one E, on one core, by the
// kernel's own clock over many runs of the compiled program (BPF_PROG_TEST_RUN).
type BenchResult struct {
	Elements int `json:"elements"`
	// Nanoseconds a packet: the full path where the contribution is merged, where it is the
	// last one and the RESULT is made, and a bare byte-swap-and-add loop over
	// the same elements. Medians over the rounds.
	MergeNS   float64 `json:"merge_ns"`
	PublishNS float64 `json:"publish_ns"`
	BareNS    float64 `json:"bare_ns"`
	// MergeRatio and PublishRatio are the medians of the ratios to the bare loop within a round.
	MergeRatio   float64 `json:"merge_ratio"`
	PublishRatio float64 `json:"publish_ratio"`
	// PayloadGbps is what one core takes in at MergeNS, in 10^9 bits of elements a second.
	PayloadGbps float64 `json:"payload_gbps"`
	// FullPath is what whole chunks cost, by the number of workers.
	FullPath []PathResult `json:"full_path"`
}

// benchRuns is how many packets one timed round is: long enough for the clock,
// short enough that the kernel does not reschedule much.
const benchRuns = 200_000

// RunBench measures the program at each E of elements, in rounds interleaved
// so that a noisy moment touches all three alike.
func RunBench(elements []int, rounds int) ([]BenchResult, error) {
	var results []BenchResult
	for _, e := range elements {
		r, err := benchOne(e, rounds)
		if err != nil {
			return nil, fmt.Errorf("bench at %d elements: %w", e, err)
		}
		results = append(results, r)
	}
	return results, nil
}

func benchOne(elements, rounds int) (BenchResult, error) {
	a, err := Load(Config{MaxJobs: 2, Slots: Slots{512, 512, 512, 512}})
	if err != nil {
		return BenchResult{}, err
	}
	defer a.Close() // nothing is attached, there is nothing to report
	job := benchJob(elements, 4)
	if err := a.AddJob(job); err != nil {
		return BenchResult{}, err
	}
	frame := benchFrame(job)
	// The bare loop leaves sums in its slots that no aggregator would; it has its own.
	job.ID = 1
	if err := a.AddJob(job); err != nil {
		return BenchResult{}, err
	}
	bareFrame := benchFrame(job)
	// Every slot of the ring holds its chunk before the first run.
	for seq := range wire.RingSize(job.Window) {
		binary.BigEndian.PutUint32(frame[54:], seq)
		if _, _, err := a.Process(frame); err != nil {
			return BenchResult{}, err
		}
	}
	progs, err := a.loadBench(frame, job, "bench_merge", "bench_publish", "bench_bare")
	if err != nil {
		return BenchResult{}, err
	}
	defer progs.close()
	var merge, publish, bare, mergeRatio, publishRatio []float64
	for range rounds {
		m, err := timeRuns(progs["bench_merge"], frame, Drop)
		if err != nil {
			return BenchResult{}, err
		}
		p, err := timeRuns(progs["bench_publish"], frame, Transmit)
		if err != nil {
			return BenchResult{}, err
		}
		b, err := timeRuns(progs["bench_bare"], bareFrame, Drop)
		if err != nil {
			return BenchResult{}, err
		}
		merge, publish, bare = append(merge, m), append(publish, p), append(bare, b)
		mergeRatio, publishRatio = append(mergeRatio, m/b), append(publishRatio, p/b)
	}
	r := BenchResult{
		Elements: elements,
		MergeNS:  median(merge), PublishNS: median(publish), BareNS: median(bare),
		MergeRatio: median(mergeRatio), PublishRatio: median(publishRatio),
	}
	r.PayloadGbps = float64(elements*wire.ElementSize*8) / r.MergeNS
	for _, workers := range PathWorkers {
		path, err := benchPath(elements, workers, rounds, benchRuns)
		if err != nil {
			return BenchResult{}, fmt.Errorf("chunks of %d workers: %w", workers, err)
		}
		r.FullPath = append(r.FullPath, path)
	}
	return r, nil
}

// benchJob is a job of so many workers, each with an address of its own.
func benchJob(elements, workers int) Job {
	job := Job{
		Elements: elements, Window: 127, Workers: workers, Home: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 77, 0, 254}), wire.BasePort), HomePorts: 1,
		Group: netip.MustParseAddr("239.77.0.1"), WorkerPort: 9701,
	}
	for rank := range workers {
		job.Members = append(job.Members, Member{Addr: netip.AddrFrom4([4]byte{10, 77, 0, byte(rank + 1)}), Bits: 1 << rank})
	}
	return job
}

// benchSet are programs of bench.bpf.c by name. The verifier takes its time for each, so only what is run is loaded.
type benchSet map[string]*ebpf.Program

func (s benchSet) close() {
	for _, p := range s {
		p.Close() // a program that nothing else holds; there is nothing to report
	}
}

// loadBench loads bench programs over the aggregator's maps, for packets of a job.
func (a *Aggregator) loadBench(frame []byte, job Job, names ...string) (benchSet, error) {
	spec, err := loadBench()
	if err != nil {
		return nil, fmt.Errorf("read the compiled bench: %w", err)
	}
	if err := a.config.apply(spec); err != nil {
		return nil, err
	}
	if err := spec.Variables["bench_workers"].Set(uint32(job.Workers)); err != nil {
		return nil, fmt.Errorf("set the number of workers: %w", err)
	}
	for name := range spec.Programs {
		if !slices.Contains(names, name) {
			delete(spec.Programs, name)
		}
	}
	replaced := make(map[string]*ebpf.Map)
	for name, m := range a.maps() {
		replaced[name] = *m
	}
	collection, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: replaced})
	if err != nil {
		return nil, fmt.Errorf("load the bench: %w", err)
	}
	defer collection.Close() // the programs hold the maps that they use
	if err := collection.Maps["bench_frame"].Put(uint32(0), frame[:benchHeaders]); err != nil {
		return nil, fmt.Errorf("fill the bench's packet: %w", err)
	}
	for rank := range job.Workers {
		if err := collection.Maps["bench_contributions"].Put(uint32(rank), benchContribution(job, rank)[:benchHeaders]); err != nil {
			return nil, fmt.Errorf("fill the contribution of rank %d: %w", rank, err)
		}
	}
	for job := range uint32(2) { // so that rank 0 of chunk 0 is next
		if err := collection.Maps["bench_last"].Put(job, benchContributionAt{Seq: 1<<32 - 1, Rank: 1<<32 - 1}); err != nil {
			return nil, fmt.Errorf("set what contributed last: %w", err)
		}
	}
	set := make(benchSet)
	for _, name := range names {
		set[name] = collection.DetachProgram(name)
	}
	return set, nil
}

// benchContributionAt is struct contribution of bench.bpf.c.
type benchContributionAt struct{ Seq, Rank uint32 }

// benchHeaders is the length of all headers of a frame.
const benchHeaders = 14 + 20 + 8 + wire.HeaderSize

// benchFrame is a DATA packet of rank 0. Its elements are the least that leave
// room for all workers; bench.bpf.c says why.
func benchFrame(job Job) []byte {
	b := benchContribution(job, 0)
	for at := benchHeaders; at < len(b); at += wire.ElementSize {
		binary.BigEndian.PutUint32(b[at:], -bound(job.Workers))
	}
	return b
}

// benchContribution is a DATA packet of a rank, for chunk 0, whose elements are 0.
func benchContribution(job Job, rank int) []byte {
	b := make([]byte, benchHeaders+job.Elements*wire.ElementSize)
	copy(b, []byte{2, 0, 0, 0, 0, 254, 2, 0, 0, 0, 0, 1, 8, 0, 0x45})
	binary.BigEndian.PutUint16(b[16:], uint16(len(b)-14))
	b[22], b[23] = 64, 17
	src, dst := job.Members[rank].Addr.As4(), job.Home.Addr().As4()
	copy(b[26:], src[:])
	copy(b[30:], dst[:])
	binary.BigEndian.PutUint16(b[34:], job.WorkerPort)
	binary.BigEndian.PutUint16(b[36:], job.Home.Port())
	binary.BigEndian.PutUint16(b[38:], uint16(len(b)-34))
	h := wire.Header{Version: wire.Version, Type: wire.Data, Job: job.ID, Elems: uint16(job.Elements), Bitmap: 1 << rank}
	h.Encode(b[42:])
	return b
}

// timeRuns is the mean time of a run in nanoseconds.
func timeRuns(prog *ebpf.Program, frame []byte, want Verdict) (float64, error) {
	verdict, ns, err := run(prog, frame, benchRuns)
	if err != nil {
		return 0, err
	}
	if verdict != want {
		return 0, fmt.Errorf("run %s: verdict %d, want %d", prog, verdict, want)
	}
	return ns, nil
}

// run runs a program so many times and returns the last verdict and the mean time in nanoseconds.
func run(prog *ebpf.Program, frame []byte, runs int) (Verdict, float64, error) {
	verdict, mean, err := prog.Benchmark(frame, runs, nil)
	if err != nil {
		return 0, 0, fmt.Errorf("run %s: %w", prog, err)
	}
	return Verdict(verdict), float64(mean) / float64(time.Nanosecond), nil
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
