package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/ctl/client"
	"spillway/ctl/output"
)

func eventsCommand(g *global) *cli.Command {
	var follow bool
	var job string
	var limit uint
	return &cli.Command{
		Name:  "events",
		Usage: "what happened, and with -f what happens",
		Description: `The appliance keeps the last few thousand events. JSON is one object a line, YAML one
document an event.

  spillctl events --limit 20
  spillctl events -f --job train
  spillctl events -f -o json | jq -r 'select(.level == "error").text'`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with what happens, until interrupted", Destination: &follow},
			&cli.StringFlag{Name: "job", Usage: "only those of the job `NAME`", Destination: &job},
			&cli.UintFlag{Name: "limit", Usage: "at most so many of those that happened already; 0: all that are kept", Destination: &limit},
		},
		Action: func(c *cli.Context) error {
			if limit > 1<<20 {
				return usagef("events: --limit %d: want at most %d", limit, 1<<20)
			}
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				if !follow && g.options.Timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, g.options.Timeout)
					defer cancel()
				}
				return g.events(ctx, appliance, &v1.StreamEventsRequest{Follow: follow, Job: job, Limit: uint32(limit)})
			})
		},
	}
}

func (g *global) events(ctx context.Context, appliance *client.Client, request *v1.StreamEventsRequest) error {
	form, err := g.output()
	if err != nil {
		return err
	}
	stream, err := appliance.Node.StreamEvents(ctx, request)
	if err != nil {
		return err
	}
	for {
		next, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case request.Follow && err != nil && ctx.Err() != nil:
			return nil // interrupting is how one ends it
		case err != nil:
			return err
		}
		if next.Event == nil {
			continue
		}
		if form == output.Table {
			err = g.printEvent(next.Event)
		} else {
			err = output.WriteOne(g.Out, form, output.Of(next.Event))
		}
		if err != nil {
			return err
		}
	}
}

func (g *global) printEvent(e *v1.Event) error {
	if e.Lost > 0 {
		// About this reader, not about the appliance.
		fmt.Fprintf(g.Err, "spillctl: %d events were lost here, because they were read too slowly\n", e.Lost)
	}
	about := e.Kind
	if e.Job != "" {
		about += " " + e.Job
	}
	_, err := fmt.Fprintf(g.Out, "%s  %-7s  %s: %s\n", e.Time.AsTime().Local().Format(time.DateTime), output.Word(e.Level), about, e.Text)
	return err
}
