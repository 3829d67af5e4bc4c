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
		Name:  "spill-tor",
		Usage: "the software ToR: sums gradients in the network, programmed over P4Runtime",
		Description: `spill-tor puts Spillway's pipeline on the interfaces of its network namespace,
as an XDP program, and serves P4Runtime for it, so that a controller drives it
as it drives a Tofino. Its memory can be made as small as you like.

Its tables are empty when it starts. When it ends, however it ends, its
programs leave the interfaces.

  spill-tor check tor.json          is this configuration right?
  spill-tor run --config tor.json   until a signal comes

A configuration:

  {"listen": "127.0.0.1:9559", "device_id": 1, "slots": 64, "elements": 32,
   "ports": [{"port": 1, "interface": "eth1"}, {"port": 2, "interface": "eth2"}]}

Exit codes: 0 done; 1 failure; 2 a command line that cannot be meant; 4 a file
or an interface that is not there; 5 the address to listen on is in use.`,
		Commands:             []*cli.Command{runCommand(s), checkCommand(s), versionCommand(s)},
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
		command.HideHelpCommand = true
		if command.Before == nil {
			command.Before = refuseArguments
		}
	}
	return app
}

func onUsageError(_ *cli.Context, err error, _ bool) error {
	return &usageError{err.Error()}
}

// refuseArguments rejects positional arguments. The library would silently treat flags after the first one as arguments as well.
func refuseArguments(c *cli.Context) error {
	if c.Args().Present() {
		return usagef("%s: unexpected argument %q", c.Command.Name, c.Args().First())
	}
	return nil
}

// outputFlag is how a command that reports is told in which form.
func outputFlag(value *string) cli.Flag {
	return &cli.StringFlag{
		Name: "output", Aliases: []string{"o"}, Usage: "`FORM` of the report: table or json", Value: outputTable,
		EnvVars: []string{"SPILL_OUTPUT"}, Destination: value,
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
