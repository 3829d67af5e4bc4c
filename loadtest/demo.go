package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/urfave/cli/v2"

	"spillway/loadtest/faults"
	"spillway/loadtest/quantity"
	"spillway/loadtest/rack"
	"spillway/loadtest/train"
)

// The demo's rack and job.
const (
	demoWorkers  = 4
	demoElements = 256           // E
	demoRate     = 1_000_000_000 // bit/s, of each worker's link
	demoSlots    = 32            // of the ToR: a quarter of what the workers have in flight
	demoAccuracy = 0.95          // of the test rows, at least
)

var demoJob = rack.Job{Name: "digits", Elements: demoElements, Window: 127}

// errDemo is the demo's own failure: it ran, and something it promises does not hold.
var errDemo = errors.New("the demo failed")

// demoOptions are what can be chosen.
type demoOptions struct {
	epochs, wireBits int
	loss             quantity.Probability
	streams
}

func demoCommand(s streams) *cli.Command {
	o := demoOptions{loss: 0.01, streams: s}
	return &cli.Command{
		Name:  "demo",
		Usage: "train a neural network on four worker processes that sum their gradients in a small ToR and the XDP aggregator behind it",
		Description: "Two acts on a rack of 1 Gbit/s links, without packet loss and with. The software ToR has memory for a quarter of\n" +
			"the chunks in flight; the rest spills over into the aggregator. Both acts must end with the weights\n" +
			"of a training run in this process alone, bit for bit. Needs root.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "epochs", Usage: "passes over the training rows", Value: train.Default(demoWorkers).Epochs, Destination: &o.epochs},
			&cli.IntFlag{Name: "wire-bits", Usage: "`BITS` of a packet for each element of a gradient: 32, or 16, which are half the traffic and coarser sums", Value: wireBits32, Destination: &o.wireBits},
			&cli.GenericFlag{Name: "loss", Usage: "probability that a packet of the second act is lost at a worker's port, each way", Value: &o.loss},
		},
		Action: func(c *cli.Context) error { return o.run(c.Context) },
	}
}

// run is the whole show.
func (o *demoOptions) run(ctx context.Context) error {
	config := train.Default(demoWorkers)
	config.Epochs, config.WireBits = o.epochs, o.wireBits
	if o.wireBits != wireBits16 && o.wireBits != wireBits32 {
		return usagef("demo: --wire-bits is %d, want %d or %d", o.wireBits, wireBits16, wireBits32)
	}
	if err := config.Validate(); err != nil {
		return &usageError{err.Error()}
	}
	acts := []demoAct{
		{name: "act 1: no loss", training: config, log: slog.Default()},
		{name: fmt.Sprintf("act 2: %s loss", &o.loss), training: config, faults: faults.Rates{Loss: float64(o.loss)}, log: slog.Default()},
	}
	for i := range acts {
		if err := rack.Preflight(acts[i].rackConfig(o.streams)); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.out, "A network of %d parameters learns handwritten digits on %d workers: synchronous SGD, %d epochs, batches of %d rows.\n\n",
		config.Parameters(), config.Workers, config.Epochs, config.Batch)
	want, err := o.reference(ctx, config)
	if err != nil {
		return err
	}
	if o.wireBits == wireBits16 {
		wide := config
		wide.WireBits = wireBits32
		if _, err := o.reference(ctx, wide); err != nil {
			return err
		}
	}
	verdict := demoVerdict{out: o.out, err: errDemo}
	for i := range acts {
		fmt.Fprintf(o.out, "\n%s\n", acts[i].name)
		result, err := acts[i].run(ctx, o.streams)
		if err != nil {
			return fmt.Errorf("%s: %w", acts[i].name, err)
		}
		result.print(o.out)
		verdict.judge(result, want)
	}
	return verdict.close()
}

// reference trains without workers and without a network.
func (o *demoOptions) reference(ctx context.Context, config train.Config) (train.Epoch, error) {
	fmt.Fprintf(o.err, "first the reference: the same training in this process, without a network and with a sum of its own ")
	began := time.Now()
	var last train.Epoch
	err := train.Reference(ctx, config, demoElements, func(e train.Epoch) error {
		last = e
		fmt.Fprint(o.err, ".")
		return nil
	})
	fmt.Fprintln(o.err)
	if err != nil {
		return train.Epoch{}, fmt.Errorf("reference run: %w", err)
	}
	name := "reference"
	if o.wireBits != wireBits32 {
		name = fmt.Sprintf("reference in %d bits", config.WireBits)
	}
	fmt.Fprintf(o.out, "%s: loss %.4f, test accuracy %.2f%%, weights %s (%.1f s)\n",
		name, last.Loss/float64(last.Rows), percent(last.TestCorrect, last.TestRows), short(last.Weights), time.Since(began).Seconds())
	return last, nil
}

// demoVerdict says of each act whether it kept its promises.
type demoVerdict struct {
	out    io.Writer
	err    error // what its failure is
	failed int
}

func (v *demoVerdict) judge(got *demoResult, want train.Epoch) {
	alike, weights := true, got.last[0].Weights
	for _, e := range got.last {
		alike = alike && e.Weights == weights
	}
	v.say(alike, "all %d workers end with bit-identical weights", len(got.last))
	v.say(alike && weights == want.Weights, "they are those of the reference, %s", short(want.Weights))
	accuracy := percent(got.last[0].TestCorrect, got.last[0].TestRows)
	v.say(accuracy >= 100*demoAccuracy, "test accuracy %.2f%%, at least %.0f%%", accuracy, 100*demoAccuracy)
}

func (v *demoVerdict) say(holds bool, format string, args ...any) {
	word := "PASS"
	if !holds {
		word = "FAIL"
		v.failed++
	}
	fmt.Fprintf(v.out, "  %s  %s\n", word, fmt.Sprintf(format, args...))
}

func (v *demoVerdict) close() error {
	if v.failed > 0 {
		return fmt.Errorf("%w: %d of its checks", v.err, v.failed)
	}
	return nil
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(whole) }

// short is enough of a hash for the eye.
func short(hash string) string { return hash[:min(len(hash), 16)] }
