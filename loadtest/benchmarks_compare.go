package main

import (
	"encoding/json"
	"errors"
	"fmt"
)

// comparePlan is what is measured of Spillway and its peers.
func comparePlan() []section {
	compare := func(more ...string) []string {
		return append([]string{"compare", "--rounds", "1", "--output", "json"}, more...)
	}
	times := []column{
		{title: "Spillway p50, ms", key: systemSpillway, digits: 3}, {title: "Gloo, ms", key: systemGloo, digits: 3},
		{title: "Open MPI, ms", key: systemOpenMPI, digits: 3}, {title: "parameter server, ms", key: systemServer, digits: 3},
		{title: "× as fast as Gloo", key: "to." + systemGloo, digits: 2}, {title: "× as fast as Open MPI", key: "to." + systemOpenMPI, digits: 2},
		{title: "× as fast as the better of the two", key: "to_better", digits: 2}, {title: "× as fast as the parameter server", key: "to." + systemServer, digits: 2},
	}
	return []section{{
		title: "Beside Gloo, Open MPI and a parameter server, shaped links",
		text: "The same tensors through torch.distributed with Gloo, through Open MPI, and through a parameter server over TCP that was written for this comparison, in turn on the same links. " +
			"The peers have the offloads that hosts have for TCP. A share is of the wire limit of what the system must send: Spillway the tensor once, a host-only all-reduce 2·(n-1)/n of it.",
		rows: []row{
			{label: "4 workers, 500 Mbit/s, 40 MB", args: compare("--workers", "4", "--rates", "500mbit", "--sizes", "40MB", "--iterations", "5"), aim: "≥ 1.45 × the better of the two, share ≥ 95%", read: readCompare},
			{label: "8 workers, 250 Mbit/s, 20 MB", args: compare("--workers", "8", "--rates", "250mbit", "--sizes", "20MB", "--iterations", "5"), aim: "≥ 1.65 × the better of the two, share ≥ 95%", read: readCompare},
		},
		columns: append(times, column{title: "Spillway's share of the wire limit", key: "share." + systemSpillway, percent: true, digits: 1},
			column{title: "Gloo's", key: "share." + systemGloo, percent: true, digits: 1}, column{title: "Open MPI's", key: "share." + systemOpenMPI, percent: true, digits: 1}),
	}, {
		title: "Beside Gloo, Open MPI and a parameter server, unshaped links",
		text:  "The same where the machine's cores are the limit.",
		rows: []row{
			{label: "4 workers, 80 MB, E = 832", args: compare("--workers", "4", "--rates", "unshaped", "--sizes", "80MB", "--elements", "832", "--iterations", "5"), aim: "≥ 1.0 × Gloo, ≥ 3.3 × the parameter server", read: readCompare},
			{label: "4 workers, 4 kB", args: compare("--workers", "4", "--rates", "unshaped", "--sizes", "4kB", "--iterations", "500"), aim: "≥ 10 × the better of the two", read: readCompare},
		},
		columns: times,
	}}
}

// readCompare reads the report of a `spill-load compare` of all systems with one size on one rack, by what Spillway is to them. One with a wrong result is no measurement.
func readCompare(report []byte) (figure, error) {
	var r CompareReport
	if err := json.Unmarshal(report, &r); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	if !r.Correct {
		return nil, errors.New("the report says that a result was wrong")
	}
	if len(r.Results) != len(systemNames) {
		return nil, fmt.Errorf("the report has %d results, want one for each of %d systems", len(r.Results), len(systemNames))
	}
	f := figure{}
	for _, result := range r.Results {
		f[result.System] = result.P50MS
		if result.WireShare != nil {
			f["share."+result.System] = *result.WireShare
		}
		if result.System == systemSpillway {
			for name, ratio := range result.RatioTo {
				f["to."+name] = ratio
			}
		}
	}
	f["to_better"] = min(f["to."+systemGloo], f["to."+systemOpenMPI])
	return f, nil
}
