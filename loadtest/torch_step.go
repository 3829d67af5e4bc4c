package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// torchTimes is a line of examples/step.py, and what is made of all of them: in seconds.
type torchTimes struct {
	Step          int     `json:"step,omitempty"`
	Elements      int     `json:"elements"`
	Communication float64 `json:"communication"` // of the averages alone
	Whole         float64 `json:"whole"`         // of a step
}

// timed runs the steps once and returns the medians over the steps of the slowest rank's times.
func (o *torchOptions) timed(ctx context.Context, through string) (*torchTimes, error) {
	var mu sync.Mutex
	slowest := make([]torchTimes, o.steps)
	run := o.script("step.py", through, "--parameters", fmt.Sprint(o.parameters), "--steps", fmt.Sprint(o.steps), "--straggler", fmt.Sprint(o.straggler.Seconds()))
	err := run.run(ctx, o.streams, func(rank int, text []byte) error {
		var report torchTimes
		if err := json.Unmarshal(text, &report); err != nil {
			return fmt.Errorf("rank %d said %q: %w", rank, text, err)
		}
		if report.Step < 1 || report.Step > o.steps {
			return fmt.Errorf("rank %d reported step %d of %d", rank, report.Step, o.steps)
		}
		mu.Lock()
		defer mu.Unlock()
		s := &slowest[report.Step-1]
		s.Elements, s.Communication, s.Whole = report.Elements, max(s.Communication, report.Communication), max(s.Whole, report.Whole)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("steps through %s: %w", through, err)
	}
	median := func(of func(torchTimes) float64) float64 {
		var all []float64
		for _, s := range slowest {
			all = append(all, of(s))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return &torchTimes{
		Elements:      slowest[0].Elements,
		Communication: median(func(t torchTimes) float64 { return t.Communication }),
		Whole:         median(func(t torchTimes) float64 { return t.Whole }),
	}, nil
}

// time is the comparison of steps.
func (o *torchOptions) time(ctx context.Context) error {
	ours, err := o.timed(ctx, torchHook)
	if err != nil {
		return err
	}
	theirs, err := o.timed(ctx, torchGloo)
	if err != nil {
		return err
	}
	if o.output == outputJSON {
		return json.NewEncoder(o.out).Encode(map[string]*torchTimes{"spillway": ours, "gloo": theirs})
	}
	fmt.Fprintf(o.out, "%d parameters, %d ranks, links of %s, %s of packets lost, straggler %s\n\n", ours.Elements, o.workers, &o.rate, &o.loss, o.straggler)
	fmt.Fprintln(o.out, "                 Spillway      gloo   ratio")
	fmt.Fprintf(o.out, "  communication %7.2f s %7.2f s %6.2fx\n", ours.Communication, theirs.Communication, theirs.Communication/ours.Communication)
	fmt.Fprintf(o.out, "  whole step    %7.2f s %7.2f s %6.2fx\n", ours.Whole, theirs.Whole, theirs.Whole/ours.Whole)
	return nil
}
