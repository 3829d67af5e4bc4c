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

func levelsCommand(g *global) *cli.Command {
	return &cli.Command{
		Name:      "levels",
		Usage:     "what each level of the tree summed",
		ArgsUsage: "[JOB]",
		Description: `SUMMED counts contributions, alone or within a partial sum, of this generation;
SHARE is the level's part of all. SPILLED are those that the ToR could not or would
not hold, PREEMPTED the partial sums that it gave up for a more urgent chunk,
EVICTED those that a resent packet took along.

  spillctl levels
  spillctl levels train`,
		BashComplete: g.completeJobs,
		Action: func(c *cli.Context) error {
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				list, err := appliance.Node.ListLevels(ctx, &v1.ListLevelsRequest{Job: c.Args().First()})
				if err != nil {
					return err
				}
				return g.show(output.Of(list), func(w io.Writer) error { return printLevels(w, list.Levels) })
			})
		},
	}
}

func printLevels(w io.Writer, levels []*v1.Level) error {
	if len(levels) == 0 {
		_, err := fmt.Fprintln(w, "Nothing was summed: there is no job.")
		return err
	}
	rows := output.NewRows("JOB", "LEVEL", ">SUMMED", ">SHARE", ">PUBLISHED", ">SPILLED", ">PREEMPTED", ">EVICTED", ">DROPPED")
	for _, level := range levels {
		rows.Add(level.Job, level.Level, level.Contributions, output.Share(level.Share), level.Published, level.Spilled, level.Preempted,
			level.ResendEvicted, level.Dropped)
	}
	return rows.Write(w)
}
