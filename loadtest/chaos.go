package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"spillway/loadtest/chaos"
	"spillway/loadtest/quantity"
)

// errChaos is the exit of a campaign that ran, and in which something did not hold.
var errChaos = errors.New("the job did not survive all of it unharmed")

// chaosOptions are the flags of a scenario.
type chaosOptions struct {
	chaos.Options
	size   quantity.Size
	rate   quantity.Rate
	output string
}

// chaosCommand is `spill-load chaos`, with a command for each scenario.
func chaosCommand(s streams) *cli.Command {
	command := &cli.Command{
		Name:  "chaos",
		Usage: "break a rack on purpose while its workers reduce, and check every bit",
		Description: `Each scenario is a kind of fault. Its command builds a rack, lets worker processes
reduce without a pause, and makes the fault again and again, at moments that the
seed chooses. Every result of every worker is compared, bit for bit, with a sum made
apart from the code under test. Needs root; leaves nothing behind, however it ends.

  spill-load chaos list                                     what there is
  spill-load chaos switch-reboot --help                     what exactly is done, and measured
  sudo spill-load chaos switch-reboot --count 20 --seed 7
  sudo spill-load chaos worker-kill --count 3 --output json | jq .recovery_p50_ms

The report, in this order, is API: scenario, count, survived, wrong_sums,
recovery_p50_ms, recovery_p99_ms (nearest rank over the faults survived; null without any).
More fields follow them. The exit code is 1 if a sum was wrong, if a fault was not survived, or
if anything else failed; failures[] says what.`,
		OnUsageError: onUsageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("chaos: there is no scenario %q: `spill-load chaos list` names them", c.Args().First())
			}
			return cli.ShowSubcommandHelp(c)
		},
		Before: func(*cli.Context) error { return nil },
	}
	command.Subcommands = append(command.Subcommands, chaosListCommand(s))
	for _, scenario := range chaos.Scenarios() {
		command.Subcommands = append(command.Subcommands, scenarioCommand(s, scenario))
	}
	for _, sub := range command.Subcommands {
		sub.OnUsageError, sub.Before, sub.HideHelpCommand = onUsageError, refuseArguments, true
	}
	return command
}

// chaosListCommand is `spill-load chaos list`.
func chaosListCommand(s streams) *cli.Command {
	var output string
	return &cli.Command{
		Name:  "list",
		Usage: "name the scenarios",
		Flags: []cli.Flag{outputFlag(&output)},
		Action: func(*cli.Context) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			return listScenarios(s.out, output)
		},
	}
}

// listedScenario is a scenario in the list's JSON.
type listedScenario struct {
	Scenario  string `json:"scenario"`
	Summary   string `json:"summary"`
	Recovery  string `json:"recovery"`
	Simulated string `json:"simulated,omitempty"`
}

func listScenarios(w io.Writer, output string) error {
	var all []listedScenario
	for _, scenario := range chaos.Scenarios() {
		all = append(all, listedScenario{scenario.Name, scenario.Summary, scenario.Clock, scenario.Simulated})
	}
	if output == outputJSON {
		return writeJSON(w, all)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, scenario := range all {
		fmt.Fprintf(t, "%s\t%s\n", scenario.Scenario, scenario.Summary)
	}
	return t.Flush()
}

// scenarioCommand is the command of one scenario.
func scenarioCommand(s streams, scenario chaos.Scenario) *cli.Command {
	o := &chaosOptions{size: 400_000, rate: 500_000_000}
	o.Daemon, o.Tor, o.Stderr = daemonProcess(s), torProcess(s), s.err
	command := &cli.Command{
		Name:        scenario.Name,
		Usage:       scenario.Summary,
		Description: wrapped(scenario.Story) + "\n\nRecovery is " + wrapped(scenario.Clock) + "." + simulatedNote(scenario),
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "count", Aliases: []string{"c"}, Value: scenario.DefaultCount(), Usage: "faults to make", Destination: &o.Count},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "of tensors, victims and moments", Destination: &o.Seed},
			&cli.IntFlag{Name: "workers", Aliases: []string{"n"}, Value: scenario.DefaultWorkers(), Usage: "worker processes, 2 to 63", Destination: &o.Workers},
			&cli.GenericFlag{Name: "size", Aliases: []string{"s"}, Value: &o.size, Usage: "`SIZE` of a tensor, like 400kB; a training has its own"},
			&cli.GenericFlag{Name: "rate", Aliases: []string{"r"}, Value: &o.rate, Usage: "`RATE` of each worker's link, each way, like 500mbit, or unshaped"},
			&cli.DurationFlag{Name: "deadline", Value: 20 * time.Second, Usage: "a fault is survived if the job goes on within this time", Destination: &o.Deadline},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "show what workers, daemons and ToR say", Destination: &o.Verbose},
			outputFlag(&o.output),
		},
		Action: func(c *cli.Context) error {
			o.Size, o.Rate = int64(o.size), uint64(o.rate)
			if err := checkOutput(o.output); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return usagef("chaos %s: %v", scenario.Name, err)
			}
			report, err := chaos.Run(c.Context, &scenario, o.Options)
			if report == nil {
				return err
			}
			return errors.Join(err, writeChaos(s.out, report, o.output), judgeChaos(report))
		},
	}
	if scenario.Lasts() {
		command.Flags = append(command.Flags,
			&cli.DurationFlag{Name: "duration", Aliases: []string{"d"}, Value: chaos.DefaultSoak, Usage: "how long faults are made, such as 1h", Destination: &o.Duration})
	}
	return command
}

// writeChaos writes a report in one of the forms of outputFlag.
func writeChaos(w io.Writer, report *chaos.Report, output string) error {
	if output == outputJSON {
		return report.WriteJSON(w)
	}
	return report.WriteTable(w)
}

// judgeChaos is an error unless all is well.
func judgeChaos(report *chaos.Report) error {
	if report.Good() {
		return nil
	}
	return fmt.Errorf("%w: %d of %d faults survived, %d wrong sums", errChaos, report.Survived, report.Count, report.WrongSums)
}

// wrapped breaks a text into lines for a terminal.
func wrapped(text string) string {
	const width = 90
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return strings.Join(append(lines, line), "\n")
}

// simulatedNote says how the same is shown without a network.
func simulatedNote(scenario chaos.Scenario) string {
	if scenario.Simulated == "" {
		return ""
	}
	return "\n\nThe simulated network has the like, by seed, in thousands of runs: " + scenario.Simulated + "."
}

// chaosWorkerCommand is a worker process of a campaign; it is started in a worker's namespace.
func chaosWorkerCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:   chaos.WorkerCommand,
		Usage:  "a worker process of `chaos`, which starts it",
		Hidden: true,
		Action: func(c *cli.Context) error { return chaos.RunWorker(c.Context, s.in, s.out) },
	}
}
