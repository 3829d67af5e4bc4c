package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// usageError is a command line that cannot be meant: exit code 2.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// newApp is the command line. Commands are made by the files that are named after them.
func newApp(s streams) *cli.App {
	app := &cli.App{
		Name:  "spill-load",
		Usage: "run and measure all-reduces on a rack of network namespaces",
		Description: `spill-load builds a rack out of network namespaces: n workers and an
aggregator host on a bridge or a ToR, links as fast and as faulty as you say. It
starts real worker processes, sums their tensors in the ToR and the XDP aggregator,
checks every bit of every result at every worker, and says how long it took.

It needs root, changes nothing outside its own namespaces, and leaves nothing
behind, however it ends.

  sudo spill-load run                                    a first look
  sudo spill-load run --size 4kB --iterations 1000       latency of small messages
  sudo spill-load run --rate 500mbit --loss 1%           what loss costs
  sudo spill-load run --tor soft --tor-slots 32          a ToR with little memory
  sudo spill-load bench                                  the aggregator alone, a packet
  sudo spill-load demo                                   a training job, without loss and with
  sudo spill-load chaos switch-reboot                    kill the ToR again and again, and see
  sudo spill-load compare                                Gloo, Open MPI and a parameter server on the same links
  sudo spill-load torch                                  a training job in PyTorch, and gloo beside it

Exit codes: 0 done and every bit right; 1 failure, a wrong bit, or interrupted
by a signal; 2 a command line that cannot be meant.`,
		Commands: []*cli.Command{
			runCommand(s),
			benchCommand(s),
			demoCommand(s),
			torchCommand(s),
			compareCommand(s),
			chaosCommand(s),
			benchmarksCommand(s),
			workerCommand(s),
			torCommand(s),
			daemonCommand(s),
			chaosWorkerCommand(s),
			demoWorkerCommand(s),
			peerServerCommand(s),
			peerWorkerCommand(s),
		},
		Reader:               s.in,
		Writer:               s.out,
		ErrWriter:            s.err,
		HideVersion:          true,
		EnableBashCompletion: true,
		// Codes are given once, in execute.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   onUsageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("there is no command %q", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	for _, command := range app.Commands {
		command.OnUsageError = onUsageError
		if command.Before == nil {
			command.Before = refuseArguments
		}
		command.HideHelpCommand = true
	}
	return app
}

func onUsageError(_ *cli.Context, err error, _ bool) error {
	return &usageError{err.Error()}
}

// refuseArguments rejects positional arguments, which no command takes. The library would
// silently treat flags after the first one as arguments as well.
func refuseArguments(c *cli.Context) error {
	if c.Args().Present() {
		return usagef("%s: unexpected argument %q (commands take only flags)", c.Command.Name, c.Args().First())
	}
	return nil
}

// outputFlag is how a command that reports is told in which form.
func outputFlag(value *string) cli.Flag {
	return &cli.StringFlag{
		Name:        "output",
		Aliases:     []string{"o"},
		Usage:       "`FORM` of the report: table or json",
		Value:       outputTable,
		EnvVars:     []string{"SPILL_OUTPUT"},
		Destination: value,
	}
}

// The forms of a report.
const (
	outputTable = "table"
	outputJSON  = "json"
)

func checkOutput(value string) error {
	if value != outputTable && value != outputJSON {
		return usagef("output %q is neither %s nor %s", value, outputTable, outputJSON)
	}
	return nil
}
