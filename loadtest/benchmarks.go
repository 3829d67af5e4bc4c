package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// benchmarksOptions are what can be chosen.
type benchmarksOptions struct {
	write    string
	rounds   int
	sections []string
	streams
}

func benchmarksCommand(s streams) *cli.Command {
	o := benchmarksOptions{streams: s}
	return &cli.Command{
		Name:  "benchmarks",
		Usage: "make all the measurements of docs/benchmarks.md and write that page",
		Description: "Each figure comes from another spill-load process, with the command that the page gives for it.\n" +
			"Takes some minutes; needs root and an otherwise idle machine.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "write", Usage: "the page's `file`; without it the page goes to stdout", Destination: &o.write},
			&cli.StringSliceFlag{Name: "section", Usage: "only sections with this `text` in their title, again for more; the page keeps what it says of the others"},
			&cli.IntFlag{Name: "rounds", Usage: "how often everything is measured; the page has the medians", Value: 5, Destination: &o.rounds},
		},
		Action: func(c *cli.Context) error {
			if o.rounds < 1 {
				return usagef("%d rounds: at least one is needed", o.rounds)
			}
			o.sections = c.StringSlice("section")
			return o.run(c.Context)
		},
	}
}

func (o *benchmarksOptions) run(ctx context.Context) error {
	plan := benchmarkPlan()
	if !slices.ContainsFunc(plan, o.selected) {
		return usagef("benchmarks: no section's title has any of %q", o.sections)
	}
	kept, err := o.kept()
	if err != nil {
		return err
	}
	var page strings.Builder
	writePageHead(&page, thisMachine(), o.rounds)
	for _, s := range plan {
		if !o.selected(s) {
			page.WriteString(kept[s.title])
			continue
		}
		values, reports, err := o.measure(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		s.write(&page, values)
		if s.plot != nil && o.write != "" {
			if err := s.draw(filepath.Dir(o.write), values, reports); err != nil {
				return fmt.Errorf("%s: %w", s.title, err)
			}
		}
	}
	if o.write == "" {
		_, err := fmt.Fprint(o.out, page.String())
		return err
	}
	if err := os.WriteFile(o.write, []byte(page.String()), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	fmt.Fprintf(o.err, "wrote %s\n", o.write)
	return nil
}

// selected reports whether a section is to be measured.
func (o *benchmarksOptions) selected(s section) bool {
	return len(o.sections) == 0 || slices.ContainsFunc(o.sections, func(text string) bool {
		return strings.Contains(strings.ToLower(s.title), strings.ToLower(text))
	})
}

// kept is what the page has of each section, by title, if only some are measured.
func (o *benchmarksOptions) kept() (map[string]string, error) {
	if o.write == "" || len(o.sections) == 0 {
		return nil, nil
	}
	page, err := os.ReadFile(o.write)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	return splitPage(string(page)), nil
}

// measure makes a section's figures: values[row][column], medians over the
// rounds, and the reports of the last one, by command. Every round runs all of the section's commands in turn, so that a ratio is of runs side by side.
func (o *benchmarksOptions) measure(ctx context.Context, s section) (values [][]float64, reports map[string]json.RawMessage, err error) {
	samples := make([][][]float64, len(s.rows))
	for i := range samples {
		samples[i] = make([][]float64, len(s.columns))
	}
	for round := range o.rounds {
		reports = make(map[string]json.RawMessage) // rows may share one
		figures := make([]figure, len(s.rows))
		for i, row := range s.rows {
			key := row.command()
			if _, ran := reports[key]; !ran {
				fmt.Fprintf(o.err, "round %d of %d: spill-load %s\n", round+1, o.rounds, key)
				output, err := runSelf(ctx, row.args)
				if err != nil {
					return nil, nil, fmt.Errorf("spill-load %s: %w", key, err)
				}
				reports[key] = output
			}
			var err error
			if figures[i], err = row.read(reports[key]); err != nil {
				return nil, nil, fmt.Errorf("spill-load %s: %w", key, err)
			}
		}
		for i := range s.rows {
			for j, c := range s.columns {
				value, err := c.value(figures[i], figures[s.rows[i].base])
				if err != nil {
					return nil, nil, err
				}
				samples[i][j] = append(samples[i][j], value)
			}
		}
	}
	values = make([][]float64, len(s.rows))
	for i, row := range samples {
		for _, column := range row {
			values[i] = append(values[i], median(column))
		}
	}
	return values, reports, nil
}

// runSelf runs this program with other arguments and returns what it says on stdout.
func runSelf(ctx context.Context, args []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var said strings.Builder
	cmd.Stderr = &said
	output, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(err, errors.New(strings.TrimSpace(said.String())))
	}
	return output, nil
}

// median of at least one value; of an even number, the mean of the middle two.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
