package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"spillway/p4/softtor/dataplane"
	"spillway/xdp"
)

// dropCost is what a packet costs at a level that drops it.
type dropCost struct {
	Level  string  `json:"level"` // as in the API: aggregator or tor
	Reason string  `json:"reason"`
	NS     float64 `json:"ns"`
}

// benchDrops measures both levels.
func (o *benchOptions) benchDrops(done func() error) (results []dropCost, err error) {
	aggregator, err := xdp.RunDropBench(o.rounds)
	if err != nil {
		return nil, err
	}
	for _, c := range aggregator {
		results = append(results, dropCost{"aggregator", c.Reason, c.NS})
	}
	if err := done(); err != nil {
		return nil, err
	}
	tor, err := dataplane.RunDropBench(o.rounds)
	if err != nil {
		return nil, err
	}
	for _, c := range tor {
		results = append(results, dropCost{"tor", c.Reason, c.NS})
	}
	return results, done()
}

func writeDropBench(w io.Writer, results []dropCost) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "level\treason\tns\tmillion packets a second and core")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%.1f\n", r.Level, r.Reason, r.NS, 1e3/r.NS)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
