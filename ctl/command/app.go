// Package command is the command line of spillctl: its commands, a file each, what they print, and the exit codes.
package command

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"
)

// Streams are what a command reads and writes: data on Out, messages on Err.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs the command line of the process and returns the exit code.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Execute(ctx, os.Args, Streams{os.Stdin, os.Stdout, os.Stderr})
}

const description = `spillctl asks spillwayd, the daemon on an aggregator host, over its Unix socket
or over TCP with an operator's certificate.

  spillctl status                               what the appliance is and has
  spillctl job create train --workers 8         admit a job of 8 ranks
  spillctl jobs                                 all jobs, and what they wait for
  spillctl workers train                        who is there, who is late
  spillctl slots train                          which chunks wait, since when, for whom
  spillctl top                                  all of it, live
  spillctl doctor                               why does nothing move?
  spillctl nodes                                the appliances of a cluster, and who leads
  spillctl drain rack7-a                        move all jobs away from one of them
  spillctl events -f                            what happens
  spillctl jobs --output json | jq '.jobs[].spec.name'

Data goes to stdout, messages to stderr. Options may stand anywhere on the line;
what follows a lone -- is no option.

Exit codes: 0 done; 1 failure; 2 a command line that cannot be meant; 3 no
appliance answers; 4 there is no such job or thing; 5 a conflict, or the
appliance refuses: it does not fit, is in use, or is not allowed.`

// New is the app, for those who make man pages and completions of it too.
func New(s Streams) *cli.App {
	app, _ := newApp(s)
	return app
}

func newApp(s Streams) (*cli.App, *global) {
	g := &global{Streams: s}
	app := &cli.App{
		Name:        "spillctl",
		Usage:       "show what an appliance does, admit jobs, and find out why nothing moves",
		UsageText:   "spillctl [options] COMMAND [options] [argument]",
		Description: description,
		Version:     Version(),
		HideVersion: true, // version is a command
		Flags:       g.flags(),
		Commands: []*cli.Command{
			statusCommand(g),
			jobsCommand(g),
			jobCommand(g),
			workersCommand(g),
			slotsCommand(g),
			levelsCommand(g),
			countersCommand(g),
			switchCommand(g),
			eventsCommand(g),
			nodesCommand(g),
			drainCommand(g),
			undrainCommand(g),
			forgetCommand(g),
			topCommand(g),
			doctorCommand(g),
			certsCommand(g),
			versionCommand(g),
			completionCommand(g),
			docsCommand(g),
		},
		Reader:               s.In,
		Writer:               s.Out,
		ErrWriter:            s.Err,
		EnableBashCompletion: true,
		// Codes are given once, in Execute.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   onUsageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand("", c.App.Commands, c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	for _, command := range app.Commands {
		prepare(command)
	}
	return app, g
}

// seeAlso ends the help of a command, which does not have the options of the app.
const seeAlso = "\nThe options of all commands, --addr, --output and --timeout among them, and the exit codes are in 'spillctl help'.\n"

// prepare gives a command, and those below it, what all have in common.
func prepare(command *cli.Command) {
	command.OnUsageError = onUsageError
	command.HideHelpCommand = true
	if len(command.Subcommands) > 0 {
		command.Action = func(c *cli.Context) error { return groupAlone(c, command) }
		for _, sub := range command.Subcommands {
			prepare(sub)
		}
		return
	}
	command.CustomHelpTemplate = cli.CommandHelpTemplate + seeAlso
	action, want := command.Action, command.ArgsUsage
	command.Action = func(c *cli.Context) error {
		if err := checkArguments(c, want); err != nil {
			return err
		}
		return action(c)
	}
}
