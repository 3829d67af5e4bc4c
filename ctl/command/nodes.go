package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/ctl/client"
	"spillway/ctl/output"
)

func nodesCommand(g *global) *cli.Command {
	return &cli.Command{
		Name:  "nodes",
		Usage: "the appliances that serve the same jobs, and who leads them",
		Description: `One line an appliance: whether jobs can be homed at it, how many are, how much memory
their slots take, and where workers reach it. Any appliance of a cluster answers;
one that stands alone is a cluster of one.

  spillctl nodes
  spillctl nodes --output json | jq '.nodes[] | select(.leader).name'`,
		Action: func(c *cli.Context) error {
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				list, err := appliance.Cluster.ListNodes(ctx, &v1.ListNodesRequest{})
				if err != nil {
					return err
				}
				return g.show(output.Of(list), func(w io.Writer) error { return printNodes(w, list.Nodes, time.Now()) })
			})
		},
	}
}

func printNodes(w io.Writer, nodes []*v1.ClusterNode, now time.Time) error {
	rows := output.NewRows("NODE", "STATE", "LEADER", "RACK", ">JOBS", ">MEMORY", "API", "VERSION", ">SINCE", "NOTE")
	for _, n := range nodes {
		leads := ""
		if n.Leader {
			leads = "yes"
		}
		rows.Add(n.Name, output.Word(n.State), leads, n.Rack, len(n.Jobs), output.Bytes(n.Capacity.GetMemoryBytes().GetUsed()), n.Api, n.Version,
			output.Since(n.Since, now), shorten(n.Reason, noteWidth))
	}
	return rows.Write(w)
}

func drainCommand(g *global) *cli.Command {
	return &cli.Command{
		Name:      "drain",
		Usage:     "move all jobs away from an appliance, and give it no more",
		ArgsUsage: "NODE",
		Description: `Before work on a host: its jobs go on at other appliances after a pause of milliseconds.
Refused, and nothing moves, when the others have no room. 'spillctl undrain' lets it be
used again. Not to be taken for 'spillctl job drain', which ends a job.

  spillctl drain rack7-a`,
		BashComplete: g.completeNodes,
		Action: func(c *cli.Context) error {
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				answer, err := appliance.Cluster.DrainNode(ctx, &v1.DrainNodeRequest{Name: c.Args().First()})
				if err != nil {
					return err
				}
				return g.show(output.Of(answer), func(w io.Writer) error {
					moved := "nothing was homed there"
					if n := len(answer.Moved); n > 0 {
						moved = fmt.Sprintf("%d jobs moved: %s", n, strings.Join(answer.Moved, ", "))
						if n == 1 {
							moved = "job " + answer.Moved[0] + " moved"
						}
					}
					_, err := fmt.Fprintf(w, "appliance %s is drained: %s\n", c.Args().First(), moved)
					return err
				})
			})
		},
	}
}

func undrainCommand(g *global) *cli.Command {
	return &cli.Command{
		Name:      "undrain",
		Usage:     "let a drained appliance be given jobs again",
		ArgsUsage: "NODE",
		Description: `It moves none: jobs that are admitted or must move from now on may be homed there.

  spillctl undrain rack7-a`,
		BashComplete: g.completeNodes,
		Action: func(c *cli.Context) error {
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				answer, err := appliance.Cluster.UndrainNode(ctx, &v1.UndrainNodeRequest{Name: c.Args().First()})
				if err != nil {
					return err
				}
				return g.show(output.Of(answer.Node), func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "appliance %s can be given jobs\n", c.Args().First())
					return err
				})
			})
		},
	}
}

func forgetCommand(g *global) *cli.Command {
	return &cli.Command{
		Name:      "forget",
		Usage:     "strike out an appliance that is gone for good",
		ArgsUsage: "NODE",
		Description: `An appliance that was there once is listed as lost until it is back, or forgotten.
Refused while it is there, or jobs have a place there. Drain it and end its spillwayd
first. One that is started again is known again.

  spillctl forget rack7-a`,
		BashComplete: g.completeNodes,
		Action: func(c *cli.Context) error {
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				answer, err := appliance.Cluster.ForgetNode(ctx, &v1.ForgetNodeRequest{Name: c.Args().First()})
				if err != nil {
					return err
				}
				return g.show(output.Of(answer), func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "appliance %s is forgotten\n", c.Args().First())
					return err
				})
			})
		},
	}
}

// completeNodes offers the names of the appliances, as completeJobs does those of jobs.
func (g *global) completeNodes(c *cli.Context) {
	if c.Args().Present() {
		return // there is one appliance in a line
	}
	options := g.options
	options.Timeout = time.Second
	appliance, err := client.New(options)
	if err != nil {
		return // and so do options that cannot be meant
	}
	defer appliance.Close()
	list, err := appliance.Cluster.ListNodes(context.Background(), &v1.ListNodesRequest{})
	if err != nil {
		return
	}
	for _, n := range list.Nodes {
		fmt.Fprintln(g.Out, n.Name)
	}
}
