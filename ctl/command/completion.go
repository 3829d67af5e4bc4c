package command

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/ctl/client"
)

//go:embed completion/bash
var bashCompletion string

//go:embed completion/zsh
var zshCompletion string

//go:embed completion/fish
var fishCompletion string

func completionCommand(g *global) *cli.Command {
	shell := func(name, script, where string) *cli.Command {
		return &cli.Command{
			Name:        name,
			Usage:       "completion for " + name,
			Description: where,
			Action: func(*cli.Context) error {
				_, err := fmt.Fprint(g.Out, script)
				return err
			},
		}
	}
	return &cli.Command{
		Name:  "completion",
		Usage: "what makes a shell complete commands, options and the names of jobs",
		Subcommands: []*cli.Command{
			shell("bash", bashCompletion, "  spillctl completion bash > /etc/bash_completion.d/spillctl\n  source <(spillctl completion bash)"),
			shell("zsh", zshCompletion, "  spillctl completion zsh > \"${fpath[1]}/_spillctl\""),
			shell("fish", fishCompletion, "  spillctl completion fish > ~/.config/fish/completions/spillctl.fish"),
		},
	}
}

// completeJobs offers options after a dash, and the names of the appliance's jobs otherwise. A shell waits for it: an appliance that does not answer
// at once offers nothing.
func (g *global) completeJobs(c *cli.Context) {
	if c.Args().Present() {
		return // there is one job in a line
	}
	options := g.options
	options.Timeout = time.Second
	appliance, err := client.New(options)
	if err != nil {
		return // and so do options that cannot be meant
	}
	defer appliance.Close()
	list, err := appliance.Jobs.ListJobs(context.Background(), &v1.ListJobsRequest{})
	if err != nil {
		return
	}
	for _, job := range list.Jobs {
		fmt.Fprintln(g.Out, job.Spec.GetName())
	}
}
