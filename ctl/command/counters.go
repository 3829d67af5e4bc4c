package command

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/ctl/client"
	"spillway/ctl/output"
)

func countersCommand(g *global) *cli.Command {
	var all, drops bool
	return &cli.Command{
		Name:      "counters",
		Usage:     "every counter of the aggregator and the ToR",
		ArgsUsage: "[JOB]",
		Description: `The table leaves out counters that are 0, unless --all is given; JSON and YAML have
all. A counter without a job counts packets whose job was not known. What the names
mean is in docs/protocol.md; 'spillctl doctor' says what to do about drops.

  spillctl counters
  spillctl counters train --drops`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "also those that are 0", Destination: &all},
			&cli.BoolFlag{Name: "drops", Usage: "only those of dropped packets", Destination: &drops},
		},
		BashComplete: g.completeJobs,
		Action: func(c *cli.Context) error {
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				list, err := appliance.Node.ListCounters(ctx, &v1.ListCountersRequest{Job: c.Args().First()})
				if err != nil {
					return err
				}
				if drops {
					var dropped []*v1.Counter
					for _, counter := range list.Counters {
						if counter.Drop {
							dropped = append(dropped, counter)
						}
					}
					list.Counters = dropped
				}
				return g.show(output.Of(list), func(w io.Writer) error { return printCounters(w, list.Counters, all) })
			})
		},
	}
}

func printCounters(w io.Writer, counters []*v1.Counter, all bool) error {
	rows := output.NewRows("LEVEL", "JOB", "COUNTER", ">VALUE", "DROPS")
	for _, counter := range counters {
		if counter.Value == 0 && !all {
			continue
		}
		drop := ""
		if counter.Drop {
			drop = "yes"
		}
		rows.Add(counter.Level, counter.Job, counter.Name, counter.Value, drop)
	}
	if rows.Empty() {
		_, err := fmt.Fprintln(w, "All counters are 0.")
		return err
	}
	return rows.Write(w)
}
