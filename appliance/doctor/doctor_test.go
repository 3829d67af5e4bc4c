package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "spillway/appliance/api/spillway/v1"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon.Add(-d)) }

const job = "train"

// healthy is a set-up in which everything moves: two ranks through a ToR.
func healthy() Sources {
	address := netip.MustParseAddr("10.0.0.1")
	worker := func(rank uint32) *v1.Worker {
		return &v1.Worker{Rank: rank, State: v1.WorkerState_WORKER_STATE_PRESENT, Address: fmt.Sprintf("10.0.0.1%d", rank), Since: ago(time.Hour),
			Packets: 1000, LastPacket: ago(time.Millisecond), Lateness: &v1.Lateness{Bounds: []uint64{4e6, 8e6}, Counts: []uint64{9000, 900, 100}, Sum: 9e9}}
	}
	count := func(level, of, name string, value uint64, drop bool) *v1.Counter {
		return &v1.Counter{Level: level, Job: of, Name: name, Value: value, Drop: drop}
	}
	s := Sources{
		Now: noon,
		Node: &v1.GetNodeResponse{Name: "agg0", ProgramTag: "aa",
			Interfaces: []*v1.Interface{{Name: "eth0", Address: "10.0.0.1", Mtu: 1500, Mode: "native", Up: true}},
			Switch:     v1.SwitchState_SWITCH_STATE_IN_SYNC},
		Jobs: []*v1.Job{{Spec: &v1.JobSpec{Name: job, Workers: 2, Elements: 256, Window: 255}, Generation: 1, State: v1.JobState_JOB_STATE_RUNNING,
			Path: v1.JobPath_JOB_PATH_TOR, Present: 2, Since: ago(time.Hour),
			Allocation: &v1.Allocation{Group: "239.77.0.1", WorkerPort: 9801, Region: &v1.Region{Slots: 256, Period: 256}}}},
		Workers: map[string][]*v1.Worker{job: {worker(0), worker(1)}},
		Slots:   map[string]*v1.ListSlotsResponse{job: {}},
		Switch: &v1.GetSwitchResponse{State: v1.SwitchState_SWITCH_STATE_IN_SYNC, Target: "10.0.0.9:9559", Since: ago(time.Hour), Primary: true,
			ElectionId: "1", Tables: []*v1.Table{{Name: "job", Entries: 1, Wanted: 1}}},
		Host: Host{Kernel: "6.1.0-18-amd64", Links: []Link{{Name: "eth0", Index: 2, Up: true, Carrier: true, MTU: 1500,
			Addresses: []netip.Addr{address}, Mode: "native", Program: 7, Tag: "aa", Queues: 1}}, Pins: Pins{Dir: "/sys/fs/bpf/spillway"},
			MemoryAvailable: 1 << 30},
		Between: time.Second,
		Counters: []*v1.Counter{
			count("aggregator", "", "unknown_job", 3, true),
			count("aggregator", job, "data", 1000, false), count("aggregator", job, "published", 300, false),
			count("aggregator", job, "result_resent", 2, false), count("aggregator", job, "stale", 1, true), count("aggregator", job, "bad_cookie", 0, true),
			count("tor", job, "claimed", 100, false), count("tor", job, "completed", 100, false),
		},
		Before: []*v1.Counter{count("aggregator", "", "unknown_job", 3, true), count("aggregator", job, "data", 100, false)},
	}
	return s
}

func set(s *Sources, level, of, name string, value uint64) {
	for _, c := range s.Counters {
		if c.Level == level && c.Job == of && c.Name == name {
			c.Value = value
			return
		}
	}
	s.Counters = append(s.Counters, &v1.Counter{Level: level, Job: of, Name: name, Value: value, Drop: dropReasons[name].means != ""})
}

func TestAHealthySetUpHasNoFinding(t *testing.T) {
	checks := map[string]bool{}
	for _, f := range Diagnose(context.Background(), healthy()) {
		checks[f.Check] = true
		if f.Level != v1.FindingLevel_FINDING_LEVEL_OK {
			t.Errorf("%v", f)
		}
	}
	for _, check := range []string{"kernel", "pins", "memory", "clock", "interface", "xdp", "xdp-mode", "steering", "switch", "mtu", "region",
		"workers", "lateness", "chunks", "multicast", "drops"} {
		if !checks[check] {
			t.Errorf("the check %s was not made, or does not say that it found nothing", check)
		}
	}
}

const (
	ok      = v1.FindingLevel_FINDING_LEVEL_OK
	warning = v1.FindingLevel_FINDING_LEVEL_WARNING
	failure = v1.FindingLevel_FINDING_LEVEL_ERROR
)

// TestFindings breaks one thing at a time: the one finding that comes of it has a level, words and a remedy.
func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(s *Sources)
		check  string
		level  v1.FindingLevel
		says   string // in the text
		do     string // in the remedy
	}{
		"old kernel": {func(s *Sources) { s.Host.Kernel = "5.10.0-28" }, "kernel", failure, "older than 5.15", "boot"},
		"kernel lacks": {func(s *Sources) { s.Host.Missing = []Feature{{"bpf_spin_lock", "5.1", errors.New("not supported")}} }, "kernel", failure,
			"bpf_spin_lock", "CONFIG_BPF"},
		"not root": {func(s *Sources) {
			s.Host.Missing = []Feature{{"a", "1", fs.ErrPermission}, {"b", "1", fs.ErrPermission}}
		}, "kernel", warning, "could not be tried", "sudo"},
		"no bpffs":        {func(s *Sources) { s.Host.Pins.Err = errors.New("/sys/fs/bpf is not on a bpffs") }, "pins", failure, "bpffs", "mount -t bpf"},
		"no memory":       {func(s *Sources) { s.Host.MemoryAvailable = 1 << 20 }, "memory", warning, "1 MiB", "aggregator.slots"},
		"clock":           {func(s *Sources) { s.Jobs[0].Since = ago(-time.Hour) }, "clock", warning, "set back", "chrony"},
		"no interface":    {func(s *Sources) { s.Host.Links[0] = Link{Name: "eth0"} }, "interface", failure, "no interface eth0", "restart"},
		"down":            {func(s *Sources) { s.Host.Links[0].Up = false }, "interface", failure, "is down", "ip link set eth0 up"},
		"no carrier":      {func(s *Sources) { s.Host.Links[0].Carrier = false }, "interface", failure, "carrier", "cable"},
		"no address":      {func(s *Sources) { s.Host.Links[0].Addresses = nil }, "interface", failure, "10.0.0.1", "ip address add"},
		"detached":        {func(s *Sources) { s.Host.Links[0].Mode = "" }, "xdp", failure, "took the aggregator off", "restart spillwayd"},
		"another program": {func(s *Sources) { s.Host.Links[0].Tag = "bb" }, "xdp", failure, "not the aggregator", "bpftool prog"},
		"generic":         {func(s *Sources) { s.Host.Links[0].Mode = "generic" }, "xdp-mode", warning, "generic", "native XDP"},
		"MTU":             {func(s *Sources) { s.Host.Links[0].MTU = 1000 }, "mtu", failure, "1080 bytes", "--elements 224"},
		"ToR away": {func(s *Sources) { s.Switch.State, s.Switch.Reason = v1.SwitchState_SWITCH_STATE_AWAY, "refused" }, "switch", failure,
			"refused", "switch.target"},
		"ToR away, direct": {func(s *Sources) {
			s.Switch.State = v1.SwitchState_SWITCH_STATE_AWAY
			s.Jobs[0].Path, s.Jobs[0].Allocation.Region = v1.JobPath_JOB_PATH_DIRECT, nil
		}, "switch", warning, "aggregator alone", "10.0.0.9:9559"},
		"backup": {func(s *Sources) { s.Switch.State = v1.SwitchState_SWITCH_STATE_BACKUP }, "switch", failure, "another controller",
			"switch.election"},
		"syncing for ever": {func(s *Sources) { s.Switch.State = v1.SwitchState_SWITCH_STATE_SYNCING }, "switch", failure, "should take seconds", "journalctl"},
		"repairs":          {func(s *Sources) { s.Switch.Repairs = 2 }, "switch", warning, "2 entries", "other controller"},
		"entries missing":  {func(s *Sources) { s.Switch.Tables[0].Entries = 0 }, "switch", failure, "table job", "repaired"},
		"past the ToR":     {func(s *Sources) { s.Jobs[0].Path = v1.JobPath_JOB_PATH_DIRECT }, "region", warning, "goes past it", "join again"},
		"ToR sums nothing": {func(s *Sources) { set(s, "tor", job, "claimed", 0); set(s, "tor", job, "completed", 0) }, "region", warning,
			"summed nothing", "cabling"},
		"never joined": {func(s *Sources) {
			s.Workers[job][0].State, s.Workers[job][1].State = v1.WorkerState_WORKER_STATE_JOINED, v1.WorkerState_WORKER_STATE_MISSING
		}, "workers", failure, "rank 1 never joined; rank 0 wait", "start the process"},
		"dead": {func(s *Sources) { s.Workers[job][1].State = v1.WorkerState_WORKER_STATE_DEAD }, "workers", failure,
			"rank 1 (10.0.0.11) is dead: its call broke 1h0m0s ago", "--min-workers"},
		"dead, elastic": {func(s *Sources) {
			s.Jobs[0].Spec.MinWorkers = 1
			s.Workers[job][1].State = v1.WorkerState_WORKER_STATE_DEAD
		}, "workers", failure, "rank 1 (10.0.0.11) is dead", "Rejoin"},
		"waits, elastic": {func(s *Sources) {
			s.Jobs[0].Spec.MinWorkers, s.Jobs[0].Ranks = 1, 1
			s.Workers[job][0].State = v1.WorkerState_WORKER_STATE_PRESENT
			s.Workers[job][1].State = v1.WorkerState_WORKER_STATE_JOINED
			s.Workers[job] = append(s.Workers[job], &v1.Worker{Rank: 2, State: v1.WorkerState_WORKER_STATE_MISSING})
		}, "workers", warning, "1 wait for the next generation", "AgreeToRejoin"},
		"lost": {func(s *Sources) { s.Workers[job][1].State = v1.WorkerState_WORKER_STATE_LOST }, "workers", failure,
			"rank 1 (10.0.0.11) was lost 1h0m0s ago", "process"},
		"late": {func(s *Sources) {
			s.Workers[job][1].WaitedFor, s.Workers[job][1].Late = 5, durationpb.New(3*time.Second)
		}, "workers", failure, "rank 1 (10.0.0.11) is late: 5 chunks wait for it, the oldest for 3s", "process"},
		"holds the others up": {func(s *Sources) { s.Workers[job][1].Lateness.Sum = 255 * 900e9 }, "lateness", warning,
			"rank 1 (10.0.0.11) holds the others up: they stood still for it 25% of the time since the generation began; half of its contributions came within 4ms of the first, 99% within 8ms", "--quorum"},
		"released without it": {func(s *Sources) {
			s.Jobs[0].Spec.Quorum, s.Workers[job][1].ReleasedWithout = &v1.Quorum{Workers: 1}, 2000
		}, "lateness", warning, "rank 1 (10.0.0.11) is late: 2000 sums (20%) were released without it", "--after"},
		"never heard of": {func(s *Sources) {
			s.Workers[job][1].WaitedFor, s.Workers[job][1].Late, s.Workers[job][1].Packets = 5, durationpb.New(3*time.Second), 0
		}, "workers", failure, "no packet of it ever", "firewall"},
		"left too early": {func(s *Sources) {
			s.Workers[job][1].State, s.Workers[job][1].WaitedFor, s.Workers[job][1].Late = v1.WorkerState_WORKER_STATE_LEFT, 5, durationpb.New(3*time.Second)
		}, "workers", failure, "fewer collectives", "same sequence"},
		"chunks": {func(s *Sources) {
			s.Slots[job].Slots = []*v1.Slot{{Seq: 9, Missing: []uint32{1}, Age: durationpb.New(4 * time.Second)}, {Seq: 10, Missing: []uint32{0},
				Age: durationpb.New(3 * time.Second)}, {Seq: 11, Missing: []uint32{0}, Age: durationpb.New(time.Millisecond)}}
		}, "chunks", failure, "2 chunks wait at the aggregator for longer than 2s, the oldest, chunk 9, for 4s: for ranks 0 and 1", "spillctl workers train"},
		"multicast": {func(s *Sources) {
			set(s, "aggregator", job, "published", 20)
			set(s, "tor", job, "completed", 0)
			set(s, "aggregator", job, "result_resent", 40)
		}, "multicast", failure, "results do not arrive by multicast: lately 20", "--publication unicast"},
		"multicast, one": {func(s *Sources) { set(s, "aggregator", job, "result_resent", 400); s.Workers[job][1].Packets = 4000 }, "multicast",
			failure, "do not arrive by multicast at rank 1", "IGMP"},
		"multicast, lossy":   {func(s *Sources) { set(s, "aggregator", job, "result_resent", 60) }, "multicast", warning, "get lost on the way", "congested"},
		"drops":              {func(s *Sources) { set(s, "aggregator", job, "bad_cookie", 17) }, "drops", failure, "bad_cookie): 17 in 1s, 17 in all", "end it"},
		"drops at the ToR":   {func(s *Sources) { set(s, "tor", job, "bad_direction", 17) }, "drops", failure, "the ToR drops", "switch.hosts"},
		"drops of no job":    {func(s *Sources) { set(s, "aggregator", "", "unknown_job", 5) }, "drops", failure, "unknown_job): 2 in 1s, 5 in all", "end it"},
		"old run at the ToR": {func(s *Sources) { set(s, "tor", job, "stale", 5) }, "drops", failure, "another generation", "earlier run"},
		"spoofed at the ToR": {func(s *Sources) { set(s, "tor", job, "not_member", 5) }, "drops", failure, "the port by which they came", "switch.hosts"},
		"many stale":         {func(s *Sources) { set(s, "aggregator", job, "stale", 500) }, "drops", warning, "stale", "congested"},
		"a reason unheard": {func(s *Sources) {
			s.Counters = append(s.Counters, &v1.Counter{Level: "tor", Job: job, Name: "new_reason", Value: 1, Drop: true})
		}, "drops", failure, "new_reason", "protocol.md"},
		"source unreadable": {func(s *Sources) { s.Failures = []error{errors.New("read slots: bad")} }, "sources", warning, "read slots", "journalctl"},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			c.breaks(&s)
			var wrong []*v1.Finding
			for _, f := range Diagnose(context.Background(), s) {
				if f.Level != ok {
					wrong = append(wrong, f)
				}
			}
			// A ToR that is away makes nothing else wrong in these data, and so do the others: one cause, one finding.
			if len(wrong) != 1 {
				t.Fatalf("%d findings, want 1: %v", len(wrong), wrong)
			}
			f := wrong[0]
			if f.Check != c.check || f.Level != c.level || !strings.Contains(f.Text, c.says) || !strings.Contains(f.Remedy, c.do) {
				t.Errorf("got %v\nwant %s, %v, a text with %q and a remedy with %q", f, c.check, c.level, c.says, c.do)
			}
		})
	}
}

// TestALossIsNoDeafNetwork: of 64 workers, each loses one result in a hundred, and so more than half of all results are sent again to somebody.
func TestALossIsNoDeafNetwork(t *testing.T) {
	s := healthy()
	s.Jobs[0].Spec.Workers = 64
	set(&s, "aggregator", job, "published", 1000)
	set(&s, "tor", job, "completed", 0)
	set(&s, "aggregator", job, "result_resent", 640)
	for _, f := range Diagnose(context.Background(), s) {
		if f.Check == "multicast" && f.Level != ok {
			t.Errorf("%v", f)
		}
	}
}

// TestOnlyTheJobAskedFor: another job's trouble is not this one's.
func TestOnlyTheJobAskedFor(t *testing.T) {
	s := healthy()
	other := proto.Clone(s.Jobs[0]).(*v1.Job)
	other.Spec.Name = "other"
	s.Jobs = append(s.Jobs, other)
	s.Workers["other"] = []*v1.Worker{{State: v1.WorkerState_WORKER_STATE_LOST}}
	count := func() (n int) {
		for _, f := range Diagnose(context.Background(), s) {
			if f.Job == "other" {
				n++
			}
		}
		return n
	}
	if count() == 0 {
		t.Error("nothing about the other job, when all are asked for")
	}
	s.Job = job
	if n := count(); n != 0 {
		t.Errorf("%d findings about a job that was not asked for", n)
	}
}

// TestJoiningIsNotWrongAtOnce: ranks of one job never start in the same instant.
func TestJoiningIsNotWrongAtOnce(t *testing.T) {
	s := healthy()
	s.Jobs[0].State = v1.JobState_JOB_STATE_WAITING
	s.Workers[job] = []*v1.Worker{{Rank: 0, State: v1.WorkerState_WORKER_STATE_JOINED, Since: ago(time.Second)}, {Rank: 1,
		State: v1.WorkerState_WORKER_STATE_MISSING}}
	for _, f := range Diagnose(context.Background(), s) {
		if f.Level != ok {
			t.Errorf("%v", f)
		}
	}
}

// TestEveryRemedyIsThere: who finds something wrong says what to do.
func TestEveryRemedyIsThere(t *testing.T) {
	for reason, d := range dropReasons {
		if d.means == "" || d.remedy == "" {
			t.Errorf("%s has no meaning or no remedy", reason)
		}
	}
}

func TestLookAtHost(t *testing.T) {
	host, err := LookAtHost(context.Background(), []string{"lo", "no-such-link"}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(host.Missing) > 0 {
		t.Errorf("the kernel that the tests run on lacks %v", host.Missing)
	}
	if host.Kernel == "" || host.MemoryAvailable == 0 {
		t.Errorf("kernel %q, %d bytes", host.Kernel, host.MemoryAvailable)
	}
	if len(host.Links) != 2 || host.Links[0].Index == 0 || host.Links[0].MTU == 0 || host.Links[1].Index != 0 {
		t.Errorf("links %+v", host.Links)
	}
	if host.Pins.Err == nil {
		t.Errorf("a temporary directory passes for a bpffs: %+v", host.Pins)
	}
}
