package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/config"
	"spillway/ctl/absence"
	"spillway/ctl/client"
	"spillway/ctl/output"
)

func doctorCommand(g *global) *cli.Command {
	var verbose bool
	var configuration string
	return &cli.Command{
		Name:      "doctor",
		Usage:     "why does nothing move?",
		ArgsUsage: "[JOB]",
		Description: `Checks the host, the data plane, the ToR and each job, and says what to do about what
is wrong. When the daemon does not answer, it finds out why: the socket, the service,
the configuration, the kernel, and what the daemon left pinned. The exit code is 1 if
something is an error.

  spillctl doctor
  spillctl doctor train --verbose         also what is right
  spillctl doctor -o json | jq '.findings[] | select(.level == "error")'`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "also checks that found nothing wrong", Destination: &verbose},
			&cli.StringFlag{Name: "config", Usage: "`FILE` of the daemon's configuration, looked at when it does not answer",
				Value: config.DefaultPath, EnvVars: []string{"SPILLWAYD_CONFIG"}, Destination: &configuration},
		},
		BashComplete: g.completeJobs,
		Action: func(c *cli.Context) error {
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				answer, err := appliance.Node.Diagnose(ctx, &v1.DiagnoseRequest{Job: c.Args().First()})
				var unreachable *client.UnreachableError
				if errors.As(err, &unreachable) {
					answer, err = &v1.DiagnoseResponse{}, nil
					answer.Findings = absence.Find(ctx, absence.Appliance{Addr: g.options.Addr, Config: configuration, Err: unreachable.Err})
				}
				if err != nil {
					return err
				}
				if err := g.show(output.Of(answer), func(w io.Writer) error { return printFindings(w, answer.Findings, verbose) }); err != nil {
					return err
				}
				for _, finding := range answer.Findings {
					if finding.Level == v1.FindingLevel_FINDING_LEVEL_ERROR {
						return foundError{}
					}
				}
				return nil
			})
		},
	}
}

// findingWidth is where a finding's lines end at the latest; those that begin with a level or an indent, nine columns later.
const findingWidth = 100

// printFindings writes what is wrong, the worst first, and counts what is right.
func printFindings(w io.Writer, findings []*v1.Finding, verbose bool) error {
	levels := []v1.FindingLevel{v1.FindingLevel_FINDING_LEVEL_ERROR, v1.FindingLevel_FINDING_LEVEL_WARNING}
	if verbose {
		levels = append(levels, v1.FindingLevel_FINDING_LEVEL_OK)
	}
	count := map[v1.FindingLevel]int{}
	for _, finding := range findings {
		count[finding.Level]++
	}
	for _, level := range levels {
		for _, finding := range findings {
			if finding.Level != level {
				continue
			}
			about := finding.Check
			if finding.Job != "" {
				about += ", job " + finding.Job
			}
			fmt.Fprintf(w, "%-7s  %s\n", output.Word(level), output.Wrap(about+": "+finding.Text, findingWidth, "         "))
			if finding.Remedy != "" {
				fmt.Fprintf(w, "         %s\n", output.Wrap("do: "+finding.Remedy, findingWidth, "         "))
			}
		}
	}
	_, err := fmt.Fprintf(w, "%d errors, %d warnings, %d checks found nothing wrong\n", count[v1.FindingLevel_FINDING_LEVEL_ERROR],
		count[v1.FindingLevel_FINDING_LEVEL_WARNING], count[v1.FindingLevel_FINDING_LEVEL_OK])
	return err
}
