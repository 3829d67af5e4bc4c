package command

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"spillway/appliance/config"
	"spillway/appliance/daemon"
)

func detachCommand(s streams) *cli.Command {
	var path, pin string
	return &cli.Command{
		Name:  "detach",
		Usage: "take the data plane off this host",
		Description: `Takes the aggregator off its interfaces and its pins away, while no daemon runs. Sums
in flight are lost here, not at the workers. It is no error when nothing is there.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "configuration `FILE`, for its aggregator.pin", Value: config.DefaultPath, EnvVars: []string{"SPILLWAYD_CONFIG"}, Destination: &path},
			&cli.StringFlag{Name: "pin", Usage: "`DIR` of the pins; the configuration is not read then", Destination: &pin},
		},
		Action: func(c *cli.Context) error {
			if pin == "" {
				read, err := load(path)
				if err != nil {
					return fmt.Errorf("%w\n(with --pin DIR no configuration is needed)", err)
				}
				pin = read.Aggregator.Pin
			}
			if err := daemon.Detach(pin); err != nil {
				return err
			}
			fmt.Fprintf(s.out, "nothing is attached or pinned in %s\n", pin)
			return nil
		},
	}
}
