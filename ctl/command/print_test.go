package command

import (
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/ctl/golden"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon.Add(-d)) }

func exampleJobs() []*v1.Job {
	spec := func(name string, workers uint32) *v1.JobSpec {
		return &v1.JobSpec{Name: name, Workers: workers, Elements: 256, Window: 255, Priority: 64, Tor: v1.TorUse_TOR_USE_PRIVATE,
			MinRto: durationpb.New(time.Millisecond), MaxRto: durationpb.New(250 * time.Millisecond), Silence: durationpb.New(30 * time.Second),
			Grace: durationpb.New(10 * time.Minute)}
	}
	given := &v1.Allocation{Slots: 512, ClassElements: 256, Bytes: 512 * 1056, Region: &v1.Region{Base: 64, Slots: 64, Period: 256},
		Group: "239.77.0.3", WorkerPort: 9803}
	return []*v1.Job{
		{Spec: spec("resnet", 16), Id: 1, Generation: 3, State: v1.JobState_JOB_STATE_RUNNING, Path: v1.JobPath_JOB_PATH_TOR, Allocation: given,
			Present: 16, Created: ago(26 * time.Hour), Since: ago(3*time.Minute + 20*time.Second)},
		{Spec: spec("train", 4), Id: 2, State: v1.JobState_JOB_STATE_WAITING, Allocation: &v1.Allocation{Slots: 512, ClassElements: 256,
			Bytes: 512 * 1056, WorkerPort: 9804}, Present: 2, Missing: []uint32{2, 3}, Created: ago(12 * time.Second), Since: ago(12 * time.Second)},
		{Spec: spec("bert-large-run-7", 8), Id: 3, Generation: 1, State: v1.JobState_JOB_STATE_RUNNING, Path: v1.JobPath_JOB_PATH_DIRECT,
			Reason: "the ToR at 10.0.0.9:9559 is away: connection refused; sums are made by the aggregator alone",
			Allocation: &v1.Allocation{Slots: 512, ClassElements: 256, Bytes: 512 * 1056, Region: &v1.Region{Slots: 32768, Period: 256, Shared: true},
				WorkerPort: 9805}, Present: 8, Since: ago(76 * time.Hour)},
		{Spec: spec("idle", 2), Id: 4, Generation: 7, State: v1.JobState_JOB_STATE_WAITING, Allocation: given,
			CollectedAt: timestamppb.New(noon.Add(9*time.Minute + 50*time.Second)), Since: ago(10 * time.Second)},
	}
}

// TestTables holds what people see, and that it fits a terminal of 120 columns.
func TestTables(t *testing.T) {
	jobs := exampleJobs()
	for name, write := range map[string]func(w io.Writer) error{
		"jobs":       func(w io.Writer) error { return printJobs(w, jobs, noon) },
		"jobs-none":  func(w io.Writer) error { return printJobs(w, nil, noon) },
		"job":        func(w io.Writer) error { return printJob(w, jobs[0], noon) },
		"job-direct": func(w io.Writer) error { return printJob(w, jobs[2], noon) },
		"created":    func(w io.Writer) error { return printCreated(w, jobs[0], false) },
		"dry-run":    func(w io.Writer) error { return printCreated(w, jobs[1], true) },
		"node": func(w io.Writer) error {
			return printNode(w, &v1.GetNodeResponse{Name: "agg0", Version: "0.4.0", Kernel: "6.1.0-18-amd64", Started: ago(3 * time.Hour),
				Adopted: true, ProgramTag: "0123456789abcdef", Jobs: 2, WorkersPresent: 18,
				Interfaces: []*v1.Interface{{Name: "eth0", Address: "10.0.0.1", Mtu: 3520, Mode: "native", Up: true, SteeringRules: 8}, {Name: "eth1",
					Address: "10.1.0.1", Mtu: 1500, Mode: "generic"}},
				Capacity: &v1.Capacity{SlotClasses: []*v1.SlotClass{{Elements: 32, Slots: &v1.Amount{Total: 4096}, LargestFree: 4096}, {Elements: 256,
					Slots: &v1.Amount{Total: 4096, Used: 1024}, LargestFree: 2048}},
					Jobs: &v1.Amount{Total: 64, Used: 2}, Groups: &v1.Amount{Total: 65536, Used: 1}, TorSlots: &v1.Amount{Total: 32768, Used: 64},
					MemoryBytes: &v1.Amount{Total: 10 << 20, Used: 1 << 20}},
				Switch: v1.SwitchState_SWITCH_STATE_IN_SYNC, Warnings: []string{"eth1 is down"}}, noon)
		},
		"workers": func(w io.Writer) error {
			return printWorkers(w, []*v1.Worker{
				{Rank: 0, State: v1.WorkerState_WORKER_STATE_PRESENT, Address: "10.0.0.10", Description: "node10, pid 4711", Since: ago(time.Hour),
					Packets: 1234567, LastPacket: ago(2 * time.Millisecond)},
				{Rank: 1, State: v1.WorkerState_WORKER_STATE_PRESENT, Address: "10.0.0.11", Since: ago(time.Hour), Packets: 1200000,
					LastPacket: ago(4 * time.Second), WaitedFor: 12, Late: durationpb.New(4100 * time.Millisecond), ReleasedWithout: 4200,
					Lateness: &v1.Lateness{Bounds: []uint64{4e6, 8e6, 16e6}, Counts: []uint64{40, 50, 8, 2}, Sum: 1e9}},
				{Rank: 2, State: v1.WorkerState_WORKER_STATE_LOST, Address: "10.0.0.12", Since: ago(7 * time.Second)},
				{Rank: 3, State: v1.WorkerState_WORKER_STATE_MISSING},
			}, noon)
		},
		"job-quorum": func(w io.Writer) error {
			job := exampleJobs()[1]
			job.Spec.Quorum = &v1.Quorum{Workers: 3, After: durationpb.New(20 * time.Millisecond), MaxLag: 1530}
			return printJob(w, job, noon)
		},
		"job-lean": func(w io.Writer) error {
			job := exampleJobs()[1]
			job.Spec.WireBits = 16
			return printJob(w, job, noon)
		},
		"slots": func(w io.Writer) error {
			return printSlots(w, &v1.ListSlotsResponse{More: 41, Slots: []*v1.Slot{
				{Index: 3, Seq: 1027, Present: []uint32{0, 1, 2, 4, 5, 6, 7}, Missing: []uint32{3}, Elements: 256, Op: "SUM",
					Age: durationpb.New(4200 * time.Millisecond)},
				{Index: 4, Seq: 1028, Present: []uint32{0, 1, 2, 3, 4, 5, 6, 7}, Elements: 32, Op: "MAX", Complete: true,
					Age: durationpb.New(850 * time.Microsecond)},
			}})
		},
		"slots-none": func(w io.Writer) error { return printSlots(w, &v1.ListSlotsResponse{}) },
		"levels": func(w io.Writer) error {
			return printLevels(w, []*v1.Level{{Job: "resnet", Level: "tor", Contributions: 12345678, Share: 0.25, Published: 771604, Spilled: 1234,
				Preempted: 5, ResendEvicted: 17},
				{Job: "resnet", Level: "aggregator", Contributions: 37037034, Share: 0.75, Published: 2314814, Dropped: 3}})
		},
		"counters": func(w io.Writer) error {
			return printCounters(w, []*v1.Counter{{Level: "aggregator", Job: "resnet", Name: "data", Value: 12}, {Level: "aggregator", Job: "resnet",
				Name: "stale", Value: 1, Drop: true},
				{Level: "aggregator", Job: "resnet", Name: "probe"}, {Level: "tor", Name: "unknown_job", Value: 9, Drop: true}}, false)
		},
		"switch": func(w io.Writer) error {
			return printSwitch(w, &v1.GetSwitchResponse{State: v1.SwitchState_SWITCH_STATE_SYNCING, Reason: "2 entries are written",
				Since: ago(time.Second), Target: "10.0.0.9:9559", P4Runtime: "1.5.0", ElectionId: "1", Primary: true,
				PipelineCookie: 0xabcdef, Slots: 32768, Elements: 32, Tables: []*v1.Table{{Name: "job", Entries: 1, Wanted: 2, Size: 1024},
					{Name: "member", Entries: 17, Wanted: 19, Size: 16384}},
				Groups: []*v1.Group{{Id: 3, Job: "resnet", Ports: []uint32{1, 2, 3, 9}}}, SlotsReadable: true,
				Occupied: []*v1.TorSlot{{Index: 64, Job: "resnet", Seq: 1024, Present: []uint32{0, 1}, Missing: []uint32{2, 3}, Priority: 64}},
				Sessions: 2, Pushes: 1, Repairs: 3, LastCheck: ago(500 * time.Millisecond)}, true, noon)
		},
		"findings": func(w io.Writer) error {
			return printFindings(w, []*v1.Finding{{Check: "kernel", Level: v1.FindingLevel_FINDING_LEVEL_OK, Text: "fine"},
				{Check: "xdp-mode", Level: v1.FindingLevel_FINDING_LEVEL_WARNING, Text: "generic", Remedy: "use another NIC"},
				{Check: "workers", Level: v1.FindingLevel_FINDING_LEVEL_ERROR, Job: "train", Text: "rank 3 never joined", Remedy: "start it"}}, false)
		},
	} {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		golden.Check(t, name+".txt", b.String())
		for _, line := range strings.Split(b.String(), "\n") {
			// A reason of the appliance is as long as it is; the table itself must fit.
			if n := len([]rune(line)); n > 120 && !strings.Contains(line, "connection refused") {
				t.Errorf("%s: a line of %d columns: %s", name, n, line)
			}
		}
	}
}
