package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"spillway/loadtest/quantity"
	"spillway/loadtest/rack"
	"spillway/wire"
	"spillway/worker/engine"
)

// maxRoundIterations of one system in one round: what a worker says of them must fit into a line.
const maxRoundIterations = 10_000

// compareOptions are the flags of `compare`.
type compareOptions struct {
	workers            []int
	sizes              []quantity.Size
	rates              []quantity.Rate
	systems            []string
	elements, window   int
	wireBits           int
	rounds, iterations int
	loss               quantity.Probability
	seed               uint64
	python             string
	timeout            time.Duration
	output, report     string
	files              string // directory of what peers need, for as long as it runs
	streams
}

func compareCommand(s streams) *cli.Command {
	o := &compareOptions{streams: s}
	return &cli.Command{
		Name:  "compare",
		Usage: "all-reduce the same tensors through Spillway, Gloo, Open MPI and a TCP parameter server, in turn, on the same links",
		Description: `Builds a rack and has every system all-reduce the same tensors on it: round by round, one
system after the other, so that what disturbs the machine disturbs all. Results are
checked at every worker: Spillway's bit for bit, the others' against a sum in float64.

  sudo spill-load compare                                   a few minutes
  sudo spill-load compare --workers 4,8 --sizes 4kB,40MB,160MB --rates 100mbit,1gbit,unshaped
  sudo spill-load compare --systems gloo,openmpi --rounds 5 --output json | jq .results
  sudo spill-load compare --report compare.html             a page with charts

The systems:
  spillway  this project's workers and aggregator
  gloo      torch.distributed's all_reduce with the backend gloo (on Debian 12: python3-torch, python3-numpy)
  openmpi   MPI_Allreduce of Open MPI, called from Python (openmpi-bin, python3-mpi4py, python3-numpy)
  tcp-ps    a parameter server over TCP, written for this comparison: sums and sends back, piece by piece,
            on a host of its own where the aggregator's is
One that is not installed is named with what to install; the others are compared, and the exit code is 1.

All run in the same namespaces on the same shaped links. While a peer's turn lasts, the
links have the offloads that hosts have for TCP; for Spillway those of a rack.

  p50_ms              time of an all-reduce, from the first worker's begin to the slowest one's end:
                      the median over a round's iterations, and of that the median over the rounds
  rounds_ms           the rounds' medians
  algbw_gbps          bits of the tensor / p50
  ratio_to_best_peer  time of the fastest peer / this system's, within a round; the median over the rounds
  ratio_to            the same to each other system by name
  wire_share          ideal / p50. Ideal is what the system must send over a worker's link at least, at the
                      link's rate with all headers: Spillway and the parameter server the tensor once, the
                      others 2·(n-1)/n of it. Null on unshaped links.

--loss loses Spillway's packets at the workers' ports; TCP is left alone.`,
		Flags: []cli.Flag{
			&cli.IntSliceFlag{Name: "workers", Aliases: []string{"n"}, Value: cli.NewIntSlice(4), Usage: "worker processes, 2 to 64, several with commas"},
			&cli.StringSliceFlag{Name: "sizes", Aliases: []string{"s"}, Value: cli.NewStringSlice("4kB", "1MB", "40MB"), Usage: "`SIZES` of the tensors, with commas"},
			&cli.StringSliceFlag{Name: "rates", Aliases: []string{"r"}, Value: cli.NewStringSlice("500mbit", "unshaped"), Usage: "`RATES` of each worker's link, each way, with commas"},
			&cli.StringSliceFlag{Name: "systems", Value: cli.NewStringSlice(systemGloo, systemOpenMPI, systemServer), Usage: "`NAMES` of those that Spillway is compared with, with commas"},
			&cli.IntFlag{Name: "elements", Aliases: []string{"e"}, Value: 256, Usage: "elements a packet of Spillway: a multiple of 32 up to 832", Destination: &o.elements},
			&cli.IntFlag{Name: "window", Aliases: []string{"w"}, Value: 255, Usage: "chunks a worker of Spillway has in flight", Destination: &o.window},
			&cli.IntFlag{Name: "wire-bits", Value: wireBits32, Usage: "`BITS` of a packet of Spillway for each element: 32, or 16, which are half the traffic and coarser sums", Destination: &o.wireBits},
			&cli.IntFlag{Name: "rounds", Value: 3, Usage: "turns of every system", Destination: &o.rounds},
			&cli.IntFlag{Name: "iterations", Aliases: []string{"i"}, Usage: "all-reduces that count in a turn (0: by size, 3 to 200)", Destination: &o.iterations},
			&cli.GenericFlag{Name: "loss", Value: &o.loss, Usage: "`PERCENT` of Spillway's packets lost, like 1%"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "of the tensors' contents", Destination: &o.seed},
			&cli.StringFlag{Name: "python", Value: "/usr/bin/python3", Usage: "the `PROGRAM` that has torch and mpi4py", Destination: &o.python},
			&cli.StringFlag{Name: "report", Usage: "write a page with charts to this `FILE`", Destination: &o.report},
			&cli.DurationFlag{Name: "timeout", Value: time.Hour, Usage: "gives up after so long", EnvVars: []string{"SPILL_TIMEOUT"}, Destination: &o.timeout},
			outputFlag(&o.output),
		},
		Action: func(c *cli.Context) error {
			if err := o.parse(c); err != nil {
				return err
			}
			return o.run(c.Context)
		},
	}
}

// parse reads the lists.
func (o *compareOptions) parse(c *cli.Context) (err error) {
	o.workers = c.IntSlice("workers")
	for _, text := range c.StringSlice("sizes") {
		size, err := quantity.ParseSize(text)
		if err != nil {
			return usagef("compare: --sizes: %v", err)
		}
		o.sizes = append(o.sizes, size)
	}
	for _, text := range c.StringSlice("rates") {
		rate, err := quantity.ParseRate(text)
		if err != nil {
			return usagef("compare: --rates: %v", err)
		}
		o.rates = append(o.rates, rate)
	}
	if o.systems, err = parseSystems(c.StringSlice("systems")); err != nil {
		return err
	}
	return o.validate()
}

// validate returns a usageError for what cannot be meant.
func (o *compareOptions) validate() error {
	type limit struct {
		name               string
		value, least, most int
	}
	limits := []limit{
		{"elements", o.elements, wire.MinElements, wire.MaxElements},
		{"window", o.window, 1, engine.MaxWindow},
		{"rounds", o.rounds, 1, 1000},
		{"iterations", o.iterations, 0, maxRoundIterations},
	}
	for _, n := range o.workers {
		limits = append(limits, limit{"workers", n, 2, rack.MaxWorkers})
	}
	for _, l := range limits {
		if l.value < l.least || l.value > l.most {
			return usagef("compare: --%s is %d, want %d to %d", l.name, l.value, l.least, l.most)
		}
	}
	if o.elements%wire.ElementStep != 0 {
		return usagef("compare: --elements is %d, want a multiple of %d", o.elements, wire.ElementStep)
	}
	if o.wireBits != wireBits16 && o.wireBits != wireBits32 {
		return usagef("compare: --wire-bits is %d, want %d or %d", o.wireBits, wireBits16, wireBits32)
	}
	for _, size := range o.sizes {
		if size%elementSize != 0 || size/elementSize > maxTensor {
			return usagef("compare: --sizes has %d bytes, want multiples of %d up to %d", size, elementSize, maxTensor*elementSize)
		}
	}
	if len(o.workers) == 0 || len(o.sizes) == 0 || len(o.rates) == 0 {
		return usagef("compare: --workers, --sizes and --rates each need something")
	}
	if o.timeout <= 0 {
		return usagef("compare: --timeout is too short")
	}
	if o.report != "" {
		if directory, err := os.Stat(filepath.Dir(o.report)); err != nil || !directory.IsDir() {
			return usagef("compare: --report is %q, in a directory that is not there", o.report)
		}
	}
	for _, p := range o.places() {
		config := o.rack(p)
		if err := config.Validate(); err != nil {
			return usagef("compare: %v", err)
		}
	}
	return checkOutput(o.output)
}

// A place is a rack that is measured on.
type place struct {
	workers int
	rate    quantity.Rate
}

// places are all of them.
func (o *compareOptions) places() []place {
	var all []place
	for _, workers := range o.workers {
		for _, rate := range o.rates {
			all = append(all, place{workers, rate})
		}
	}
	return all
}

// spillway is what Spillway does at a place with tensors of a size, as `run` would. Jobs and contents differ by the number of the size.
func (o *compareOptions) spillway(p place, size quantity.Size) *runOptions {
	iterations := o.iterations
	if iterations == 0 {
		iterations = int(min(max(40_000_000/int64(size), 3), 200))
	}
	return &runOptions{
		workers: p.workers, size: size, rate: p.rate, loss: o.loss, elements: o.elements, window: o.window, wireBits: o.wireBits,
		iterations: iterations, warmup: max(1, iterations/10),
		tor: string(rack.TorNone), torPartition: partitionPrivate, preempt: switchOn,
		dtype: typeFloat32, seed: o.seed, silence: 10 * time.Second,
	}
}

// rack is the configuration of a place's rack.
func (o *compareOptions) rack(p place) rack.Config {
	config := o.spillway(p, o.sizes[0]).rack(o.streams)
	config.Server = true
	return config
}

// run measures and reports. Wrong results and systems that are missing are an error after the report.
func (o *compareOptions) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done within %v (--timeout)", o.timeout))
	defer cancel()
	if o.files, err = os.MkdirTemp("", "spill-load-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.files)) }()
	if err := rack.Preflight(o.rack(o.places()[0])); err != nil {
		return err
	}
	report, err := o.newCompareReport(ctx)
	if err != nil {
		return err
	}
	progress := newProgress(o.err)
	for _, p := range o.places() {
		if err = o.measure(ctx, p, report, progress); err != nil {
			err = fmt.Errorf("%d workers, %s: %w", p.workers, &p.rate, err)
			break
		}
	}
	progress.Close()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return err
	}
	if o.report != "" {
		if err := report.writePage(o.report); err != nil {
			return err
		}
		fmt.Fprintf(o.err, "wrote %s\n", o.report)
	}
	if err := report.write(o.out, o.output); err != nil {
		return err
	}
	if n := len(report.Wrong); n > 0 {
		w := report.Wrong[0]
		return fmt.Errorf("%d results are wrong, the first of %s at rank %d, iteration %d, element %d", n, w.System, w.Rank, w.Iteration, w.Element)
	}
	if len(report.Missing) > 0 {
		var names []string
		for _, m := range report.Missing {
			names = append(names, m.System)
		}
		return fmt.Errorf("not compared with %s, which this machine does not have; --systems says whom to compare with", strings.Join(names, " and "))
	}
	return nil
}
