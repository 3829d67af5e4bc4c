package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"spillway/loadtest/quantity"
	"spillway/loadtest/rack"
)

// What a training run through Spillway promises beside one through gloo.
const (
	torchSpreads   = 4     // the loss of every epoch is gloo's within so many times the spread of gloo's own, see docs/pytorch.md
	torchLossBound = 0.01  // relative: a spread that allows more says nothing
	torchAccuracy  = 0.005 // of the test rows' share, after the last epoch
)

// torchOrders is how many times gloo trains, each time with its sums in another order.
const torchOrders = 3

// errTorch is the command's own failure: it ran, and something it promises does not hold.
var errTorch = errors.New("the training in PyTorch failed")

// torchOptions are the flags of `torch`.
type torchOptions struct {
	place             torchPlace
	workers           int
	elements, window  int
	rate              quantity.Rate
	loss              quantity.Probability
	epochs            int
	through           string
	step              bool
	parameters, steps int
	straggler         time.Duration
	output            string
	streams
}

func torchCommand(s streams) *cli.Command {
	o := &torchOptions{rate: 500_000_000, streams: s}
	return &cli.Command{
		Name:  "torch",
		Usage: "train in PyTorch with DistributedDataParallel through Spillway, and through gloo beside it",
		Description: `Builds a rack, and has torchrun start a rank in each worker's namespace.

Without --step a small convolutional network learns handwritten digits (worker/python/examples/digits.py): twice through
Spillway, which must give the same weights at all ranks and in both runs, bit for bit, and three times through gloo, each time with the
rows dealt to other ranks, so that gloo rounds its sums in another order. The losses through Spillway must be as near to gloo's as gloo's are
to each other, within a factor of 4 (docs/pytorch.md says why), and the test accuracy within 0.5 points.

With --step the averages and the steps of a large model on random data are timed (examples/step.py), through Spillway and
through gloo: the median over the steps of the slowest rank's time.

--loss is for both: each packet of UDP and of TCP meets the dice by itself, on both sides of each worker's port.

It needs torch and NumPy for Python (on Debian 12: python3-torch, python3-numpy), the library (make lib) and root.`,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "workers", Aliases: []string{"n"}, Value: 4, Usage: "ranks, 3 to 64; 2 are enough with --step", Destination: &o.workers},
			&cli.GenericFlag{Name: "rate", Aliases: []string{"r"}, Value: &o.rate, Usage: "`RATE` of each worker's link, each way, like 500mbit, 1gbit, or unshaped"},
			&cli.GenericFlag{Name: "loss", Value: &o.loss, Usage: "`PERCENT` of packets lost at a worker's port, each way, like 1%"},
			&cli.IntFlag{Name: "elements", Aliases: []string{"e"}, Value: 256, Usage: "elements a packet: a multiple of 32 up to 832", Destination: &o.elements},
			&cli.IntFlag{Name: "window", Aliases: []string{"w"}, Value: 255, Usage: "chunks a worker has in flight", Destination: &o.window},
			&cli.IntFlag{Name: "epochs", Value: 10, Usage: "passes over the training rows", Destination: &o.epochs},
			&cli.StringFlag{Name: "through", Value: torchHook, Usage: "`HOW` Spillway is used: hook (of DistributedDataParallel) or backend (of torch.distributed)", Destination: &o.through},
			&cli.BoolFlag{Name: "step", Usage: "time steps of a large model", Destination: &o.step},
			&cli.IntFlag{Name: "parameters", Value: 25_600_000, Usage: "of the large model", Destination: &o.parameters},
			&cli.IntFlag{Name: "steps", Value: 5, Usage: "that are timed", Destination: &o.steps},
			&cli.DurationFlag{Name: "straggler", Usage: "`TIME` for which the last rank pauses before each step that is timed", Destination: &o.straggler},
			&cli.StringFlag{Name: "python", Value: "/usr/bin/python3", Usage: "the `PROGRAM` that has torch", Destination: &o.place.python},
			&cli.StringFlag{Name: "packages", Value: "worker/python", Usage: "the `DIRECTORY` with the package spillway and its examples", Destination: &o.place.packages},
			&cli.StringFlag{Name: "library", Value: "bin/libspillway.so.1", Usage: "the `FILE` of the C library, which make lib makes", EnvVars: []string{"SPILLWAY_LIBRARY"}, Destination: &o.place.library},
			outputFlag(&o.output),
		},
		Action: func(c *cli.Context) error { return o.run(c.Context) },
	}
}

// Ways of averaging gradients, as the scripts call them.
const (
	torchHook    = "hook"
	torchBackend = "backend"
	torchGloo    = "gloo"
)

func (o *torchOptions) validate() error {
	switch {
	case o.workers < 2 || o.workers > rack.MaxWorkers:
		return usagef("%d workers: want 2 to %d", o.workers, rack.MaxWorkers)
	case o.workers == 2 && !o.step:
		return usagef("2 workers: want 3 at least to compare trainings, for the order of two addends changes nothing of their sum; 2 are enough with --step")
	case o.epochs < 1 || o.steps < 1 || o.parameters < 1000:
		return usagef("%d epochs, %d steps, %d parameters: want at least 1, 1 and 1000", o.epochs, o.steps, o.parameters)
	case o.through != torchHook && o.through != torchBackend:
		return usagef("through %q is neither %s nor %s", o.through, torchHook, torchBackend)
	case o.straggler < 0 || o.straggler > 0 && !o.step:
		return usagef("a straggler of %s: want a time, with --step", o.straggler)
	}
	return checkOutput(o.output)
}

func (o *torchOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	for _, path := range []*string{&o.place.packages, &o.place.library} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	if err := rack.Preflight(o.rack()); err != nil {
		return err
	}
	if err := o.place.check(ctx); err != nil {
		return err
	}
	if o.step {
		return o.time(ctx)
	}
	return o.train(ctx)
}

// rack is what a run is on, whoever averages.
func (o *torchOptions) rack() rack.Config {
	return torchRack(o.streams, o.workers, o.elements, uint64(o.rate), float64(o.loss))
}

// script is a run of an example.
func (o *torchOptions) script(name, through string, args ...string) *torchRun {
	return &torchRun{
		place: o.place, script: "examples/" + name, args: append([]string{"--through", through}, args...),
		rack: o.rack(), job: rack.Job{Name: "torch", Elements: o.elements, Window: o.window},
	}
}

// torchEpoch is what a rank reports of an epoch.
type torchEpoch struct {
	Epoch   int     `json:"epoch"`
	Loss    float64 `json:"loss"` // over all ranks' rows
	Test    float64 `json:"test"` // share of the test rows
	Seconds float64 `json:"seconds"`
	Weights string  `json:"weights"`
}

// torchTraining is what is left of a run.
type torchTraining struct {
	Through string       `json:"through"`
	Order   int          `json:"order"`   // by how many ranks the rows are dealt further
	Epochs  []torchEpoch `json:"epochs"`  // rank 0's
	Weights []string     `json:"weights"` // of each rank, at the end
}

// batch is how many rows a step takes: 64, or a few more, so that all ranks have as many.
func (o *torchOptions) batch() int { return (64 + o.workers - 1) / o.workers * o.workers }

// digits trains once, with the rows dealt by so many ranks further.
func (o *torchOptions) digits(ctx context.Context, through string, order int) (*torchTraining, error) {
	fmt.Fprintf(o.err, "training through %s, the rows dealt by %d ranks further\n", through, order)
	result := &torchTraining{Through: through, Order: order, Weights: make([]string, o.workers)}
	run := o.script("digits.py", through, "--data", digitsArgument, "--epochs", fmt.Sprint(o.epochs), "--batch", fmt.Sprint(o.batch()), "--order", fmt.Sprint(order), "--json")
	err := run.run(ctx, o.streams, func(rank int, text []byte) error {
		var epoch torchEpoch
		if err := json.Unmarshal(text, &epoch); err != nil {
			return fmt.Errorf("rank %d said %q: %w", rank, text, err)
		}
		result.Weights[rank] = epoch.Weights // ranks have places of their own
		if rank == 0 {
			result.Epochs = append(result.Epochs, epoch)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("training through %s: %w", through, err)
	}
	if len(result.Epochs) != o.epochs {
		return nil, fmt.Errorf("training through %s: rank 0 reported %d epochs of %d", through, len(result.Epochs), o.epochs)
	}
	return result, nil
}

// train is the comparison of trainings: two through Spillway, and those through gloo.
func (o *torchOptions) train(ctx context.Context) error {
	var runs []*torchTraining
	for range 2 {
		run, err := o.digits(ctx, o.through, 0)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	for order := range torchOrders {
		run, err := o.digits(ctx, torchGloo, order)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	if o.output == outputJSON {
		if err := json.NewEncoder(o.out).Encode(runs); err != nil {
			return err
		}
		return judgeTorch(&demoVerdict{out: o.err, err: errTorch}, runs[0], runs[1], runs[2:])
	}
	fmt.Fprintf(o.out, "%d ranks, links of %s, %s of packets lost; through Spillway (%s) and through gloo\n\n", o.workers, &o.rate, &o.loss, o.through)
	fmt.Fprintln(o.out, "  epoch  loss: Spillway       gloo  apart  gloo's spread    test: Spillway     gloo   seconds: Spillway   gloo")
	for i, ours := range runs[0].Epochs {
		theirs := runs[2].Epochs[i]
		fmt.Fprintf(o.out, "  %5d %15.6f %10.6f %6.0e %14.0e %16.2f%% %7.2f%% %19.2f %6.2f\n", ours.Epoch, ours.Loss, theirs.Loss,
			apart(ours, theirs), spread(runs[2:], i), 100*ours.Test, 100*theirs.Test, ours.Seconds, theirs.Seconds)
	}
	return judgeTorch(&demoVerdict{out: o.out, err: errTorch}, runs[0], runs[1], runs[2:])
}

// apart is the difference of two losses, relative to the second.
func apart(a, b torchEpoch) float64 { return math.Abs(a.Loss-b.Loss) / b.Loss }

// spread is how far any two runs' losses of an epoch are apart, at most.
func spread(runs []*torchTraining, epoch int) (most float64) {
	for i, a := range runs {
		for _, b := range runs[:i] {
			most = max(most, apart(a.Epochs[epoch], b.Epochs[epoch]))
		}
	}
	return most
}

// judgeTorch says whether the runs, two through Spillway and those through gloo, keep the promises.
func judgeTorch(verdict *demoVerdict, ours, again *torchTraining, gloo []*torchTraining) error {
	theirs := gloo[0]
	alike, repeated := true, true
	for rank, weights := range ours.Weights {
		alike = alike && weights == ours.Weights[0]
		repeated = repeated && weights == again.Weights[rank]
	}
	worst, own := 0.0, 0.0
	for i, epoch := range ours.Epochs {
		repeated = repeated && epoch.Loss == again.Epochs[i].Loss && epoch.Weights == again.Epochs[i].Weights
		worst, own = max(worst, apart(epoch, theirs.Epochs[i])), max(own, spread(gloo, i))
	}
	last := len(ours.Epochs) - 1
	accuracy := math.Abs(ours.Epochs[last].Test - theirs.Epochs[last].Test)
	verdict.say(alike, "all %d ranks end with bit-identical weights, %s", len(ours.Weights), short(ours.Weights[0]))
	verdict.say(repeated, "the second run gives the same losses and weights, bit for bit")
	verdict.say(worst <= torchSpreads*own && torchSpreads*own <= torchLossBound,
		"the loss of every epoch is gloo's within %.2g%%; at most %.2g%%, %d times what gloo's own %d orders of summing are apart, and that at most %g%%",
		100*worst, 100*torchSpreads*own, torchSpreads, len(gloo), 100*torchLossBound)
	verdict.say(accuracy <= torchAccuracy, "the test accuracy is gloo's within %.2f points, at most %g", 100*accuracy, 100*torchAccuracy)
	return verdict.close()
}
