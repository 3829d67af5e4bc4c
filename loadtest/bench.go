package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"spillway/loadtest/rack"
	"spillway/wire"
	"spillway/xdp"
)

// benchOptions are the flags of `bench`.
type benchOptions struct {
	elements []int
	rounds   int
	tor      bool
	drops    bool
	output   string
}

// benchCommand is `spill-load bench`.
func benchCommand(s streams) *cli.Command {
	o := &benchOptions{}
	return &cli.Command{
		Name:  "bench",
		Usage: "measure the aggregator's program and the worker's conversions alone, on one core",
		Description: `Runs the compiled XDP program over packets in the kernel, without a network, and
beside it a bare byte-swap-and-add loop over the same elements.

  sudo spill-load bench
  sudo spill-load bench --elements 256 --rounds 21 --output json
  sudo spill-load bench --tor

  merge_ns      a contribution that is merged, the full path
  publish_ns    the last contribution of a chunk, which becomes the RESULT
  bare_ns       the bare loop
  merge_ratio, publish_ratio   medians of their ratios to it within a round
  payload_gbps  10^9 bits of elements a second that one core takes in at merge_ns

  exponent_ns, quantise_ns, dequantise_ns   what a worker does to a chunk of float32
  quantise16_ns, dequantise16_ns            the same in 16 bits an element
  conversion_gbps   10^9 bits of elements a second that one core converts out and back

With --tor, a DATA packet in the software ToR:
  claim_ns, merge_ns, complete_ns   it takes a free slot, is added, is the last one and becomes the RESULT
  preempt_ns, spill_ns              it puts a less urgent chunk out of the slot, or goes on to its home
  resend_ns                         a RESEND that takes along what is in the slot

With --drops, what a packet costs that is dropped, at both levels, by the reason that it is counted under.`,
		Flags: []cli.Flag{
			&cli.IntSliceFlag{Name: "elements", Aliases: []string{"e"}, Value: cli.NewIntSlice(32, 64, 256, 832), Usage: "elements a packet, several with commas"},
			&cli.BoolFlag{Name: "tor", Usage: "the software ToR's program instead", Destination: &o.tor},
			&cli.BoolFlag{Name: "drops", Usage: "packets that are dropped instead", Destination: &o.drops},
			&cli.IntFlag{Name: "rounds", Value: 11, Usage: "rounds to take the median of", Destination: &o.rounds},
			outputFlag(&o.output),
		},
		Action: func(c *cli.Context) error {
			o.elements = c.IntSlice("elements")
			return bench(c.Context, o, s)
		},
	}
}

func (o *benchOptions) validate() error {
	for _, e := range o.elements {
		if e < wire.MinElements || e > wire.MaxElements || e%wire.ElementStep != 0 {
			return usagef("bench: --elements has %d, want multiples of %d from %d to %d", e, wire.ElementStep, wire.MinElements, wire.MaxElements)
		}
	}
	if o.rounds < 1 || o.rounds > 1000 {
		return usagef("bench: --rounds is %d, want 1 to 1000", o.rounds)
	}
	if o.tor && o.drops {
		return usagef("bench: --tor and --drops: want one of them; --drops measures both levels")
	}
	return checkOutput(o.output)
}

func bench(ctx context.Context, o *benchOptions, s streams) error {
	if err := o.validate(); err != nil {
		return err
	}
	if err := rack.Preflight(rack.Config{Workers: 1}); err != nil {
		return err
	}
	progress := newProgress(s.err)
	advance := func() error {
		progress.Advance(1)
		return context.Cause(ctx)
	}
	if o.drops {
		progress.Step("measuring what is dropped", 2)
		results, err := o.benchDrops(advance)
		progress.Close()
		if err != nil {
			return err
		}
		if o.output == outputJSON {
			return writeJSON(s.out, results)
		}
		return writeDropBench(s.out, results)
	}
	if o.tor {
		progress.Step("measuring the software ToR", len(o.elements))
		results, err := o.benchTor(advance)
		progress.Close()
		if err != nil {
			return err
		}
		if o.output == outputJSON {
			return writeJSON(s.out, results)
		}
		return writeTorBench(s.out, results)
	}
	progress.Step("measuring the aggregator", len(o.elements))
	results, err := o.benchAggregator(advance)
	progress.Close()
	if err != nil {
		return err
	}
	if o.output == outputJSON {
		return writeJSON(s.out, results)
	}
	return writeBench(s.out, results)
}

// benchAggregator measures the aggregator's program and the worker's conversions at one E after the other.
func (o *benchOptions) benchAggregator(done func() error) (results []benchResult, err error) {
	for _, e := range o.elements {
		r, err := xdp.RunBench([]int{e}, o.rounds)
		if err != nil {
			return nil, err
		}
		results = append(results, benchResult{r[0], benchConversion(e, o.rounds)})
		if err := done(); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// benchResult is the cost of one chunk in the aggregator and in the worker.
type benchResult struct {
	xdp.BenchResult
	conversion
}

func writeBench(w io.Writer, results []benchResult) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "elements\tmerge ns\tpublish ns\tbare ns\tmerge/bare\tpublish/bare\tpayload Gbit/s\texponent ns\tquantise ns\tdequantise ns\t")
	for _, r := range results {
		fmt.Fprintf(t, "%d\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t%.1f\t%.0f\t%.0f\t%.0f\t\n", r.Elements, r.MergeNS, r.PublishNS, r.BareNS,
			r.MergeRatio, r.PublishRatio, r.PayloadGbps, r.ExponentNS, r.QuantiseNS, r.DequantiseNS)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
