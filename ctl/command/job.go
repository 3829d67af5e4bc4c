package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/ctl/client"
	"spillway/ctl/output"
)

func jobCommand(g *global) *cli.Command {
	return &cli.Command{
		Name:        "job",
		Usage:       "admit a job, take it away, or show one",
		Subcommands: []*cli.Command{jobCreateCommand(g), jobShowCommand(g), jobDrainCommand(g), jobDeleteCommand(g)},
	}
}

func jobShowCommand(g *global) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "all that is known of one job",
		ArgsUsage: "JOB",
		Description: `Shows a job as it was admitted, with everything that was chosen for it, and how it is now.

  spillctl job show train
  spillctl job show train --output json | jq .allocation`,
		BashComplete: g.completeJobs,
		Action: func(c *cli.Context) error {
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				answer, err := appliance.Jobs.GetJob(ctx, &v1.GetJobRequest{Name: c.Args().First()})
				if err != nil {
					return err
				}
				return g.show(output.Of(answer.Job), func(w io.Writer) error { return printJob(w, answer.Job, time.Now()) })
			})
		},
	}
}

func jobDrainCommand(g *global) *cli.Command {
	return &cli.Command{
		Name:      "drain",
		Usage:     "let the workers that are present finish, let no other join, then delete",
		ArgsUsage: "JOB",
		Description: `The job is deleted when its last worker has left; at once if none is present.

  spillctl job drain train`,
		BashComplete: g.completeJobs,
		Action: func(c *cli.Context) error {
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				answer, err := appliance.Jobs.DrainJob(ctx, &v1.DrainJobRequest{Name: c.Args().First()})
				if err != nil {
					return err
				}
				job := answer.Job
				if _, err := appliance.Jobs.GetJob(ctx, &v1.GetJobRequest{Name: job.Spec.GetName()}); notFound(err) {
					job.State = v1.JobState_JOB_STATE_DELETED // nobody was left to wait for
				}
				return g.show(output.Of(job), func(w io.Writer) error {
					if job.State == v1.JobState_JOB_STATE_DELETED {
						_, err = fmt.Fprintf(w, "job %s has no workers and is deleted\n", job.Spec.GetName())
					} else {
						_, err = fmt.Fprintf(w, "job %s drains: %d of %d workers are still present\n", job.Spec.GetName(), job.Present, job.Spec.GetWorkers())
					}
					return err
				})
			})
		},
	}
}

func jobDeleteCommand(g *global) *cli.Command {
	var force bool
	return &cli.Command{
		Name:      "delete",
		Usage:     "take a job away at once",
		ArgsUsage: "JOB",
		Description: `Refused while workers are present, unless --force is given: then their collectives
fail. 'spillctl job drain' lets them finish.

  spillctl job delete train
  spillctl job delete train --force`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "force", Usage: "also while workers are present", Destination: &force},
		},
		BashComplete: g.completeJobs,
		Action: func(c *cli.Context) error {
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				answer, err := appliance.Jobs.DeleteJob(ctx, &v1.DeleteJobRequest{Name: c.Args().First(), Force: force})
				if err != nil {
					return err
				}
				job := answer.Job
				return g.show(output.Of(job), func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "job %s is deleted: %d slots, %s are free again\n",
						job.Spec.GetName(), job.Allocation.GetSlots(), output.Bytes(job.Allocation.GetBytes()))
					return err
				})
			})
		},
	}
}

func printJob(w io.Writer, job *v1.Job, now time.Time) error {
	var p output.Pairs
	state := output.Word(job.State)
	if since := output.Since(job.Since, now); since != "" {
		state += " for " + since
	}
	if job.Path != v1.JobPath_JOB_PATH_UNSPECIFIED && job.State == v1.JobState_JOB_STATE_RUNNING {
		state += map[v1.JobPath]string{v1.JobPath_JOB_PATH_TOR: ", through the ToR", v1.JobPath_JOB_PATH_DIRECT: ", by the aggregator alone"}[job.Path]
	}
	p.Add("job", "%s, id %d, generation %d", job.Spec.GetName(), job.Id, job.Generation)
	p.Add("state", "%s", state)
	p.Add("", "%s", job.Reason)
	workers := fmt.Sprintf("%d, of which %d are present", job.Spec.GetWorkers(), job.Present)
	if len(job.Missing) > 0 {
		workers += "; ranks " + output.Ranks(job.Missing) + " are missing"
	}
	p.Add("workers", "%s", workers)
	if least := job.Spec.GetMinWorkers(); least > 0 {
		now := "none runs"
		if job.Ranks > 0 {
			now = fmt.Sprintf("generation %d has %d", job.Generation, job.Ranks)
		}
		p.Add("elastic", "with %d at least, once %s has passed without another; %s", least, output.Span(job.Spec.GetSettle()), now)
	}
	if after := job.Spec.GetLostAfter(); after.AsDuration() > 0 {
		p.Add("lost", "workers are dead after %s", output.Span(after))
	}
	if job.CollectedAt != nil {
		p.Add("deleted", "in %s, if nobody joins", output.Duration(max(0, job.CollectedAt.AsTime().Sub(now))))
	}
	addHoldings(&p, job)
	p.Add("timers", "%s to %s; a collective fails after %s without progress", output.Span(job.Spec.GetMinRto()), output.Span(job.Spec.GetMaxRto()),
		output.Span(job.Spec.GetSilence()))
	p.Add("kept", "for %s without a worker", output.Span(job.Spec.GetGrace()))
	if created := output.Since(job.Created, now); created != "" {
		p.Add("created", "%s ago", created)
	}
	return p.Write(w)
}

// addHoldings says what a job was given.
func addHoldings(p *output.Pairs, job *v1.Job) {
	spec, given := job.Spec, job.Allocation
	p.Add("chunks", "%d elements, %d in flight", spec.GetElements(), spec.GetWindow())
	if bits := spec.GetWireBits(); bits == 16 {
		p.Add("elements", "%d bits of a packet each in sums of float32, float16 and bfloat16, which are coarser for it", bits)
	}
	p.Add("aggregator", "%d slots of %d elements, %s", given.GetSlots(), given.GetClassElements(), output.Bytes(given.GetBytes()))
	if q := spec.GetQuorum(); q != nil {
		p.Add("stragglers", "sums of %d are released after %s; others wait for one that is more than %d chunks behind", q.GetWorkers(), output.Span(q.GetAfter()),
			spec.GetWindow()+q.GetMaxLag())
	}
	tor := "none: all sums are made by the aggregator"
	if r := given.GetRegion(); r != nil {
		kind := "private"
		if r.Shared {
			kind = "shared"
		}
		tor = fmt.Sprintf("%s region of %d slots from %d on, for %d of %d chunks, priority %d",
			kind, r.Slots, r.Base, min(r.Slots, r.Period), r.Period, spec.GetPriority())
	}
	p.Add("ToR", "%s", tor)
	results := "a copy to each worker"
	if given.GetGroup() != "" {
		results = "multicast to " + given.GetGroup()
	}
	p.Add("results", "%s, port %d", results, given.GetWorkerPort())
}
