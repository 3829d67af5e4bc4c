package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"spillway/p4/softtor/dataplane"
)

// benchTor measures the software ToR's program at one E after the other.
func (o *benchOptions) benchTor(done func() error) (results []dataplane.BenchResult, err error) {
	for _, e := range o.elements {
		r, err := dataplane.RunBench([]int{e}, o.rounds)
		if err != nil {
			return nil, err
		}
		results = append(results, r...)
		if err := done(); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func writeTorBench(w io.Writer, results []dataplane.BenchResult) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "elements\tclaim ns\tmerge ns\tcomplete ns\tpreempt ns\tspill ns\tresend ns\tbare ns\tmerge/bare\t")
	for _, r := range results {
		fmt.Fprintf(t, "%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t\n",
			r.Elements, r.ClaimNS, r.MergeNS, r.CompleteNS, r.PreemptNS, r.SpillNS, r.ResendNS, r.BareNS, r.MergeRatio)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
