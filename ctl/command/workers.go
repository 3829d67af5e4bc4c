package command

import (
	"context"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/ctl/client"
	"spillway/ctl/output"
)

func workersCommand(g *global) *cli.Command {
	return &cli.Command{
		Name:      "workers",
		Usage:     "who takes part in a job, who is missing, lost or late",
		ArgsUsage: "JOB",
		Description: `One line a rank. LAST is when its last packet reached the aggregator, WAITED FOR how
many chunks there wait for it, LATE for how long the oldest of them has. P50 and P99
bound how much later than the first contribution to a chunk its own came, in this
generation: half of them, and all but one of a hundred. What a ToR summed is not in
it. WITHOUT is how many sums were released without it, in a job with a quorum.
A lost worker is one whose call ended without a farewell: it may come back until
the job's grace is over, or until it is dead, if the job has --lost-after. In an
elastic job those that joined wait for the next generation: the number is then a
seat, and the ranks are given out when it begins.

  spillctl workers train`,
		BashComplete: g.completeJobs,
		Action: func(c *cli.Context) error {
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				list, err := appliance.Node.ListWorkers(ctx, &v1.ListWorkersRequest{Job: c.Args().First()})
				if err != nil {
					return err
				}
				return g.show(output.Of(list), func(w io.Writer) error { return printWorkers(w, list.Workers, time.Now()) })
			})
		},
	}
}

func printWorkers(w io.Writer, workers []*v1.Worker, now time.Time) error {
	rows := output.NewRows(">RANK", "STATE", "ADDRESS", ">SINCE", ">PACKETS", ">LAST", ">WAITED FOR", ">LATE", ">P50", ">P99", ">WITHOUT", "DESCRIPTION")
	for _, worker := range workers {
		late := ""
		if worker.WaitedFor > 0 {
			late = output.Span(worker.Late)
		}
		rows.Add(worker.Rank, output.Word(worker.State), worker.Address, output.Since(worker.Since, now), output.Count(float64(worker.Packets)),
			output.Since(worker.LastPacket, now), worker.WaitedFor, late, output.Late(worker.Lateness, 0.5), output.Late(worker.Lateness, 0.99),
			output.Count(float64(worker.ReleasedWithout)), shorten(worker.Description, noteWidth))
	}
	return rows.Write(w)
}
