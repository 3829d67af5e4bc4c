package command

import (
	"context"
	"fmt"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"spillway/ctl/client"
	"spillway/ctl/output"
	"spillway/ctl/top"
)

func topCommand(g *global) *cli.Command {
	var interval time.Duration
	var once bool
	return &cli.Command{
		Name:  "top",
		Usage: "a live view: rates, spill, slots, late workers",
		Description: `Asks the appliance every interval and shows what its jobs moved since. SPILL is the
part of the contributions of a job with slots in the ToR that the aggregator summed;
WAITING how many chunks wait at the aggregator, OLDEST for how long. A worker is late
when chunks have waited for it for 100ms. q or ctrl-c quits.

  spillctl top
  spillctl top --once                once, as text, for a log or a pipe`,
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "interval", Aliases: []string{"i"}, Usage: "between two looks", Value: time.Second, Destination: &interval},
			&cli.BoolFlag{Name: "once", Usage: "look twice, an interval apart, print and end", Destination: &once},
		},
		Action: func(c *cli.Context) error {
			if form, err := g.output(); err != nil {
				return err
			} else if form != output.Table {
				return usagef("top is for people: use 'spillctl levels', 'workers' and 'slots' with --output %s", form)
			}
			if interval < 100*time.Millisecond {
				return usagef("top: --interval %v is too short: want at least 100ms", interval)
			}
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				source := top.FromAPI(appliance.Jobs, appliance.Node, time.Now)
				if once {
					return g.topOnce(ctx, source, interval)
				}
				in, inOK := g.In.(*os.File)
				out, outOK := g.Out.(*os.File)
				if !inOK || !outOK || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
					return usagef("top needs a terminal, and this is none: use 'spillctl top --once', or 'spillctl status'")
				}
				// What cannot be reached at all is said on the terminal as it is, not on a screen that goes away.
				if _, err := source(ctx); err != nil {
					return err
				}
				return top.Run(ctx, source, interval, tea.WithInput(in), tea.WithOutput(out))
			})
		},
	}
}

// topOnce prints what the view would show after its second look.
func (g *global) topOnce(ctx context.Context, source top.Source, interval time.Duration) error {
	before, err := source(ctx)
	if err != nil {
		return err
	}
	select {
	case <-time.After(interval):
	case <-ctx.Done():
		return ctx.Err()
	}
	now, err := source(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(g.Out, top.Text(before, now))
	return err
}
