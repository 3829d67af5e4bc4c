package main

import (
	"github.com/urfave/cli/v2"

	"spillway/loadtest/rack"
)

// torCommand is the process of a rack's software ToR.
func torCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:   "tor",
		Usage:  "the software ToR of a rack, which starts it",
		Hidden: true,
		Action: func(c *cli.Context) error { return rack.RunTor(c.Context, s.in, s.out) },
	}
}

// torProcess is how a rack starts it.
func torProcess(s streams) rack.Command { return rack.Command{Args: []string{"tor"}, Stderr: s.err} }
