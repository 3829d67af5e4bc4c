package top

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/ctl/golden"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// at is what an appliance with two jobs said some seconds after noon; chunks grow by 1000 a second in the first job, a quarter of them in the ToR.
func at(second int) *Snapshot {
	now := noon.Add(time.Duration(second) * time.Second)
	n := uint64(second)
	job := func(name string, workers, present uint32, state v1.JobState) *v1.Job {
		return &v1.Job{Spec: &v1.JobSpec{Name: name, Workers: workers, Elements: 256, Window: 255}, Present: present, State: state}
	}
	return &Snapshot{
		Time: now,
		Node: &v1.GetNodeResponse{Name: "agg0", Started: timestamppb.New(noon.Add(-time.Hour)), Jobs: 2, WorkersPresent: 5,
			Switch:   v1.SwitchState_SWITCH_STATE_IN_SYNC,
			Warnings: []string{"eth1 is in generic mode"},
			Capacity: &v1.Capacity{TorSlots: &v1.Amount{Total: 1024, Used: 64},
				SlotClasses: []*v1.SlotClass{{Elements: 32, Slots: &v1.Amount{Total: 4096}}, {Elements: 256, Slots: &v1.Amount{Total: 4096, Used: 1024}}}}},
		Jobs: []*v1.Job{job("resnet", 4, 4, v1.JobState_JOB_STATE_RUNNING), job("waits", 2, 1, v1.JobState_JOB_STATE_WAITING)},
		Levels: []*v1.Level{
			{Job: "resnet", Level: "tor", Contributions: 1000 * n, Published: 250 * n},
			{Job: "resnet", Level: "aggregator", Contributions: 3000 * n, Published: 750 * n, Dropped: 2 * n},
		},
		Workers: map[string][]*v1.Worker{"resnet": {
			{Rank: 0, State: v1.WorkerState_WORKER_STATE_PRESENT, Address: "10.0.0.10", WaitedFor: 1, Late: durationpb.New(time.Millisecond)},
			{Rank: 3, State: v1.WorkerState_WORKER_STATE_PRESENT, Address: "10.0.0.13", WaitedFor: 12, Late: durationpb.New(4200 * time.Millisecond),
				LastPacket: timestamppb.New(now.Add(-4100 * time.Millisecond)), ReleasedWithout: 30 * n,
				Lateness: &v1.Lateness{Bounds: []uint64{4e6, 8e6, 16e6}, Counts: []uint64{900 * n, 20 * n, 70 * n, 10 * n}, Sum: 51e9 * n}},
		}},
		Waiting: map[string]Waiting{"resnet": {Chunks: 12, Oldest: 4200 * time.Millisecond}},
	}
}

func newTestModel() Model {
	return NewModel(context.Background(), func(context.Context) (*Snapshot, error) { return at(1), nil }, time.Second)
}

func update(t *testing.T, m Model, msg tea.Msg) (Model, tea.Cmd) {
	t.Helper()
	next, cmd := m.Update(msg)
	return next.(Model), cmd
}

func TestScreens(t *testing.T) {
	m := newTestModel()
	m, _ = update(t, m, tea.WindowSizeMsg{Width: 110, Height: 40})
	golden.Check(t, "0-asking.txt", m.View().Content)
	m, _ = update(t, m, Taken{Err: errors.New("no appliance answers")})
	golden.Check(t, "1-away.txt", m.View().Content)
	m, _ = update(t, m, Taken{Snapshot: at(1)})
	golden.Check(t, "2-first.txt", m.View().Content)
	m, _ = update(t, m, Taken{Snapshot: at(3)})
	golden.Check(t, "3-rates.txt", m.View().Content)
	m, _ = update(t, m, Taken{Err: errors.New("no answer within 1s")})
	golden.Check(t, "4-stale.txt", m.View().Content)
	m, _ = update(t, m, tea.WindowSizeMsg{Width: 60, Height: 8})
	golden.Check(t, "5-small.txt", m.View().Content)
	lines := strings.Split(m.View().Content, "\n")
	if len(lines) > 8 {
		t.Errorf("%d lines on a terminal of 8", len(lines))
	}
	for _, line := range lines {
		if len([]rune(line)) > 60 {
			t.Errorf("a line of %d columns on a terminal of 60: %s", len([]rune(line)), line)
		}
	}
	if !m.View().AltScreen {
		t.Error("the view is not on the alternate screen, so the terminal is not as it was afterwards")
	}
	golden.Check(t, "6-once.txt", Text(at(1), at(3)))
}

// TestANewGenerationCountsFromZero: its counters are smaller than those before, and no rate is negative or enormous.
func TestANewGenerationCountsFromZero(t *testing.T) {
	r := ratesOf("resnet", at(100), at(2))
	if r.known {
		t.Error("rates from snapshots in the wrong order")
	}
	before := at(100)
	before.Time = noon.Add(time.Second)
	if r = ratesOf("resnet", before, at(2)); r.chunks != 2000 {
		t.Errorf("%g chunks a second, want the 2000 of the new generation", r.chunks)
	}
	if r = ratesOf("waits", at(1), at(2)); r.spillable || r.chunks != 0 {
		t.Errorf("a job that moves nothing: %+v", r)
	}
}

func TestKeysQuit(t *testing.T) {
	for _, key := range []tea.KeyPressMsg{{Code: 'q', Text: "q"}, {Code: tea.KeyEscape}, {Code: 'c', Mod: tea.ModCtrl}} {
		_, cmd := update(t, newTestModel(), key)
		if cmd == nil {
			t.Errorf("%s does nothing", key)
			continue
		}
		if _, ok := cmd().(tea.QuitMsg); !ok {
			t.Errorf("%s does not quit", key)
		}
	}
	if _, cmd := update(t, newTestModel(), tea.KeyPressMsg{Code: 'x', Text: "x"}); cmd != nil {
		t.Error("x does something")
	}
}

// TestLooksAgain: each snapshot, and each failure, is followed by another look.
func TestLooksAgain(t *testing.T) {
	m := newTestModel()
	m.interval = time.Millisecond
	for _, msg := range []tea.Msg{m.Init()(), Taken{Err: errors.New("away")}} {
		_, wait := update(t, m, msg)
		if wait == nil {
			t.Fatalf("nothing follows %v", msg)
		}
		_, look := update(t, m, wait())
		if look == nil {
			t.Fatal("the interval is over, and nobody looks")
		}
		if taken, ok := look().(Taken); !ok || taken.Snapshot == nil {
			t.Fatalf("the look brought %v", taken)
		}
	}
}
