package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"spillway/loadtest/faults"
	"spillway/loadtest/quantity"
	"spillway/loadtest/rack"
	"spillway/wire"
	"spillway/worker"
	"spillway/worker/engine"
	"spillway/xdp"
)

// maxTensor in elements is the protocol's limit (section 5).
const maxTensor = 1<<31 - 1

// maxIterations of a job, and of the warm-up before.
const maxIterations = 1_000_000

// runOptions are the flags of `run`.
type runOptions struct {
	workers, racks           int
	size                     quantity.Size
	rate, homeRate           quantity.Rate
	loss, duplicate, reorder quantity.Probability
	ecn                      quantity.Probability
	elements, window         int
	wireBits                 int
	iterations, warmup       int
	unicast                  bool
	tor, torPartition        string
	torSlots                 slotsFlag
	preempt                  string
	torReboots               int
	torRebootEvery           time.Duration
	daemonRestarts           int
	appliances               int
	daemonRestartEvery       time.Duration
	jobs                     jobsFlag
	dtype                    string
	seed                     uint64
	minRTO, maxRTO, silence  time.Duration
	timeout                  time.Duration
	transport                string
	busyPoll                 time.Duration
	output                   string
	quorumOptions
}

// runCommand is `spill-load run`.
func runCommand(s streams) *cli.Command {
	o := &runOptions{size: 40_000_000, rate: 500_000_000}
	return &cli.Command{
		Name:  "run",
		Usage: "all-reduce tensors on a rack, check every bit and measure",
		Description: `Builds a rack, starts a worker process a rank, and all-reduces the same tensor
size again and again. Each worker compares each result, bit for bit, with the
sum computed apart from the code under test.

  sudo spill-load run --workers 8 --size 160MB --rate 1gbit
  sudo spill-load run --size 4kB --iterations 1000 --rate unshaped
  sudo spill-load run --loss 1% --duplicate 1% --reorder 1%
  sudo spill-load run --wire-bits 16                           half the traffic, coarser sums
  sudo spill-load run --elements 832 --unicast --output json | jq .p50_ms
  sudo spill-load run --workers 8 --quorum 7 --after 20ms --straggler 100ms --straggler-chance 20% --dtype int32
  sudo spill-load run --racks 4 --workers 4                    4 racks of 4 workers, an aggregator each, and one above
  sudo spill-load run --tor soft --tor-slots 32                the ToR sums 32 of 256 chunks, the rest spills
  sudo spill-load run --tor soft --tor-slots 64 --tor-partition shared --warmup 1 \
    --jobs name=a,priority=100,size=10MB,count=5 --jobs name=b,size=10MB,count=5,start=5ms,straggler=20ms

A job's description is key=value, with commas between; what it leaves out is the run's.
  name       in the report (1, 2, …)
  priority   1 (least) to 127; it decides who gets a slot of the ToR (64)
  size       of its tensors (--size)
  count      all-reduces (--iterations)
  start      so long after the first moment of the measurement (0s)
  straggler  its last worker pauses so long before each all-reduce (0s)
  on         the workers that it runs on, like 0-3 (all)

What the figures mean:
  p50_ms, p99_ms    time of an all-reduce: from the moment the first worker begins
                    until the slowest is done (nearest rank over the iterations)
  algbw_gbps        bits of the tensor / p50
  elements_per_s    elements of the tensor / p50
  wire_share        ideal / p50. Ideal: the tensor's full packets back to back at
                    the link's rate, where a packet of E elements (of 2·E with
                    --wire-bits 16) is 4·E bytes of payload and 70 of headers (Ethernet 14, IPv4 20, UDP 8, Spillway 28;
                    what the links' token buckets count). The buckets let the first 256 kB
                    pass at once, so a tensor of that order can exceed 1. Null on unshaped links.
  retransmissions   packets the workers sent again, warm-up not counted
  transport         what the workers came to use, udp or af_xdp; why is in workers[].transport.reason
  counters          what the aggregator counted over the whole run, by reason
  jobs[]            the same of each job (above: of the first), and, warm-up not counted:
    jct_ms          completion time: from its start until its last worker has its last result
    tor_share       share of the contributions (DATA packets of workers) summed in the ToR
    spill_share     share that the ToR passed on to the aggregator as they were
    preempted       partial sums that a more urgent chunk put out of their slot
    resent          packets the workers sent again
    home_packets    packets that came to the aggregator
A ToR that is rebooted forgets what it counted since the last look, just before. With --daemon-restarts
the aggregator's daemon is killed (SIGKILL) and started again: the data plane goes on without it.

With --quorum a result may lack workers. Each worker says who is in which elements, and compares them with the sum of those alone: int32 bit for bit, float32
within the bound of their quantisation; and all must have the same bits. An all-reduce then ends when the quorum has its result, and
    partial         all-reduces whose result lacks somebody
    missed_share    share of all workers' elements that are in no result
    lateness        how much later than a chunk's first contribution each worker's came at the aggregator: p50_ms, p99_ms (bounds), and
                    released_without, the chunks that were published without it

Small tensors are reduced in batches of at most 64 MB, without a pause between
iterations; fill-in and checks happen between batches. Faults are thrown per packet, at
each worker's port, each way. SIGINT and SIGTERM stop all in order; the exit code is 1.`,
		Flags: append([]cli.Flag{
			&cli.IntFlag{Name: "workers", Aliases: []string{"n"}, Value: 4, Usage: "worker processes, 1 to 64; with --racks, of each rack", Destination: &o.workers},
			&cli.IntFlag{Name: "racks", Value: 1, Usage: "`RACKS` with an aggregator each, under one at the root: without ToR and daemons", Destination: &o.racks},
			&cli.GenericFlag{Name: "size", Aliases: []string{"s"}, Value: &o.size, Usage: "`SIZE` of the tensor, like 40MB, 4kB, 1MiB"},
			&cli.GenericFlag{Name: "rate", Aliases: []string{"r"}, Value: &o.rate, Usage: "`RATE` of each worker's link, each way, like 500mbit, 1gbit, or unshaped"},
			&cli.GenericFlag{Name: "home-rate", Value: &o.homeRate, Usage: "`RATE` of the link towards the aggregator"},
			&cli.GenericFlag{Name: "loss", Value: &o.loss, Usage: "`PERCENT` of packets lost, like 0.1%"},
			&cli.GenericFlag{Name: "duplicate", Value: &o.duplicate, Usage: "`PERCENT` of packets doubled"},
			&cli.GenericFlag{Name: "reorder", Value: &o.reorder, Usage: "`PERCENT` of packets made late"},
			&cli.GenericFlag{Name: "ecn", Value: &o.ecn, Usage: "`PERCENT` of packets marked as having met congestion"},
			&cli.IntFlag{Name: "elements", Aliases: []string{"e"}, Value: 256, Usage: "elements a packet: a multiple of 32 up to 832", Destination: &o.elements},
			&cli.IntFlag{Name: "wire-bits", Value: wireBits32, Usage: "`BITS` of a packet for each element of a float32: 32 or 16", Destination: &o.wireBits},
			&cli.IntFlag{Name: "window", Aliases: []string{"w"}, Value: 255, Usage: "chunks a worker has in flight", Destination: &o.window},
			&cli.IntFlag{Name: "iterations", Aliases: []string{"i"}, Value: 10, Usage: "all-reduces that count", Destination: &o.iterations},
			&cli.IntFlag{Name: "warmup", Value: 2, Usage: "all-reduces before them", Destination: &o.warmup},
			&cli.StringFlag{Name: "tor", Value: string(rack.TorNone), Usage: "`KIND` of ToR: soft, none (a bridge) or bmv2", Destination: &o.tor},
			&cli.GenericFlag{Name: "tor-slots", Value: &o.torSlots, Usage: "`CHUNKS` that the ToR's memory holds, or all that can be in flight"},
			&cli.StringFlag{Name: "tor-partition", Value: partitionPrivate, Usage: "`HOW` jobs have the ToR's memory: private (equal parts) or shared", Destination: &o.torPartition},
			&cli.StringFlag{Name: "preempt", Value: switchOn, Usage: "`on` or off: whether in shared memory a more urgent chunk takes a slot", Destination: &o.preempt},
			&cli.IntFlag{Name: "tor-reboots", Usage: "how often the ToR is killed and started again while all-reducing", Destination: &o.torReboots},
			&cli.DurationFlag{Name: "tor-reboot-every", Value: 300 * time.Millisecond, Usage: "time between those", Destination: &o.torRebootEvery},
			&cli.IntFlag{Name: "appliances", Value: 1, Usage: "aggregators with a daemon each, up to 8; several are a cluster", Destination: &o.appliances},
			&cli.IntFlag{Name: "daemon-restarts", Usage: "how often the aggregator's daemon is killed and started again while all-reducing", Destination: &o.daemonRestarts},
			&cli.DurationFlag{Name: "daemon-restart-every", Value: 300 * time.Millisecond, Usage: "time between those", Destination: &o.daemonRestartEvery},
			&cli.GenericFlag{Name: "jobs", Value: &o.jobs, Usage: "`JOBS` at once: how many, or one's description, again for each"},
			&cli.BoolFlag{Name: "unicast", Usage: "publish a copy to each worker instead of one multicast packet", Destination: &o.unicast},
			&cli.StringFlag{Name: "dtype", Value: typeFloat32, Usage: "`TYPE` of the elements: float32 or int32", Destination: &o.dtype},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "of the tensors' contents", Destination: &o.seed},
			&cli.DurationFlag{Name: "min-rto", Usage: "least retransmission timeout (0: the worker's own)", Destination: &o.minRTO},
			&cli.DurationFlag{Name: "max-rto", Usage: "most retransmission timeout (0: the worker's own)", Destination: &o.maxRTO},
			&cli.DurationFlag{Name: "silence", Value: 10 * time.Second, Usage: "a worker gives up after so long without any result", Destination: &o.silence},
			&cli.DurationFlag{Name: "timeout", Value: 5 * time.Minute, Usage: "the run gives up after so long", EnvVars: []string{"SPILL_TIMEOUT"}, Destination: &o.timeout},
			&cli.StringFlag{Name: "transport", Value: string(worker.TransportAuto), Usage: "`HOW` workers move packets: auto, udp or af_xdp", Destination: &o.transport},
			&cli.DurationFlag{Name: "busy-poll", Usage: "how long workers look again and again for packets before they sleep (0: not at all)", Destination: &o.busyPoll},
			outputFlag(&o.output),
		}, o.quorumOptions.flags()...),
		Action: func(c *cli.Context) error { return run(c.Context, o, s) },
	}
}

// validate returns a usageError for what cannot be meant.
func (o *runOptions) validate() error {
	for _, limit := range []struct {
		name               string
		value, least, most int
	}{
		{"workers", o.workers, 1, rack.MaxWorkers},
		{"racks", o.racks, 1, rack.MaxRacks},
		{"elements", o.elements, wire.MinElements, wire.MaxElements},
		{"window", o.window, 1, engine.MaxWindow},
		{"iterations", o.iterations, 1, maxIterations},
		{"warmup", o.warmup, 0, maxIterations},
		{"tor-reboots", o.torReboots, 0, 1000},
		{"appliances", o.appliances, 1, rack.MaxAppliances},
		{"daemon-restarts", o.daemonRestarts, 0, 1000},
	} {
		if limit.value < limit.least || limit.value > limit.most {
			return usagef("run: --%s is %d, want %d to %d", limit.name, limit.value, limit.least, limit.most)
		}
	}
	if o.elements%wire.ElementStep != 0 {
		return usagef("run: --elements is %d, want a multiple of %d", o.elements, wire.ElementStep)
	}
	if o.size%elementSize != 0 || o.size/elementSize > maxTensor {
		return usagef("run: --size is %d bytes, want a multiple of %d up to %d", o.size, elementSize, maxTensor*elementSize)
	}
	if o.daemonRestartEvery <= 0 {
		return usagef("run: --daemon-restart-every is too short")
	}
	if err := o.checkRacks(); err != nil {
		return err
	}
	if err := o.checkTasks(); err != nil {
		return err
	}
	if err := o.checkTor(); err != nil {
		return err
	}
	for _, t := range o.tasks() {
		if err := o.quorumOptions.check(t.workers()); err != nil {
			return err
		}
	}
	if _, err := worker.ParseTransport(o.transport); err != nil {
		return usagef("run: --%v", err)
	}
	if o.busyPoll < 0 || o.busyPoll > worker.MaxBusyPoll {
		return usagef("run: --busy-poll is %s, want 0 to %s", o.busyPoll, worker.MaxBusyPoll)
	}
	if o.dtype != typeFloat32 && o.dtype != typeInt32 {
		return usagef("run: --dtype %q is neither %s nor %s", o.dtype, typeFloat32, typeInt32)
	}
	if o.wireBits != wireBits16 && o.wireBits != wireBits32 {
		return usagef("run: --wire-bits is %d, want %d or %d", o.wireBits, wireBits16, wireBits32)
	}
	if o.wireBits == wireBits16 && o.dtype != typeFloat32 {
		return usagef("run: --wire-bits %d is for %s: %s has 32 bits in any job", wireBits16, typeFloat32, o.dtype)
	}
	for name, d := range map[string]time.Duration{"min-rto": o.minRTO, "max-rto": o.maxRTO, "silence": o.silence - 1, "timeout": o.timeout - 1} {
		if d < 0 {
			return usagef("run: --%s is too short", name)
		}
	}
	config := o.rack(streams{})
	if err := config.Validate(); err != nil {
		return usagef("run: %v", err)
	}
	return checkOutput(o.output)
}

// rack is the configuration of the rack that the options ask for.
func (o *runOptions) rack(s streams) rack.Config {
	slots := xdp.DefaultSlots
	for class := range slots {
		slots[class] = max(slots[class], o.ring(o.window)*uint32(len(o.tasks())))
	}
	return rack.Config{
		Workers:    o.workers,
		Racks:      o.racks,
		Appliances: o.appliances,
		Elements:   o.elements,
		Rate:       uint64(o.rate),
		HomeRate:   uint64(o.homeRate),
		Slots:      slots,
		Faults:     o.faults(),
		Tor:        o.torConfig(s),
		Rings:      o.transport == string(worker.TransportAFXDP),
		Daemon:     daemonProcess(s),
	}
}

func (o *runOptions) faults() faults.Rates {
	return faults.Rates{
		Loss:      float64(o.loss),
		Duplicate: float64(o.duplicate),
		Reorder:   float64(o.reorder),
		ECN:       float64(o.ecn),
	}
}

// run measures and reports; wrong bits are an error after the report.
func run(ctx context.Context, o *runOptions, s streams) error {
	if err := o.validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done within %v (--timeout)", o.timeout))
	defer cancel()
	progress := newProgress(s.err)
	report, err := measure(ctx, o, s, progress)
	progress.Close()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return err
	}
	if err := report.write(s.out, o.output); err != nil {
		return err
	}
	if !report.Correct {
		w := report.Wrong[0]
		return fmt.Errorf("%d results have wrong bits, the first at rank %d of job %s, iteration %d, element %d",
			len(report.Wrong), w.Rank, w.Job, w.Iteration, w.Element)
	}
	return nil
}
