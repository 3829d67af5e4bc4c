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
	home := netip.MustParseAddrPort("10.77.0.254:9700")
	job := Job{
		Elements: elements, Window: 127, Workers: 4, Home: home, HomePorts: 1,
		Group: netip.MustParseAddr("239.77.0.1"), WorkerPort: 9701,
	}
	for rank := range job.Workers {
		addr := netip.AddrFrom4([4]byte{10, 77, 0, byte(rank + 1)})
		job.Members = append(job.Members, Member{Addr: addr, Bits: 1 << rank})
	}
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
	progs, err := a.loadBench(frame)
	if err != nil {
		return BenchResult{}, err
	}
	defer progs.Close()
	var merge, publish, bare, mergeRatio, publishRatio []float64
	for range rounds {
		m, err := timeRuns(progs.BenchMerge, frame, Drop)
		if err != nil {
			return BenchResult{}, err
		}
		p, err := timeRuns(progs.BenchPublish, frame, Transmit)
		if err != nil {
			return BenchResult{}, err
		}
		b, err := timeRuns(progs.BenchBare, bareFrame, Drop)
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
	return r, nil
}

// loadBench loads the bench programs over the aggregator's maps.
func (a *Aggregator) loadBench(frame []byte) (*benchPrograms, error) {
	spec, err := loadBench()
	if err != nil {
		return nil, fmt.Errorf("read the compiled bench: %w", err)
	}
	if err := a.config.apply(spec); err != nil {
		return nil, err
	}
	maps := &a.objects.aggregatorMaps
	var objects benchObjects
	err = spec.LoadAndAssign(&objects, &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{
		"jobs": maps.Jobs, "counters": maps.Counters, "members": maps.Members, "slots": maps.Slots, "progress": maps.Progress, "lateness": maps.Lateness,
		"uplinks": maps.Uplinks, "parents": maps.Parents,
		"payload_32_map": maps.Payload32Map, "payload_64_map": maps.Payload64Map,
		"payload_256_map": maps.Payload256Map, "payload_832_map": maps.Payload832Map,
	}})
	if err != nil {
		return nil, fmt.Errorf("load the bench: %w", err)
	}
	defer objects.benchMaps.Close() // the programs hold the one they use
	if err := objects.BenchFrame.Put(uint32(0), frame[:benchHeaders]); err != nil {
		objects.benchPrograms.Close()
		return nil, fmt.Errorf("fill the bench's packet: %w", err)
	}
	return &objects.benchPrograms, nil
}

// benchHeaders is the length of all headers of a frame.
const benchHeaders = 14 + 20 + 8 + wire.HeaderSize

// benchFrame is a DATA packet of rank 0. Its elements are the least that leave
// room for all workers; bench.bpf.c says why.
func benchFrame(job Job) []byte {
	b := make([]byte, benchHeaders+job.Elements*wire.ElementSize)
	copy(b, []byte{2, 0, 0, 0, 0, 254, 2, 0, 0, 0, 0, 1, 8, 0, 0x45})
	binary.BigEndian.PutUint16(b[16:], uint16(len(b)-14))
	b[22], b[23] = 64, 17
	src, dst := job.Members[0].Addr.As4(), job.Home.Addr().As4()
	copy(b[26:], src[:])
	copy(b[30:], dst[:])
	binary.BigEndian.PutUint16(b[34:], job.WorkerPort)
	binary.BigEndian.PutUint16(b[36:], job.Home.Port())
	binary.BigEndian.PutUint16(b[38:], uint16(len(b)-34))
	h := wire.Header{Version: wire.Version, Type: wire.Data, Job: job.ID, Elems: uint16(job.Elements), Bitmap: 1}
	h.Encode(b[42:])
	for at := benchHeaders; at < len(b); at += wire.ElementSize {
		binary.BigEndian.PutUint32(b[at:], -bound(job.Workers))
	}
	return b
}

// timeRuns is the mean time of a run in nanoseconds.
func timeRuns(prog *ebpf.Program, frame []byte, want Verdict) (float64, error) {
	ret, mean, err := prog.Benchmark(frame, benchRuns, nil)
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", prog, err)
	}
	if Verdict(ret) != want {
		return 0, fmt.Errorf("run %s: verdict %d, want %d", prog, ret, want)
	}
	return float64(mean) / float64(time.Nanosecond), nil
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
