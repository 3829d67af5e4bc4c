package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"spillway/xdp"
)

// benchLive measures the aggregator with live frames at one E and one size of job after the other.
func (o *benchOptions) benchLive(ctx context.Context, done func() error) (results []xdp.LiveResult, err error) {
	for _, e := range o.elements {
		for _, workers := range o.workers {
			r, err := xdp.RunLiveBench(ctx, e, workers, o.rounds)
			if err != nil {
				return nil, err
			}
			results = append(results, r...)
			if err := done(); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

func writeLiveBench(w io.Writer, results []xdp.LiveResult) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "scenario\telements\tworkers\tmillion packets/s\tbare\tlink alone\tpayload a core, Gbit/s\tbare\ttime/bare\tto one core\tlost")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.2f\t%.2f\t%.2f\t%.1f\t%.1f\t%.2f\t%.2f\t%.1f%%\n", r.Scenario, r.Elements, r.Workers,
			r.PacketsPerS/1e6, r.BarePacketsPerS/1e6, r.LinkPacketsPerS/1e6, r.PayloadGbps, r.BareGbps, r.Ratio, r.ToOneCore, 100*r.Lost)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
