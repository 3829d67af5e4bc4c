package main

import (
	"fmt"
	"log/slog"
	"net"

	"github.com/urfave/cli/v2"

	"spillway/p4/softtor"
)

// runOptions are what run is told.
type runOptions struct {
	config   string
	logLevel string
}

func runCommand(s streams) *cli.Command {
	var o runOptions
	return &cli.Command{
		Name:  "run",
		Usage: "be a ToR until a signal comes",
		Description: `Says "ready ADDRESS" on standard output when controllers can connect, and logs
to standard error. Needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "configuration `FILE`", EnvVars: []string{"SPILL_TOR_CONFIG"}, Destination: &o.config},
			&cli.StringFlag{Name: "log", Usage: "lowest `LEVEL` that is logged: debug, info, warn or error", Value: "info", EnvVars: []string{"SPILL_TOR_LOG"}, Destination: &o.logLevel},
		},
		Action: func(c *cli.Context) error { return o.run(c, s) },
	}
}

func (o *runOptions) run(c *cli.Context, s streams) error {
	if o.config == "" {
		return usagef("run: --config FILE is missing")
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return usagef("run: log level %q is none of debug, info, warn, error", o.logLevel)
	}
	config, err := softtor.ReadConfigFile(o.config)
	if err != nil {
		return err
	}
	config.Ready = func(addr net.Addr) { fmt.Fprintf(s.out, "ready %s\n", addr) }
	return softtor.Run(c.Context, config, slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: level})))
}
