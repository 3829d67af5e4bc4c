package command

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"spillway/appliance/config"
	"spillway/appliance/daemon"
)

// runOptions are what run is told.
type runOptions struct {
	config  string
	upgrade bool
}

func runCommand(s streams) *cli.Command {
	var o runOptions
	return &cli.Command{
		Name:  "run",
		Usage: "be the daemon until a signal comes",
		Description: `Logs to standard error, and tells systemd when it is ready. Needs root, or CAP_BPF,
CAP_NET_ADMIN and CAP_PERFMON.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "configuration `FILE`", Value: config.DefaultPath, EnvVars: []string{"SPILLWAYD_CONFIG"}, Destination: &o.config},
			&cli.BoolFlag{Name: "upgrade", Usage: "take over a data plane of another version, whatever aggregator.upgrade says", EnvVars: []string{"SPILLWAYD_UPGRADE"}, Destination: &o.upgrade},
		},
		Action: func(c *cli.Context) error { return o.run(c, s) },
	}
}

func (o *runOptions) run(c *cli.Context, s streams) error {
	read, err := load(o.config)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	return daemon.Run(c.Context, read, daemon.Options{Path: o.config, Upgrade: o.upgrade, Version: version(), Log: s.err, Signals: signals})
}
