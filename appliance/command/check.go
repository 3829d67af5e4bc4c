package command

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

func checkCommand(s streams) *cli.Command {
	var syntax bool
	return &cli.Command{
		Name:      "check",
		Usage:     "is a configuration right?",
		ArgsUsage: "FILE",
		Description: `Says everything that is wrong with the file, each with its line and what to write
instead, and then what this host lacks for it. Changes nothing.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "file-only", Usage: "leave out what depends on this host: interfaces, addresses, the bpffs", Destination: &syntax},
		},
		Before: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("check: takes one FILE after its flags, not %d arguments", c.NArg())
			}
			return nil
		},
		Action: func(c *cli.Context) error {
			path := c.Args().First()
			read, err := load(path)
			if err != nil {
				return err
			}
			if !syntax {
				if err := read.CheckHost(); err != nil {
					return err
				}
			}
			fmt.Fprintf(s.out, "%s is right\n", path)
			return nil
		},
	}
}
