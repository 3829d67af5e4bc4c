package xdp

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"spillway/wire"
)

// LiveResult is what cores get done with live frames over a veth link with a receive queue for each CPU. A core makes the frames, sends
// them, takes them in at the other end and runs the program on them there; RESULTs go back over the link and are dropped.
type LiveResult struct {
	Scenario string `json:"scenario"`
	Elements int    `json:"elements"`
	Workers  int    `json:"workers"`
	Cores    int    `json:"cores"`
	// Packets a second of all cores together: with the aggregator at the other end of the link, with the bare loop, and with a program that does nothing.
	PacketsPerS     float64 `json:"packets_per_s"`
	BarePacketsPerS float64 `json:"bare_packets_per_s"`
	LinkPacketsPerS float64 `json:"link_packets_per_s"`
	// PayloadGbps are 10^9 bits of elements a second and core; BareGbps those with the bare loop.
	PayloadGbps float64 `json:"payload_gbps"`
	BareGbps    float64 `json:"bare_gbps"`
	// Ratio is the time of a packet over that with the bare loop, as the median of the ratios within a round: at most 1.6 is the aim.
	Ratio float64 `json:"ratio"`
	// ToOneCore is how many packets a second the cores do compared with one core in the same round.
	ToOneCore float64 `json:"to_one_core"`
	// Lost is the share of packets that the link's ring had no room for, because the core was busy with something else.
	Lost float64 `json:"lost"`
}

// liveScenario is who sends what.
type liveScenario struct {
	name string
	// streams of a job of so many workers, one for each core; jobs 0 and 1 are alike.
	streams func(workers int) []liveStream
}

var liveScenarios = []liveScenario{
	{"one core", func(n int) []liveStream { return []liveStream{{Ranks: uint32(n), Step: 1}} }},
	{"two cores, a job each", func(n int) []liveStream {
		return []liveStream{{Ranks: uint32(n), Step: 1}, {Job: 1, Ranks: uint32(n), Step: 1}}
	}},
	{"two cores, one job, every other chunk", func(n int) []liveStream {
		return []liveStream{{Ranks: uint32(n), Step: 2}, {Ranks: uint32(n), Step: 2, Seq: 1}}
	}},
	{"two cores, the same chunks", func(n int) []liveStream {
		half := uint32(n / 2)
		return []liveStream{{Ranks: half, Step: 1, Beside: 2, Ahead: liveWindow}, {First: half, Ranks: uint32(n) - half, Step: 1, Beside: 1, Ahead: liveWindow}}
	}},
}

const (
	liveWindow = 32      // chunks that one of two cores may be ahead of the other, when both contribute to all
	liveFrames = 1 << 18 // that a source sends in a round
	livePaced  = 1 << 15 // likewise, if it waits for another: at least
	liveBatch  = 64      // frames at a time, of the 256 that a veth's ring has room for
)

// RunLiveBench measures live frames in rounds, in each of which every scenario runs with every program. Scenarios that need more cores
// than there are are left out. It needs root and Linux 5.18.
func RunLiveBench(ctx context.Context, elements, workers, rounds int) (results []LiveResult, err error) {
	scenarios := liveScenarios
	if runtime.NumCPU() < 2 {
		scenarios = scenarios[:1]
	}
	done := make(chan struct{})
	go func() { // a goroutine whose thread ends with it, in its own network namespace
		defer close(done)
		runtime.LockOSThread()
		var bench *liveBench
		if bench, err = newLiveBench(elements, workers); err != nil {
			return
		}
		results, err = bench.run(ctx, scenarios, rounds)
		err = errors.Join(err, bench.close())
	}()
	<-done
	if err != nil {
		return nil, fmt.Errorf("live frames of %d elements, %d workers: %w", elements, workers, err)
	}
	return results, nil
}

// liveBench is a link in a network namespace, and the programs for its ends.
type liveBench struct {
	elements, workers int
	namespace         netns.NsHandle
	aggregator        *Aggregator
	programs          struct {
		Source        *ebpf.Program `ebpf:"live_source"`
		Sink          *ebpf.Program `ebpf:"live_sink"`
		Nothing       *ebpf.Program `ebpf:"live_nothing"`
		Bare          *ebpf.Program `ebpf:"live_bare"`
		Streams       *ebpf.Map     `ebpf:"live_streams"`
		Contributions *ebpf.Map     `ebpf:"live_contributions"`
	}
	frame      []byte
	near       int       // the source's end
	sink, home link.Link // at the two ends
	seq        uint32    // from which on no chunk was sent
}

func newLiveBench(elements, workers int) (b *liveBench, err error) {
	b = &liveBench{elements: elements, workers: workers, namespace: netns.None()}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.namespace, err = netns.New(); err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	if b.aggregator, err = Load(Config{MaxJobs: 2, Slots: Slots{512, 512, 512, 512}}); err != nil {
		return nil, err
	}
	job := benchJob(elements, workers)
	for job.ID = range uint16(2) {
		if err := b.aggregator.AddJob(job); err != nil {
			return nil, err
		}
	}
	b.frame = benchContribution(job, 0)
	if err := b.load(job); err != nil {
		return nil, err
	}
	return b, b.connect()
}

// load loads the programs of live.bpf.c over the aggregator's maps.
func (b *liveBench) load(job Job) error {
	spec, err := loadLive()
	if err != nil {
		return fmt.Errorf("read the compiled programs: %w", err)
	}
	if err := b.aggregator.config.apply(spec); err != nil {
		return err
	}
	replaced := make(map[string]*ebpf.Map)
	for name, m := range b.aggregator.maps() {
		replaced[name] = *m
	}
	if err := spec.LoadAndAssign(&b.programs, &ebpf.CollectionOptions{MapReplacements: replaced}); err != nil {
		return fmt.Errorf("load the sources: %w", err)
	}
	for rank := range job.Workers {
		if err := b.programs.Contributions.Put(uint32(rank), benchContribution(job, rank)[:benchHeaders]); err != nil {
			return fmt.Errorf("fill the contribution of rank %d: %w", rank, err)
		}
	}
	return nil
}

// connect makes the link, with a queue for each CPU at both ends.
func (b *liveBench) connect() error {
	queues := runtime.NumCPU()
	veth := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: "source", NumTxQueues: queues, NumRxQueues: queues},
		PeerName:  "home", PeerNumTxQueues: uint32(queues), PeerNumRxQueues: uint32(queues),
	}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("make a veth link with %d queues: %w", queues, err)
	}
	attach := func(name string, program *ebpf.Program) (index int, l link.Link, err error) {
		end, err := netlink.LinkByName(name)
		if err != nil {
			return 0, nil, fmt.Errorf("find the end %s of the link: %w", name, err)
		}
		if err := netlink.LinkSetUp(end); err != nil {
			return 0, nil, fmt.Errorf("set the end %s of the link up: %w", name, err)
		}
		l, err = link.AttachXDP(link.XDPOptions{Program: program, Interface: end.Attrs().Index, Flags: link.XDPDriverMode})
		if err != nil {
			return 0, nil, fmt.Errorf("attach to the end %s of the link in native mode: %w", name, err)
		}
		return end.Attrs().Index, l, nil
	}
	var err error
	if b.near, b.sink, err = attach("source", b.programs.Sink); err != nil {
		return err
	}
	_, b.home, err = attach("home", b.programs.Nothing)
	return err
}

// run measures all scenarios.
func (b *liveBench) run(ctx context.Context, scenarios []liveScenario, rounds int) ([]LiveResult, error) {
	type sample struct{ aggregator, bare, nothing, ratio, scale, lost []float64 }
	samples := make([]sample, len(scenarios))
	for range rounds {
		var one float64
		for i, s := range scenarios {
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			bare, _, err := b.measure(b.programs.Bare, s)
			if err != nil {
				return nil, fmt.Errorf("%s, the bare loop: %w", s.name, err)
			}
			full, lost, err := b.measure(b.aggregator.objects.Aggregator, s)
			if err != nil {
				return nil, fmt.Errorf("%s, the aggregator: %w", s.name, err)
			}
			nothing, _, err := b.measure(b.programs.Nothing, s)
			if err != nil {
				return nil, fmt.Errorf("%s, no program: %w", s.name, err)
			}
			if i == 0 {
				one = full
			}
			at := &samples[i]
			at.aggregator, at.bare, at.nothing = append(at.aggregator, full), append(at.bare, bare), append(at.nothing, nothing)
			at.ratio, at.scale, at.lost = append(at.ratio, bare/full), append(at.scale, full/one), append(at.lost, lost)
		}
	}
	var results []LiveResult
	for i, s := range scenarios {
		at, cores := samples[i], len(s.streams(b.workers))
		bits := float64(b.elements*wire.ElementSize*8) / 1e9 / float64(cores)
		results = append(results, LiveResult{
			Scenario: s.name, Elements: b.elements, Workers: b.workers, Cores: cores,
			PacketsPerS: median(at.aggregator), BarePacketsPerS: median(at.bare), LinkPacketsPerS: median(at.nothing),
			PayloadGbps: median(at.aggregator) * bits, BareGbps: median(at.bare) * bits,
			Ratio: median(at.ratio), ToOneCore: median(at.scale), Lost: median(at.lost),
		})
	}
	return results, nil
}

// measure has one program at the home's end while all of a scenario's sources run, and returns the packets a second that it got, and
// the share of those that were sent and did not get there.
func (b *liveBench) measure(program *ebpf.Program, s liveScenario) (packetsPerS, lost float64, err error) {
	if err := b.home.Update(program); err != nil {
		return 0, 0, fmt.Errorf("put the program on the link: %w", err)
	}
	streams := s.streams(b.workers)
	for cpu, stream := range streams {
		stream.Seq += b.seq
		if err := b.programs.Streams.Put(uint32(cpu), stream); err != nil {
			return 0, 0, fmt.Errorf("set the stream of CPU %d: %w", cpu, err)
		}
	}
	before, err := b.counted()
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	var sources errgroup.Group
	for cpu := range streams {
		sources.Go(func() error { return b.source(cpu, streams[cpu].Beside != 0) })
	}
	if err := sources.Wait(); err != nil {
		return 0, 0, err
	}
	elapsed := time.Since(start).Seconds()
	var sent, arrived, results uint64
	for cpu := range streams {
		var stream liveStream
		if err := b.programs.Streams.Lookup(uint32(cpu), &stream); err != nil {
			return 0, 0, fmt.Errorf("read the stream of CPU %d: %w", cpu, err)
		}
		b.seq = max(b.seq, stream.Seq)
		sent, arrived, results = sent+stream.Sent, arrived+stream.Arrived, results+stream.Results
	}
	b.seq = (b.seq + 2*liveWindow) &^ 1 // rings begin anew, and every other chunk is an even one
	if program == b.aggregator.objects.Aggregator {
		after, err := b.counted()
		if err != nil {
			return 0, 0, err
		}
		of := func(counter string) uint64 { return after[counter] - before[counter] }
		arrived = of("data")
		// Every packet that is lost leaves a chunk open, and with it all that came of it.
		missing := sent - arrived + of("contended")
		if published := of("published"); of("claimed")+of("merged")+of("contended") != arrived || (published+missing+2*liveWindow)*uint64(b.workers) < arrived || results > published {
			return 0, 0, fmt.Errorf("of %d packets %d arrived, %d claimed a slot, %d were merged, %d were dropped because the slot was contended, %d chunks were published and %d results came back: want chunks of %d",
				sent, arrived, of("claimed"), of("merged"), of("contended"), published, results, b.workers)
		}
	}
	if arrived == 0 || arrived > sent {
		return 0, 0, fmt.Errorf("%d packets were sent and %d arrived", sent, arrived)
	}
	return float64(arrived) / elapsed, float64(sent-arrived) / float64(sent), nil
}

// counted are the counters of both jobs together.
func (b *liveBench) counted() (map[string]uint64, error) {
	first, err := b.aggregator.Counters(0)
	if err != nil {
		return nil, err
	}
	second, err := b.aggregator.Counters(1)
	for name, n := range second {
		first[name] += n
	}
	return first, err
}

// source sends frames from one CPU, on a thread that is there and in the namespace, and ends.
func (b *liveBench) source(cpu int, paced bool) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- b.send(cpu, paced)
	}()
	return <-result
}

func (b *liveBench) send(cpu int, paced bool) error {
	if err := netns.Set(b.namespace); err != nil {
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	var cpus unix.CPUSet
	cpus.Set(cpu)
	if err := unix.SchedSetaffinity(0, &cpus); err != nil {
		return fmt.Errorf("move to CPU %d: %w", cpu, err)
	}
	opts := ebpf.RunOptions{
		Data: b.frame, Repeat: liveFrames, BatchSize: liveBatch, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES,
		Context: xdpContext{DataEnd: uint32(len(b.frame)), IngressIfindex: uint32(b.near)},
	}
	if paced {
		opts.Repeat = livePaced / 8
	}
	for {
		if _, err := b.programs.Source.Run(&opts); err != nil {
			return fmt.Errorf("send live frames from CPU %d (Linux 5.18 or newer?): %w", cpu, err)
		}
		if !paced {
			return nil
		}
		// Where it had to wait it sent nothing. Both have the same number to send, so that neither waits in vain.
		var stream liveStream
		if err := b.programs.Streams.Lookup(uint32(cpu), &stream); err != nil {
			return fmt.Errorf("read the stream of CPU %d: %w", cpu, err)
		}
		if stream.Sent >= livePaced {
			return nil
		}
	}
}

// xdpContext is struct xdp_md of linux/bpf.h.
type xdpContext struct{ Data, DataEnd, DataMeta, IngressIfindex, RxQueueIndex, EgressIfindex uint32 }

// close takes everything away. The namespace ends with the threads in it.
func (b *liveBench) close() error {
	var errs []error
	for _, l := range []link.Link{b.sink, b.home} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	p := &b.programs
	for _, program := range []*ebpf.Program{p.Source, p.Sink, p.Nothing, p.Bare} {
		errs = append(errs, program.Close())
	}
	errs = append(errs, p.Streams.Close(), p.Contributions.Close())
	if b.aggregator != nil {
		errs = append(errs, b.aggregator.Close())
	}
	if b.namespace.IsOpen() {
		errs = append(errs, b.namespace.Close())
	}
	return errors.Join(errs...)
}
