package observe

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/fabric"
	"spillway/p4/pipeline"
	"spillway/xdp"
)

// TestEveryCounterIsKnown holds AggregatorDrops to the program's own list: what the header says is a drop, and nothing else.
func TestEveryCounterIsKnown(t *testing.T) {
	header, err := os.ReadFile("../../xdp/bpf/counters.h")
	if err != nil {
		t.Fatal(err)
	}
	work, drops, ok := strings.Cut(string(header), "/* Why a packet was dropped; nothing else changed. */")
	if !ok {
		t.Fatal("counters.h does not say any more where the drops begin")
	}
	drops, _, _ = strings.Cut(drops, "COUNT_END")
	names := func(text string) (all []string) {
		for _, m := range regexp.MustCompile(`(?m)^\tCOUNT_([A-Z_]+),`).FindAllStringSubmatch(text, -1) {
			all = append(all, strings.ToLower(m[1]))
		}
		return all
	}
	aggregator, err := xdp.Load(xdp.Config{MaxJobs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer aggregator.Close()
	counters, err := aggregator.UnknownJobCounters()
	if err != nil {
		t.Fatal(err)
	}
	if got := len(names(work)) + len(names(drops)); got != len(counters) {
		t.Fatalf("%d counters in the header, %d in the program", got, len(counters))
	}
	for name := range counters {
		if want := slices.Contains(names(drops), name); AggregatorDrops(name) != want {
			t.Errorf("%s: a drop: %t, want %t", name, !want, want)
		}
	}
	for _, used := range []string{"claimed", "merged", "replaced", "published"} {
		if _, ok := counters[used]; !ok {
			t.Errorf("levels use the counter %s, which the program does not have", used)
		}
	}
}

func TestTorDrops(t *testing.T) {
	var drops []string
	for _, e := range pipeline.Events() {
		if TorDrops(e.String()) {
			drops = append(drops, e.String())
		}
	}
	want := []string{"duplicate", "overlap", "unknown_job", "stale", "bad_cookie", "not_member", "bad_bitmap", "bad_header", "bad_direction"}
	if diff := cmp.Diff(want, drops); diff != "" {
		t.Error(diff)
	}
}

func TestLevels(t *testing.T) {
	c := &counts{
		aggregator: map[string]map[string]uint64{
			"train": {"claimed": 20, "merged": 29, "replaced": 1, "published": 10, "stale": 2, "data": 60}, "alone": {"claimed": 5, "published": 1}, "idle": {},
		},
		tor: map[string]fabric.Counters{"train": {
			Events:    map[string]uint64{"claimed": 60, "merged": 60, "completed": 28, "preempts": 2, "spilled": 3, "passed": 4, "bad_slot": 1, "resend_evicted": 5, "duplicate": 6, "stale": 7},
			Preempted: 9,
		}},
	}
	job := func(name string) *v1.Job { return &v1.Job{Spec: &v1.JobSpec{Name: name}} }
	got := c.levels([]*v1.Job{job("train"), job("alone"), job("idle"), job("waiting")})
	want := []*v1.Level{
		{Job: "train", Level: "tor", Contributions: 150, Share: 0.75, Published: 28, Spilled: 8, Preempted: 9, ResendEvicted: 5, Dropped: 13},
		{Job: "train", Level: "aggregator", Contributions: 50, Share: 0.25, Published: 10, Dropped: 2},
		{Job: "alone", Level: "aggregator", Contributions: 5, Share: 1, Published: 1},
		{Job: "idle", Level: "aggregator"}, // nothing is no share of nothing
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	for _, l := range got {
		if math.IsNaN(l.GetShare()) {
			t.Errorf("%v", l)
		}
	}
}

func TestCountersAreInOrder(t *testing.T) {
	c := &counts{
		aggregator: map[string]map[string]uint64{"": {"bad_type": 1}, "b": {"data": 2, "claimed": 3}, "a": {"stale": 4}},
		tor:        map[string]fabric.Counters{"b": {Events: map[string]uint64{"claimed": 5, "bad_slot": 6}, Saturated: 7}, "": {Events: map[string]uint64{"unknown_job": 8}}},
	}
	var got []string
	for _, of := range c.list() {
		mark := ""
		if of.GetDrop() {
			mark = "!"
		}
		got = append(got, of.GetLevel()+"/"+of.GetJob()+"/"+of.GetName()+mark)
	}
	want := []string{"tor//unknown_job!", "tor/b/bad_slot", "tor/b/claimed", "tor/b/preempted", "tor/b/saturated",
		"aggregator//bad_type!", "aggregator/a/stale!", "aggregator/b/claimed", "aggregator/b/data"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWaiting(t *testing.T) {
	states := []xdp.SlotState{
		{Bitmap: 0b0011, Age: 3 * time.Second},
		{Bitmap: 0b1011, Age: 5 * time.Second},
		{Bitmap: 0b1111, Complete: true, Age: time.Hour},
	}
	want := []lateness{{}, {}, {2, 5 * time.Second}, {1, 3 * time.Second}}
	got := waiting(states, 4)
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if age := oldest(states); age != 5*time.Second {
		t.Errorf("the oldest that waits is %v old", age)
	}
	if all := ranks(1<<63 | 1); !slices.Equal(all, []uint32{0, 63}) {
		t.Errorf("ranks %v", all)
	}
}
