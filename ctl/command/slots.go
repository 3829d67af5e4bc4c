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

func slotsCommand(g *global) *cli.Command {
	var all bool
	var limit uint
	return &cli.Command{
		Name:      "slots",
		Usage:     "which chunks of a job wait at the aggregator, since when, for whom",
		ArgsUsage: "JOB",
		Description: `Oldest first. A chunk that the ToR is summing is not here; 'spillctl switch --slots'
has those, where the ToR can be asked.

  spillctl slots train
  spillctl slots train --all --limit 1000
  spillctl slots train -o json | jq -r '.slots[].missing | @csv'`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "also those whose result is published", Destination: &all},
			&cli.UintFlag{Name: "limit", Usage: "at most so many", Value: 100, Destination: &limit},
		},
		BashComplete: g.completeJobs,
		Action: func(c *cli.Context) error {
			if limit == 0 || limit > 1<<20 {
				return usagef("slots: --limit %d: want 1 to %d", limit, 1<<20)
			}
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				list, err := appliance.Node.ListSlots(ctx, &v1.ListSlotsRequest{Job: c.Args().First(), Complete: all, Limit: uint32(limit)})
				if err != nil {
					return err
				}
				return g.show(output.Of(list), func(w io.Writer) error { return printSlots(w, list) })
			})
		},
	}
}

func printSlots(w io.Writer, list *v1.ListSlotsResponse) error {
	if len(list.Slots) == 0 {
		_, err := fmt.Fprintln(w, "No chunk waits at the aggregator.")
		return err
	}
	rows := output.NewRows(">CHUNK", ">SLOT", ">AGE", "OP", ">ELEMENTS", "HAVE", "WAITS FOR")
	for _, slot := range list.Slots {
		waits := output.Ranks(slot.Missing)
		if slot.Complete {
			waits = "nobody: published"
		}
		rows.Add(slot.Seq, slot.Index, output.Span(slot.Age), slot.Op, slot.Elements, output.Ranks(slot.Present), waits)
	}
	if err := rows.Write(w); err != nil {
		return err
	}
	if list.More > 0 {
		_, err := fmt.Fprintf(w, "and %d more (--limit)\n", list.More)
		return err
	}
	return nil
}
