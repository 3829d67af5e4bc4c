package command

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/urfave/cli/v2"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/ctl/client"
	"spillway/ctl/output"
)

// jobOptions are a job as the command line says it; what is left out is chosen by the appliance.
type jobOptions struct {
	workers, elements, window, priority, torSlots uint
	tor, publication                              string
	quorum, maxLag, minWorkers, wireBits          uint
	minRTO, maxRTO, silence, grace, after         time.Duration
	lostAfter, settle                             time.Duration
	firstCome, dryRun                             bool
	// said are durations whose 0 means something else than that they were left out.
	said map[string]bool
}

func jobCreateCommand(g *global) *cli.Command {
	o := &jobOptions{}
	return &cli.Command{
		Name:      "create",
		Usage:     "admit a job",
		ArgsUsage: "JOB",
		Description: `Sets aside all that the job needs at the aggregator and at the ToR, or refuses it
whole, with what was asked for and what is free. It waits for nobody: workers join
by the job's name and their rank, in any order, and start when the last is there.
What is left out is chosen by the appliance.

  spillctl job create train --workers 8
  spillctl job create train --workers 8 --dry-run          would it fit?
  spillctl job create big --workers 16 --elements 832 --window 511 --tor none
  spillctl job create urgent --workers 4 --tor shared --priority 100
  spillctl job create brisk --workers 8 --quorum 7 --after 20ms    goes on without one that is late
  spillctl job create lean --workers 8 --wire-bits 16              half the traffic, coarser sums
  spillctl job create elastic --workers 8 --min-workers 4          goes on with fewer, or more again`,
		Flags: o.flags(),
		Action: func(c *cli.Context) error {
			o.said = map[string]bool{"lost-after": c.IsSet("lost-after"), "settle": c.IsSet("settle")}
			spec, err := o.spec(c.Args().First())
			if err != nil {
				return err
			}
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				answer, err := appliance.Jobs.CreateJob(ctx, &v1.CreateJobRequest{Spec: spec, DryRun: o.dryRun})
				if err != nil {
					return err
				}
				return g.show(output.Of(answer.Job), func(w io.Writer) error { return printCreated(w, answer.Job, o.dryRun) })
			})
		},
	}
}

func (o *jobOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.UintFlag{Name: "workers", Aliases: []string{"n"}, Usage: "ranks of the job, 1 to 64", Destination: &o.workers, DefaultText: "must be said"},
		&cli.UintFlag{Name: "elements", Usage: "E, int32 elements a chunk: a multiple of 32 up to 832, for which 56 + 4E bytes fit the MTU",
			Destination: &o.elements, DefaultText: "the appliance's choice"},
		&cli.UintFlag{Name: "window", Usage: "W, chunks in flight", Destination: &o.window, DefaultText: "the appliance's choice"},
		&cli.UintFlag{Name: "wire-bits", Usage: "`BITS` of a packet for each element of a sum or an average of float32, float16 or bfloat16: 32, or 16, which are half the traffic and coarser sums",
			Destination: &o.wireBits, DefaultText: "32"},
		&cli.UintFlag{Name: "priority", Usage: "urgency in the ToR's memory, 1 (least) to 127", Destination: &o.priority, DefaultText: "64"},
		&cli.StringFlag{Name: "tor", Usage: "`USE` of the ToR's memory: none, private (a region of its own) or shared (the more urgent chunk takes the slot)",
			Destination: &o.tor, DefaultText: "the appliance's choice"},
		&cli.UintFlag{Name: "tor-slots", Usage: "slots of a private region, a power of two", Destination: &o.torSlots, DefaultText: "the appliance's choice"},
		&cli.BoolFlag{Name: "first-come", Usage: "in the shared region, leave a slot to the chunk that has it, however urgent this job's is",
			Destination: &o.firstCome},
		&cli.StringFlag{Name: "publication", Usage: "`HOW` results reach the workers: multicast, or unicast (a copy each)",
			Destination: &o.publication, DefaultText: "the appliance's choice"},
		&cli.UintFlag{Name: "quorum", Usage: "release the sum of so many workers without the others, which are late", Destination: &o.quorum, DefaultText: "wait for all"},
		&cli.DurationFlag{Name: "after", Usage: "with --quorum: once the chunk's first contribution is so old", Destination: &o.after, DefaultText: "50ms"},
		&cli.UintFlag{Name: "max-lag", Usage: "with --quorum: by how many `CHUNKS` more than a window the slowest worker may be behind before the others wait for it",
			Destination: &o.maxLag, DefaultText: "six windows"},
		&cli.UintFlag{Name: "min-workers", Usage: "make the job elastic: its workers may go on with so many of --workers (Rejoin), and with more again", Destination: &o.minWorkers,
			DefaultText: "not elastic"},
		&cli.DurationFlag{Name: "settle", Usage: "with --min-workers: how long those that are there wait for more", Destination: &o.settle, DefaultText: "5s"},
		&cli.DurationFlag{Name: "lost-after", Usage: "how long after its call broke a worker counts as dead: the collectives of the others then fail and name it; 0: never",
			Destination: &o.lostAfter, DefaultText: "jobs.lost_after of the appliance, and else 10s with --min-workers, never without"},
		&cli.DurationFlag{Name: "min-rto", Usage: "least wait before a worker sends again", Destination: &o.minRTO, DefaultText: "1ms"},
		&cli.DurationFlag{Name: "max-rto", Usage: "longest wait before a worker sends again", Destination: &o.maxRTO, DefaultText: "250ms"},
		&cli.DurationFlag{Name: "silence", Usage: "how long a collective waits without progress before it fails and names who is missing",
			Destination: &o.silence, DefaultText: "30s"},
		&cli.DurationFlag{Name: "grace", Usage: "how long the job is kept without any worker", Destination: &o.grace, DefaultText: "the appliance's choice"},
		&cli.BoolFlag{Name: "dry-run", Usage: "only say whether it would be admitted, and what it would be given", Destination: &o.dryRun},
	}
}

func (o *jobOptions) spec(name string) (*v1.JobSpec, error) {
	if o.workers == 0 {
		return nil, usagef("job create: --workers is missing: how many ranks does the job have?")
	}
	for flag, value := range map[string]uint{"workers": o.workers, "elements": o.elements, "window": o.window, "priority": o.priority,
		"tor-slots": o.torSlots, "quorum": o.quorum, "max-lag": o.maxLag, "min-workers": o.minWorkers, "wire-bits": o.wireBits} {
		if value > math.MaxUint32 {
			return nil, usagef("job create: --%s %d is too large", flag, value)
		}
	}
	spec := &v1.JobSpec{Name: name, Workers: uint32(o.workers), Elements: uint32(o.elements), Window: uint32(o.window),
		Priority: uint32(o.priority), TorSlots: uint32(o.torSlots), FirstCome: o.firstCome, MinWorkers: uint32(o.minWorkers), WireBits: uint32(o.wireBits)}
	if o.minWorkers == 0 && o.said["settle"] {
		return nil, usagef("job create: --settle is of an elastic job: say --min-workers too")
	}
	if o.quorum == 0 && (o.after != 0 || o.maxLag != 0) {
		return nil, usagef("job create: --after and --max-lag are of a job with a quorum: say --quorum too")
	}
	if o.quorum != 0 {
		spec.Quorum = &v1.Quorum{Workers: uint32(o.quorum), MaxLag: uint32(o.maxLag)}
	}
	var known bool
	if spec.Tor, known = map[string]v1.TorUse{"": v1.TorUse_TOR_USE_UNSPECIFIED, "none": v1.TorUse_TOR_USE_NONE,
		"private": v1.TorUse_TOR_USE_PRIVATE, "shared": v1.TorUse_TOR_USE_SHARED}[o.tor]; !known {
		return nil, usagef("job create: --tor %q is none of none, private, shared", o.tor)
	}
	if spec.Publication, known = map[string]v1.Publication{"": v1.Publication_PUBLICATION_UNSPECIFIED,
		"multicast": v1.Publication_PUBLICATION_MULTICAST, "unicast": v1.Publication_PUBLICATION_UNICAST}[o.publication]; !known {
		return nil, usagef("job create: --publication %q is neither multicast nor unicast", o.publication)
	}
	after := new(*durationpb.Duration)
	if spec.Quorum != nil {
		after = &spec.Quorum.After
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
		into  **durationpb.Duration
	}{{"after", o.after, after}, {"min-rto", o.minRTO, &spec.MinRto}, {"max-rto", o.maxRTO, &spec.MaxRto}, {"silence", o.silence, &spec.Silence}, {"grace", o.grace, &spec.Grace},
		{"settle", o.settle, &spec.Settle}, {"lost-after", o.lostAfter, &spec.LostAfter}} {
		if d.value < 0 {
			return nil, usagef("job create: --%s %v is negative", d.flag, d.value)
		}
		if d.value > 0 || o.said[d.flag] {
			*d.into = durationpb.New(d.value)
		}
	}
	return spec, nil
}

func printCreated(w io.Writer, job *v1.Job, dryRun bool) error {
	name := job.Spec.GetName()
	if dryRun {
		fmt.Fprintf(w, "job %s would be admitted; nothing was changed\n", name)
	} else {
		fmt.Fprintf(w, "job %s is admitted, id %d\n", name, job.Id)
	}
	var p output.Pairs
	if least := job.Spec.GetMinWorkers(); least > 0 {
		p.Add("  workers", "%d to %d", least, job.Spec.GetWorkers())
	} else {
		p.Add("  workers", "%d, ranks 0 to %d", job.Spec.GetWorkers(), job.Spec.GetWorkers()-1)
	}
	var holdings output.Pairs
	addHoldings(&holdings, job)
	p.Append("  ", &holdings)
	p.Add("  kept", "for %s without a worker", output.Span(job.Spec.GetGrace()))
	if err := p.Write(w); err != nil {
		return err
	}
	if dryRun {
		return nil
	}
	rank := "RANK"
	if job.Spec.GetMinWorkers() > 0 {
		rank = "RANK, worker.WithAnyRank()"
	}
	_, err := fmt.Fprintf(w, `Workers join with worker.Join(ctx, ADDRESS, %q, %s): ADDRESS is api.listen of the
appliance's configuration (with a certificate for the job), or on this host its socket.
'spillctl workers %s' says who is missing.
`, name, rank, name)
	return err
}
