package main

import (
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v2"

	"spillway/p4/softtor"
)

func checkCommand(s streams) *cli.Command {
	var output string
	return &cli.Command{
		Name:        "check",
		Usage:       "is a configuration right?",
		ArgsUsage:   "FILE",
		Description: "Reads a configuration as run would, and shows it with what it leaves out filled in. Does not look at interfaces.",
		Flags:       []cli.Flag{outputFlag(&output)},
		Before: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("check: takes one FILE after its flags, not %d arguments", c.NArg())
			}
			return checkOutput(output)
		},
		Action: func(c *cli.Context) error {
			config, err := softtor.ReadConfigFile(c.Args().First())
			if err != nil {
				return err
			}
			if output == outputJSON {
				return json.NewEncoder(s.out).Encode(config)
			}
			fmt.Fprintf(s.out, "listen    %s\ndevice_id %d\nslots     %d\nelements  %d\n", config.Listen, config.DeviceID, config.Slots, config.Elements)
			for _, p := range config.Ports {
				fmt.Fprintf(s.out, "port %-4d %s\n", p.Port, p.Interface)
			}
			return nil
		},
	}
}
