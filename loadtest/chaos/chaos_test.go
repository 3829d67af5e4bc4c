package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/loadtest/rack"
	"spillway/loadtest/reference"
	"spillway/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ms = int64(time.Millisecond)

// done tells of a step at all of three workers, who take from start to end.
func done(s *steps, number int, start, end int64) {
	for rank := range 3 {
		s.take(rank, account{Step: &stepAccount{Number: number, Start: start + int64(rank), End: end - int64(2-rank), Wrong: -1}})
	}
}

// Recovery is the time of the longest step of those in flight, from the fault on.
func TestRecovery(t *testing.T) {
	s := newSteps(3, nil)
	for i := range 10 {
		done(s, i, int64(10*i)*ms, int64(10*i+10)*ms)
	}
	fault := incident{at: 104 * ms, until: 150 * ms}
	done(s, 10, 100*ms, 140*ms) // 36 ms from the fault on
	done(s, 11, 140*ms, 178*ms) // 38 ms, begun before all was repaired
	done(s, 12, 178*ms, 278*ms) // afterwards
	if got := s.median([]incident{fault}); got != 10*time.Millisecond {
		t.Errorf("median %v", got)
	}
	if got := s.longest(fault); got != 38*time.Millisecond {
		t.Errorf("longest %v", got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.since(150 * ms); got != 1 || s.complete != 13 {
		t.Errorf("%d steps since, %d complete", got, s.complete)
	}
}

// A step is complete when all have done it, and a wrong result is counted at each worker that has one.
func TestSteps(t *testing.T) {
	s := newSteps(3, []string{"a", "b"})
	for rank, hash := range []string{"a", "x", "a"} {
		s.take(rank, account{Step: &stepAccount{Hash: hash, Wrong: -1}})
	}
	s.take(0, account{Step: &stepAccount{Number: 1, Hash: "b", Wrong: -1}})
	if s.completed() != 1 || s.wrong != 1 || !strings.Contains(s.wrongAt, "step 0 at rank 1") {
		t.Errorf("%d complete, %d wrong, %q", s.completed(), s.wrong, s.wrongAt)
	}
	s.take(2, account{Error: "no result"})
	if err := s.awaitSteps(t.Context(), 1); err != nil {
		t.Errorf("what holds is not waited for: %v", err)
	}
	if err := s.awaitSteps(t.Context(), 2); !errors.Is(err, errWorker) || !strings.Contains(err.Error(), "rank 2: no result") {
		t.Errorf("waited for a failed worker: %v", err)
	}
	s.ended[2] = true
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no patience"))
	if err := s.awaitSteps(gone, 2); err == nil || !strings.Contains(err.Error(), "no patience") {
		t.Errorf("waited without patience: %v", err)
	}
}

// The pattern differs from rank to rank and from step to step, and its sums are the reference's.
func TestPattern(t *testing.T) {
	p := &pattern{Seed: 7, Workers: 3, Length: 600, Elements: 256}
	sums, err := p.sums()
	if err != nil {
		t.Fatal(err)
	}
	contributions := make([][]float32, 3)
	for step := range 2 * variants {
		for rank := range contributions {
			contributions[rank] = make([]float32, p.Length)
			p.fill(contributions[rank], rank, step)
		}
		want, err := reference.SumFloat32(contributions, p.Elements)
		if err != nil {
			t.Fatal(err)
		}
		if at := differs(want, sums[step%variants]); at >= 0 {
			t.Errorf("step %d, element %d: %g, want %g", step, at, sums[step%variants][at], want[at])
		}
		if differs(contributions[0], contributions[1]) < 0 || differs(want, sums[(step+1)%variants]) < 0 {
			t.Errorf("step %d is like another", step)
		}
	}
}

// Whoever is in a part of a result is summed there, and what is missed of this rank comes back.
func TestWrongPart(t *testing.T) {
	contributions := [][]int32{{1, 2, 3, 4}, {10, 20, 30, 40}, {100, 200, 300, 400}}
	spans := []worker.Span{{First: 0, Last: 3, Contributors: 7}, {First: 3, Last: 4, Contributors: 3}}
	right, missed := []int32{111, 222, 333, 44}, []int32{0, 0, 0, 400}
	if at := wrongPart(right, missed, contributions, 2, spans); at != -1 {
		t.Errorf("right, and wrong at %d", at)
	}
	for at := range right {
		wrong := slices.Clone(right)
		wrong[at]++
		if got := wrongPart(wrong, missed, contributions, 2, spans); got != at {
			t.Errorf("wrong at %d, found %d", at, got)
		}
		wrong = slices.Clone(missed)
		wrong[at]++
		if got := wrongPart(right, wrong, contributions, 2, spans); got != at {
			t.Errorf("a residual wrong at %d, found %d", at, got)
		}
	}
	if got := wrongPart(right, missed, contributions, 2, spans[:1]); got != 3 {
		t.Errorf("a part that nobody answers for: %d", got)
	}
}

// Pauses come once in a run of steps.
func TestPace(t *testing.T) {
	p := &pace{Every: 20, Seed: 3}
	for turn := range 10 {
		n := 0
		for step := turn * 20; step < turn*20+20; step++ {
			if p.pauses(step) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d pauses in run %d", n, turn)
		}
	}
}

// Each look at the slots stands for the time since the one before.
func TestMeanHeld(t *testing.T) {
	if mean, most := meanHeld([]HeldSlots{{0, 0}, {10, 4}, {40, 8}, {50, 0}}); mean != 5.6 || most != 8 {
		t.Errorf("mean %v, most %v", mean, most)
	}
	if mean, most := meanHeld([]HeldSlots{{0, 3}}); mean != 0 || most != 0 {
		t.Errorf("of one look: mean %v, most %v", mean, most)
	}
}

// The first fields of the report are API, in their order.
func TestReport(t *testing.T) {
	all := Scenarios()
	r := newReport(&all[0], &Options{Count: 2, Seed: 9, Workers: 4})
	var text strings.Builder
	if err := r.finish().WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"scenario\": \"switch-reboot\",\n  \"count\": 2,\n  \"survived\": 0,\n  \"wrong_sums\": 0,\n  \"recovery_p50_ms\": null,\n  \"recovery_p99_ms\": null,\n"; !strings.HasPrefix(text.String(), want) {
		t.Errorf("%s", text.String())
	}
	if r.Good() {
		t.Error("good with nothing survived")
	}
	r.survive(3 * time.Millisecond)
	r.survive(time.Millisecond)
	if r.finish(); !r.Good() || *r.RecoveryP50MS != 1 || *r.RecoveryP99MS != 3 {
		t.Errorf("%+v", r)
	}
	r.fail("a leak")
	if r.Good() {
		t.Error("good with a failure")
	}
	r.Failures, r.WrongSums = nil, 1
	if r.Good() {
		t.Error("good with a wrong sum")
	}
	if !json.Valid([]byte(text.String())) {
		t.Error("no JSON")
	}
}

// A report says how many appliances the rack had: those that the scenario needs, or more where more are asked for.
func TestReportedAppliances(t *testing.T) {
	for _, test := range []struct {
		scenario    string
		asked, want int
	}{{"switch-reboot", 0, 1}, {"switch-reboot", 5, 1}, {"home", 0, trio}, {"home", 2, trio}, {"home", 5, 5}} {
		all := Scenarios()
		at := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == test.scenario })
		r := newReport(&all[at], &Options{Count: 1, Workers: 2, Appliances: test.asked})
		var text strings.Builder
		if err := r.WriteTable(&text); err != nil {
			t.Fatal(err)
		}
		if said := fmt.Sprintf("appliances  %d\n", test.want); r.Appliances != test.want || !strings.Contains(text.String(), said) {
			t.Errorf("%+v: %d, %s", test, r.Appliances, text.String())
		}
	}
}

// Names are fit for a command line, and everything is said.
func TestScenarios(t *testing.T) {
	names := map[string]bool{}
	for _, s := range Scenarios() {
		if names[s.Name] || strings.Trim(s.Name, "abcdefghijklmnopqrstuvwxyz-") != "" || s.Summary == "" || s.Story == "" || s.Clock == "" || (s.strike == nil) == (s.measure == nil) {
			t.Errorf("scenario %+v", s)
		}
		names[s.Name] = true
	}
}

// What there is more of is a leak; what a daemon that was restarted has is its own affair.
func TestLeaks(t *testing.T) {
	was := usage{daemons: []daemonUsage{{1, 30, 40, 3e7}}, bpf: rack.BPF{Maps: 9}}
	was.capacity = append(was.capacity, nil)
	now := usage{daemons: []daemonUsage{{1, 99, 99, 9e8}}, bpf: rack.BPF{Maps: 10}}
	now.capacity = append(now.capacity, nil)
	if got := was.leaks(&was); got != nil {
		t.Errorf("nothing leaked: %q", got)
	}
	if got := now.leaks(&was); len(got) != 4 {
		t.Errorf("%q", got)
	}
	now.daemons[0].pid = 2
	if got := now.leaks(&was); len(got) != 1 {
		t.Errorf("of another process: %q", got)
	}
	if got := (footprint{9, 9, 2}).leaks(footprint{9, 9, 1}); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
