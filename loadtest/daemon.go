package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"spillway/appliance/command"
	"spillway/loadtest/rack"
)

// daemonCommand is spillwayd, which a rack starts in the aggregator's namespace: the very command, so that this one program is enough.
func daemonCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:            "spillwayd",
		Usage:           "the daemon of a rack's aggregator, which starts it",
		Hidden:          true,
		SkipFlagParsing: true,
		Before:          func(*cli.Context) error { return nil },
		Action: func(c *cli.Context) error {
			if code := command.Main(context.WithoutCancel(c.Context), append([]string{"spillwayd"}, c.Args().Slice()...), s.out, s.err); code != exitOK {
				return &daemonError{code}
			}
			return nil
		},
	}
}

// daemonError is spillwayd's exit code, which says by itself why.
type daemonError struct{ code int }

func (e *daemonError) Error() string { return "spillwayd has said why" }

// daemonProcess is how a rack starts it.
func daemonProcess(s streams) rack.Command {
	return rack.Command{Args: []string{"spillwayd"}, Stderr: s.err}
}
