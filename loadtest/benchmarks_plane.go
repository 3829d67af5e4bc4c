package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// pathSection is the aggregator's whole path, without a network.
func pathSection(bench []string) section {
	s := section{
		title: "The aggregator, a chunk",
		text: "The whole life of chunks on one core, without a network: a contribution of each of n workers, of which the first claims the slot, the last completes and publishes " +
			"the sum, and those between are merged. In nanoseconds a packet, on average over a chunk's; beside it, in the same run, the bare loop over the same packets and slots.",
		columns: []column{
			{title: "full path, ns", key: "packet_ns"}, {title: "bare loop, ns", key: "bare_ns"}, {title: "full path ÷ bare", key: "ratio", digits: 2},
			{title: "payload a core, Gbit/s", key: "payload_gbps", digits: 1}, {title: "bare, Gbit/s", key: "bare_gbps", digits: 1},
		},
	}
	for _, e := range []int{32, 256, 832} {
		for _, n := range []int{4, 8} {
			aim := ""
			if e == 256 {
				aim = "≤ 1.6 × the bare loop (goal: 1.3)"
			}
			s.rows = append(s.rows, row{label: fmt.Sprintf("E = %d, n = %d", e, n), args: bench, aim: aim, read: readPath(e, n)})
		}
	}
	return s
}

// readPath reads what chunks of so many workers cost from the report of `spill-load bench`.
func readPath(elements, workers int) func([]byte) (figure, error) {
	return func(report []byte) (figure, error) {
		r, err := benchOf(report, elements)
		if err != nil {
			return nil, err
		}
		encoded, err := json.Marshal(r["full_path"])
		if err != nil {
			return nil, fmt.Errorf("read the full path: %w", err)
		}
		return readWhere(encoded, "workers", float64(workers))
	}
}

// liveSection is the aggregator behind a link.
func liveSection() section {
	s := section{
		title: "The aggregator, live frames",
		text: "Frames through a veth link with a receive queue for each core: a core makes them, sends them, takes them in at the other end and runs the program there, and RESULTs go back " +
			"over the link. Against the bare loop in the aggregator's place, in the same run; link alone is with a program that does nothing. Two cores with a job each scale as cores do; " +
			"on every other chunk of one job they share its parameters; on the same chunks they contend for the slots, and wait for each other.",
		columns: []column{
			{title: "packets/s", key: "packets_per_s"}, {title: "with the bare loop", key: "bare_packets_per_s"}, {title: "link alone", key: "link_packets_per_s"},
			{title: "payload a core, Gbit/s", key: "payload_gbps", digits: 1}, {title: "time ÷ bare", key: "ratio", digits: 2}, {title: "to one core", key: "to_one_core", digits: 2},
		},
	}
	args := []string{"bench", "--live", "--elements", "256", "--rounds", "3", "--output", "json"}
	for _, n := range []int{4, 8} {
		for i, scenario := range []string{"one core", "two cores, a job each", "two cores, one job, every other chunk", "two cores, the same chunks"} {
			aim := ""
			if i == 0 {
				aim = "time ≤ 1.6 × the bare loop, 10 Gbit/s a core"
			}
			s.rows = append(s.rows, row{label: fmt.Sprintf("n = %d, %s", n, scenario), args: args, aim: aim, read: readLive(n, scenario)})
		}
	}
	return s
}

// readLive reads one scenario from the report of `spill-load bench --live`.
func readLive(workers int, scenario string) func([]byte) (figure, error) {
	return func(report []byte) (figure, error) {
		return readWhere(report, "workers", float64(workers), "scenario", scenario)
	}
}

// growthSection is what jobs cost.
func growthSection() section {
	s := section{
		title: "Growth with the number of jobs",
		text: "What an aggregator costs that is made for a number of jobs of 8 workers, 256 elements a chunk and a ring of 256 slots, and has them. A job costs the same however many " +
			"there are beside it: memory of the kernel's maps, most of which are the slots, memory of the daemon's process, and the time to add it and to read its counters, members and slots.",
		columns: []column{
			{title: "maps, bytes", key: "map_bytes"}, {title: "maps, bytes a job", key: "map_bytes_per_job"}, {title: "heap, bytes a job", key: "heap_bytes_per_job"},
			{title: "add, ms", key: "add_ms", digits: 2}, {title: "counters, ms", key: "counters_ms", digits: 3}, {title: "members, ms", key: "members_ms", digits: 3},
			{title: "slots, ms", key: "slots_ms", digits: 2}, {title: "packet and system call, ns", key: "packet_ns"},
		},
	}
	for _, jobs := range growthJobs {
		s.rows = append(s.rows, row{
			label: strconv.Itoa(jobs) + " jobs", args: []string{"bench", "--growth", "--output", "json"},
			read: readGrowth("aggregator", "jobs", float64(jobs)),
		})
	}
	return s
}

// tensorSection is what tensors cost.
func tensorSection() section {
	s := section{
		title: "Growth with the size of the tensor",
		text: "What a worker's engine has for a job of window 127 and 256 elements a chunk, besides the tensor itself: from its start on, the ring of chunks and results, which depends on window and E alone; " +
			"and for an all-reduce, which is submitted without touching the tensor, an exponent for each of its chunks.",
		columns: []column{{title: "engine, bytes", key: "engine_bytes"}, {title: "all-reduce, bytes", key: "submit_bytes"}, {title: "submit, ms", key: "submit_ms", digits: 3}},
	}
	for _, bytes := range growthTensors {
		for _, workers := range growthWorkers {
			s.rows = append(s.rows, row{
				label: fmt.Sprintf("%g MB, %d workers", float64(bytes)/1e6, workers), args: []string{"bench", "--growth", "--output", "json"},
				read: readGrowth("worker", "tensor_bytes", float64(bytes), "workers", float64(workers)),
			})
		}
	}
	return s
}

// readGrowth reads a result of one part of the report of `spill-load bench --growth`.
func readGrowth(part string, where ...any) func([]byte) (figure, error) {
	return func(report []byte) (figure, error) {
		var parts map[string]json.RawMessage
		if err := json.Unmarshal(report, &parts); err != nil {
			return nil, fmt.Errorf("read the report: %w", err)
		}
		return readWhere(parts[part], where...)
	}
}

// readWhere reads the numbers of the one result whose keys have these values: key, value, key, value.
func readWhere(report []byte, where ...any) (figure, error) {
	var results []map[string]any
	if err := json.Unmarshal(report, &results); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
next:
	for _, r := range results {
		for i := 0; i < len(where); i += 2 {
			if r[where[i].(string)] != where[i+1] {
				continue next
			}
		}
		f := figure{}
		for key, value := range r {
			if number, ok := value.(float64); ok {
				f[key] = number
			}
		}
		return f, nil
	}
	return nil, errors.New("the report has nothing about " + fmt.Sprint(where...))
}
