package dataplane

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"spillway/wire"
)

// BenchResult is what a packet costs at one number of elements, on one core, by
// the kernel's own clock over many runs of the compiled program
// (BPF_PROG_TEST_RUN): nanoseconds a packet, medians over the rounds.
type BenchResult struct {
	Elements   int     `json:"elements"`
	ClaimNS    float64 `json:"claim_ns"`
	MergeNS    float64 `json:"merge_ns"`
	CompleteNS float64 `json:"complete_ns"` // the RESULT and its checksum are made
	PreemptNS  float64 `json:"preempt_ns"`  // contents are swapped
	SpillNS    float64 `json:"spill_ns"`    // the slot is lost, the packet forwarded
	ResendNS   float64 `json:"resend_ns"`   // the union leaves, the slot is free
	// BareNS is a loop that swaps bytes and adds over the same elements, and nothing else.
	BareNS float64 `json:"bare_ns"`
	// MergeRatio is the median of the ratios of merge to bare within a round.
	MergeRatio float64 `json:"merge_ratio"`
}

const (
	// benchRuns is how many packets one timed round is: long enough for the clock,
	// short enough that the kernel does not reschedule much.
	benchRuns = 200_000
	// benchSlots are visited in turn; they and the packet stay in the caches up to 256 elements.
	benchSlots = 256
	// benchJob is DATA's; benchJob ^ 1 is the job of the contents that contend with it.
	benchJob = 2
)

// RunBench measures the program at each number of elements, in rounds
// interleaved so that a noisy moment touches all cases alike.
func RunBench(elements []int, rounds int) ([]BenchResult, error) {
	var results []BenchResult
	for _, e := range elements {
		r, err := benchOne(e, rounds, benchRuns)
		if err != nil {
			return nil, fmt.Errorf("bench at %d elements: %w", e, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// benchCase is one program of bench.bpf.c, the flags of its packet, what it decides, and its times.
type benchCase struct {
	program *ebpf.Program
	flags   wire.Flags
	want    torKind
	to      *float64
	times   []float64
}

func benchOne(elements, rounds, runs int) (r BenchResult, err error) {
	d, err := Load(Config{Slots: benchSlots, Elements: elements})
	if err != nil {
		return r, err
	}
	defer d.Close() // nothing is attached, there is nothing to report
	if err := d.installBench(); err != nil {
		return r, err
	}
	objects, err := d.loadBench(elements)
	if err != nil {
		return r, err
	}
	defer objects.Close() // likewise
	r.Elements = elements
	cases := []*benchCase{
		{program: objects.BenchClaim, want: torKindKIND_DROP, to: &r.ClaimNS},
		{program: objects.BenchMerge, want: torKindKIND_DROP, to: &r.MergeNS},
		{program: objects.BenchBare, want: torKindKIND_DROP, to: &r.BareNS},
		{program: objects.BenchComplete, want: torKindKIND_GROUP, to: &r.CompleteNS},
		{program: objects.BenchPreempt, want: torKindKIND_PORT, to: &r.PreemptNS},
		{program: objects.BenchSpill, want: torKindKIND_PORT, to: &r.SpillNS},
		{program: objects.BenchResend, flags: wire.Resend, want: torKindKIND_PORT, to: &r.ResendNS},
	}
	var ratios []float64
	for range rounds {
		for _, c := range cases {
			frame := benchFrame(elements, c.flags)
			if err := objects.BenchFrame.Put(uint32(0), frame[:benchHeaders]); err != nil {
				return r, fmt.Errorf("fill the bench's packet: %w", err)
			}
			ret, mean, err := c.program.Benchmark(frame, runs, nil)
			if err != nil {
				return r, fmt.Errorf("run %s: %w", c.program, err)
			}
			if torKind(ret) != c.want {
				return r, fmt.Errorf("run %s: decision %d, want %d", c.program, ret, c.want)
			}
			c.times = append(c.times, float64(mean)/float64(time.Nanosecond))
		}
		last := len(cases[1].times) - 1
		ratios = append(ratios, cases[1].times[last]/cases[2].times[last])
	}
	for _, c := range cases {
		*c.to = median(c.times)
	}
	r.MergeRatio = median(ratios)
	return r, nil
}

// installBench fills the tables for both jobs of the bench.
func (d *Dataplane) installBench() error {
	home, tor := netip.MustParseAddr("10.77.0.254"), netip.MustParseAddr("10.77.0.253")
	group := netip.MustParseAddr("239.77.0.1")
	mode := SharedSlots
	if err := d.SetForward(netip.PrefixFrom(home, 32), &ToPort{Port: 64}); err != nil {
		return err
	}
	for _, id := range []uint16{benchJob, benchJob ^ 1} {
		params := JobParams{Index: uint8(id)}
		if err := d.SetJob(id, &params); err != nil {
			return err
		}
		if err := d.SetMember(MemberKey{1, benchWorker, id}, &Member{Role: Worker, Bits: 1, Rest: 0xe}); err != nil {
			return err
		}
		if err := d.SetRegion(RegionKey{id, 0, ^uint16(benchSlots - 1)}, &mode); err != nil {
			return err
		}
		if err := d.SetUplink(id, &Uplink{Index: params.Index, Port: 64, Src: tor, Dst: home, FirstPort: wire.BasePort}); err != nil {
			return err
		}
		to := ToWorkers{Group: 1, Src: tor, Dst: group, SrcPort: wire.BasePort, DstPort: 9999}
		if err := d.SetPublish(id, &Publish{ToWorkers: &to}); err != nil {
			return err
		}
	}
	return nil
}

// loadBench loads the bench programs over the data plane's maps.
func (d *Dataplane) loadBench(elements int) (*benchObjects, error) {
	spec, err := loadBench()
	if err != nil {
		return nil, fmt.Errorf("read the compiled bench: %w", err)
	}
	if err := d.config.apply(spec); err != nil {
		return nil, err
	}
	if err := spec.Variables["bench_slots"].Set(uint32(benchSlots)); err != nil {
		return nil, fmt.Errorf("set bench_slots: %w", err)
	}
	m := &d.objects.torMaps
	replacements := map[string]*ebpf.Map{
		"events": m.Events, "preempted": m.Preempted, "saturated": m.Saturated, "slots": m.Slots, "payloads": m.Payloads,
		"forward": m.Forward, "forward_traffic": m.ForwardTraffic, "group_routes": m.GroupRoutes, "bridge": m.Bridge,
		"tenants": m.Tenants, "members": m.Members, "member_traffic": m.MemberTraffic,
	}
	var objects benchObjects
	if err := spec.LoadAndAssign(&objects, &ebpf.CollectionOptions{MapReplacements: replacements}); err != nil {
		return nil, fmt.Errorf("load the bench: %w", err)
	}
	return &objects, nil
}

var benchWorker = netip.MustParseAddr("10.77.0.1")

// benchHeaders is the length of all headers of a frame.
const benchHeaders = 14 + 20 + 8 + wire.HeaderSize

// benchFrame is DATA of the first worker, of zeros.
func benchFrame(elements int, flags wire.Flags) []byte {
	b := make([]byte, benchHeaders+elements*wire.ElementSize)
	copy(b, []byte{2, 0, 0, 0, 0, 254, 2, 0, 0, 0, 0, 1, 8, 0, 0x45})
	binary.BigEndian.PutUint16(b[16:], uint16(len(b)-14))
	b[22], b[23] = 64, 17
	copy(b[26:], benchWorker.AsSlice())
	copy(b[30:], []byte{10, 77, 0, 254})
	binary.BigEndian.PutUint16(b[34:], 9999)
	binary.BigEndian.PutUint16(b[36:], wire.BasePort)
	binary.BigEndian.PutUint16(b[38:], uint16(len(b)-34))
	h := wire.Header{Version: wire.Version, Type: wire.Data, Flags: flags, Job: benchJob, Priority: 5, Elems: uint16(elements), Bitmap: 1}
	h.Encode(b[42:])
	return b
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
