package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"spillway/loadtest/quantity"
	"spillway/wire"
	"spillway/worker/engine"
)

// quorumOptions are the flags of `run` about stragglers.
type quorumOptions struct {
	quorum, maxLag int
	after          time.Duration
	straggler      time.Duration
	chance         quantity.Probability
}

// defaultLag is what the appliance chooses where nothing is said: six windows.
const defaultLag = 6

func (o *quorumOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "quorum", Usage: "release sums of `K` workers without the others (0: wait for all)", Destination: &o.quorum},
		&cli.DurationFlag{Name: "after", Usage: "with --quorum: after so long (0: the appliance's choice, 50ms)", Destination: &o.after},
		&cli.IntFlag{Name: "max-lag", Usage: "with --quorum: by how many `CHUNKS` more than a window a worker may be behind (0: the appliance's choice, six windows)",
			Destination: &o.maxLag},
		&cli.DurationFlag{Name: "straggler", Usage: "each job's last worker pauses so long before an all-reduce, unless the job's description says", Destination: &o.straggler},
		&cli.GenericFlag{Name: "straggler-chance", Value: &o.chance, Usage: "`PERCENT` of the all-reduces before which it does, at random by --seed (default: of all)"},
	}
}

func (o *quorumOptions) check(workers int) error {
	switch {
	case o.quorum < 0 || o.quorum != 0 && o.quorum >= workers:
		return usagef("run: --quorum is %d, want 1 to one less than the workers, or 0 to wait for all", o.quorum)
	case o.quorum == 0 && (o.after != 0 || o.maxLag != 0):
		return usagef("run: --after and --max-lag are of a job with a quorum: say --quorum too")
	case o.after < 0:
		return usagef("run: --after is %v", o.after)
	case o.maxLag < 0 || o.maxLag > engine.MaxWindow:
		return usagef("run: --max-lag is %d, want 0 to %d", o.maxLag, engine.MaxWindow)
	case o.straggler < 0 || o.straggler > time.Hour:
		return usagef("run: --straggler is %v", o.straggler)
	case o.chance != 0 && o.straggler == 0:
		return usagef("run: --straggler-chance is of a straggler: say --straggler too")
	}
	return nil
}

// ring is how many slots of the aggregator a job takes.
func (o *quorumOptions) ring(window int) uint32 {
	if o.quorum == 0 {
		return wire.RingSize(window)
	}
	lag := o.maxLag
	if lag == 0 {
		lag = min(defaultLag*window, engine.MaxWindow)
	}
	return wire.RingSizeWithLag(window, lag)
}
