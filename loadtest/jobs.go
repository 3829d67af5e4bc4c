package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"spillway/loadtest/quantity"
	"spillway/loadtest/rack"
)

// A jobSpec is a job as the command line describes it. What it leaves out is zero, and the run's.
type jobSpec struct {
	name      string
	priority  int
	size      quantity.Size
	count     int           // all-reduces
	start     time.Duration // after the first moment of the measurement
	straggler time.Duration // for which the job's last worker pauses before each all-reduce
	hosts     []int         // the rack's workers that it runs on
}

// jobsFlag is --jobs: how many like each other, or, each time it is given, one job's description.
type jobsFlag struct {
	alike int
	specs []jobSpec
}

// Set implements flag.Value.
func (f *jobsFlag) Set(text string) error {
	if n, err := strconv.Atoi(text); err == nil {
		if n < 1 || n > maxRunJobs {
			return fmt.Errorf("%d jobs: want 1 to %d", n, maxRunJobs)
		}
		if f.specs != nil {
			return fmt.Errorf("either a number of jobs or their descriptions, not both")
		}
		f.alike = n
		return nil
	}
	if f.alike != 0 {
		return fmt.Errorf("either a number of jobs or their descriptions, not both")
	}
	spec, err := parseJobSpec(text)
	if err != nil {
		return fmt.Errorf("job %q: %w", text, err)
	}
	if len(f.specs) == maxRunJobs {
		return fmt.Errorf("more than %d jobs", maxRunJobs)
	}
	f.specs = append(f.specs, spec)
	return nil
}

// String implements flag.Value.
func (f *jobsFlag) String() string {
	if f == nil || f.specs == nil {
		return ""
	}
	return fmt.Sprintf("%d jobs", len(f.specs))
}

// maxRunJobs at once: each is a process at every worker.
const maxRunJobs = 16

// parseJobSpec reads "name=a,priority=64,size=10MB,count=5,start=10ms,straggler=20ms,on=0-3".
func parseJobSpec(text string) (jobSpec, error) {
	var spec jobSpec
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return spec, fmt.Errorf("%q is not key=value", part)
		}
		if seen[key] {
			return spec, fmt.Errorf("%s is there twice", key)
		}
		seen[key] = true
		if err := spec.set(key, value); err != nil {
			return spec, err
		}
	}
	return spec, nil
}

// set sets one key of a description.
func (s *jobSpec) set(key, value string) (err error) {
	switch key {
	case "name":
		if value == "" {
			return fmt.Errorf("an empty name")
		}
		s.name = value
	case "priority":
		s.priority, err = parseWithin(key, value, 1, rack.MaxPriority)
	case "size":
		s.size, err = quantity.ParseSize(value)
	case "count":
		s.count, err = parseWithin(key, value, 1, maxIterations)
	case "start":
		s.start, err = parseDelay(key, value)
	case "straggler":
		s.straggler, err = parseDelay(key, value)
	case "on":
		s.hosts, err = parseHosts(value)
	default:
		err = fmt.Errorf("unknown key %q (name, priority, size, count, start, straggler, on)", key)
	}
	return err
}

func parseWithin(key, value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s is %q, want %d to %d", key, value, least, most)
	}
	return n, nil
}

func parseDelay(key, value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d > time.Hour {
		return 0, fmt.Errorf("%s is %q, want a time like 20ms", key, value)
	}
	return d, nil
}

// parseHosts reads "2" or "0-3".
func parseHosts(value string) ([]int, error) {
	from, to, ranged := strings.Cut(value, "-")
	if !ranged {
		to = from
	}
	first, err := parseWithin("on", from, 0, rack.MaxWorkers-1)
	if err != nil {
		return nil, err
	}
	last, err := parseWithin("on", to, first, rack.MaxWorkers-1)
	if err != nil {
		return nil, err
	}
	var hosts []int
	for host := first; host <= last; host++ {
		hosts = append(hosts, host)
	}
	return hosts, nil
}
