package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/ctl/client"
	"spillway/ctl/output"
)

func jobsCommand(g *global) *cli.Command {
	var watch bool
	return &cli.Command{
		Name:  "jobs",
		Usage: "all jobs, and what they wait for",
		Description: `One line a job: how many of its ranks are present, which way its chunks go, and
what it holds. With --watch, a line for each job and for each change of one, until
it is interrupted.

  spillctl jobs
  spillctl jobs --watch --output json`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "go on with what changes", Destination: &watch},
		},
		Action: func(c *cli.Context) error {
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				if watch {
					return g.watchJobs(ctx, appliance)
				}
				list, err := appliance.Jobs.ListJobs(ctx, &v1.ListJobsRequest{})
				if err != nil {
					return err
				}
				return g.show(output.Of(list), func(w io.Writer) error { return printJobs(w, list.Jobs, time.Now()) })
			})
		},
	}
}

// noteWidth bounds the last column, so that a line of usual names fits 120 columns. 'job show' has all of it.
const noteWidth = 36

func printJobs(w io.Writer, jobs []*v1.Job, now time.Time) error {
	if len(jobs) == 0 {
		_, err := fmt.Fprintln(w, "There are no jobs. 'spillctl job create NAME --workers N' admits one.")
		return err
	}
	rows := output.NewRows("JOB", "STATE", ">WORKERS", ">GEN", "PATH", ">E", ">W", ">MEMORY", ">TOR", ">SINCE", "NOTE")
	for _, job := range jobs {
		rows.Add(job.Spec.GetName(), output.Word(job.State), fmt.Sprintf("%d/%d", job.Present, job.Spec.GetWorkers()), job.Generation,
			output.Word(job.Path), job.Spec.GetElements(), job.Spec.GetWindow(), output.Bytes(job.Allocation.GetBytes()),
			regionSlots(job.Allocation.GetRegion()), output.Since(job.Since, now), shorten(jobNote(job, now), noteWidth))
	}
	return rows.Write(w)
}

func regionSlots(r *v1.Region) string {
	switch {
	case r == nil:
		return ""
	case r.Shared:
		return "shared"
	default:
		return fmt.Sprint(r.Slots)
	}
}

// jobNote is the one thing that an operator should know of a job.
func jobNote(job *v1.Job, now time.Time) string {
	switch {
	case job.State == v1.JobState_JOB_STATE_WAITING && len(job.Missing) > 0:
		return "waits for ranks " + output.Ranks(job.Missing)
	case job.Reason != "":
		return job.Reason
	case job.CollectedAt != nil:
		return "deleted in " + output.Duration(max(0, job.CollectedAt.AsTime().Sub(now))) + " if nobody joins"
	default:
		return ""
	}
}

func shorten(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

func (g *global) watchJobs(ctx context.Context, appliance *client.Client) error {
	form, err := g.output()
	if err != nil {
		return err
	}
	stream, err := appliance.Jobs.WatchJobs(ctx, &v1.WatchJobsRequest{})
	if err != nil {
		return err
	}
	for {
		next, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF), err != nil && ctx.Err() != nil:
			return nil // interrupting is how one ends it
		case err != nil:
			return err
		case next.Job == nil:
			continue
		}
		if form != output.Table {
			err = output.WriteOne(g.Out, form, output.Of(next.Job))
		} else {
			job, now := next.Job, time.Now()
			_, err = fmt.Fprintf(g.Out, "%s  %s  %s  %d/%d workers  generation %d  %s\n", now.Format(time.TimeOnly), job.Spec.GetName(),
				output.Word(job.State), job.Present, job.Spec.GetWorkers(), job.Generation, jobNote(job, now))
		}
		if err != nil {
			return err
		}
	}
}
