package stragglers

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/events"
	"spillway/xdp"
)

// rack is a data plane with one job of four workers.
type rack struct {
	job     *v1.Job
	late    xdp.JobLateness
	members []xdp.MemberState
	now     time.Time
	tracker *Tracker
	events  *events.Log
}

func newRack(quorum *v1.Quorum) *rack {
	r := &rack{
		job:  &v1.Job{Spec: &v1.JobSpec{Name: "train", Workers: 4, Window: 100, Quorum: quorum, MaxRto: durationpb.New(250 * time.Millisecond)}, Id: 3, Generation: 1, Present: 4},
		late: xdp.JobLateness{Tick: 4 * time.Millisecond, Ranks: make([]xdp.Lateness, 4)}, now: time.Unix(1_790_000_000, 0), events: events.New(0),
	}
	for rank := range 4 {
		r.members = append(r.members, xdp.MemberState{Bits: 1 << rank, Packets: 1})
	}
	r.tracker = New(r, r, r.events, nil)
	r.tracker.look(r.now)
	return r
}

func (r *rack) List() []*v1.Job                           { return []*v1.Job{r.job} }
func (r *rack) Members(uint16) ([]xdp.MemberState, error) { return r.members, nil }
func (r *rack) Lateness(id uint16) (xdp.JobLateness, error) {
	if id != 3 {
		return xdp.JobLateness{}, xdp.ErrNoJob
	}
	late := r.late
	late.Ranks = append([]xdp.Lateness(nil), r.late.Ranks...)
	return late, nil
}

// second passes: a thousand chunks of each worker, each of them so late for its window that the others stood still for these parts of it.
func (r *rack) second(held ...float64) {
	for rank := range r.late.Ranks {
		l := &r.late.Ranks[rank]
		l.Counts[0] += 900
		l.Counts[5] += 100
		if rank < len(held) {
			l.Sum += time.Duration(held[rank] * 100 * float64(time.Second))
		}
	}
	r.now = r.now.Add(time.Second)
	r.tracker.look(r.now)
}

// said are the events by now.
func (r *rack) said(t *testing.T) (texts []string) {
	t.Helper()
	err := r.events.Stream(context.Background(), &v1.StreamEventsRequest{}, func(e *v1.Event) error {
		texts = append(texts, e.Kind+": "+e.Text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func (r *rack) expect(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, r.said(t)); diff != "" {
		t.Fatal(diff)
	}
}

func TestStragglerComesAndGoes(t *testing.T) {
	r := newRack(nil)
	const begins = "straggler: rank 2 of job train is a straggler: the others stand still for it 45% of the time"
	r.second(0.01, 0.02, 0.45)
	r.expect(t) // one second is a step
	r.second(0.01, 0.02, 0.45)
	r.expect(t, begins)
	for range 30 {
		r.second(0, 0, 0.9)
	}
	r.expect(t, begins) // once
	for range fineLooks - 1 {
		r.second()
	}
	r.expect(t, begins)
	r.second()
	r.expect(t, begins, "straggler-over: rank 2 of job train keeps up again, 35s after it was said that it does not")
	for range 10 { // too soon after the last event to be said again
		r.second(0, 0, 0.5)
	}
	if n := len(r.said(t)); n != 2 {
		t.Fatalf("%d events", n)
	}
	for range 25 {
		r.second(0, 0, 0.5)
	}
	if n := len(r.said(t)); n != 3 {
		t.Fatalf("%d events", n)
	}
}

// TestTheEarlyOne: where all but one are as late as each other, none of them is to blame.
func TestTheEarlyOne(t *testing.T) {
	r := newRack(nil)
	for range 5 {
		r.second(0, 0.3, 0.32, 0.28)
	}
	r.expect(t)
}

func TestReleasedWithout(t *testing.T) {
	r := newRack(&v1.Quorum{Workers: 3})
	for range 2 {
		r.late.Ranks[1].Without += 300
		r.second(0, 0.5, 0.5) // how late they are is no harm here
	}
	r.expect(t, "straggler: rank 1 of job train is a straggler: 30% of the sums are released without it")
}

// TestStopped: one that sends nothing is in no histogram.
func TestStopped(t *testing.T) {
	r := newRack(nil)
	stand := func() {
		r.now = r.now.Add(time.Second)
		r.tracker.look(r.now)
	}
	for range 3 {
		for rank := range r.members {
			r.members[rank].Silent += time.Second
		}
		stand()
	}
	r.expect(t) // all compute
	for rank := range 3 {
		r.members[rank].Silent = 100 * time.Millisecond
	}
	stand()
	r.members[3].Silent += time.Second
	stand()
	r.expect(t, "straggler: rank 3 of job train is a straggler: nothing has come of it for 4s, while others ask")
}

// TestNewGeneration begins anew, and a job that is not homed here is not looked at.
func TestNewGeneration(t *testing.T) {
	r := newRack(nil)
	r.second(0, 0, 0.9)
	r.job.Generation, r.late.Ranks = 2, make([]xdp.Lateness, 4)
	r.tracker.look(r.now)
	r.second(0, 0, 0.9)
	r.expect(t)
	r.job.Id = 4
	r.second(0, 0, 0.9)
	r.expect(t)
	if len(r.tracker.known) != 0 {
		t.Error("a job is remembered that is not there")
	}
}

func TestQuantile(t *testing.T) {
	l := &v1.Lateness{Bounds: []uint64{4, 8, 16}, Counts: []uint64{90, 8, 1, 1}}
	for _, c := range []struct {
		q    float64
		want time.Duration
		more bool
	}{{0.5, 4, false}, {0.9, 4, false}, {0.91, 8, false}, {0.98, 8, false}, {0.99, 16, false}, {1, 16, true}} {
		if got, more := Quantile(l, c.q); got != c.want || more != c.more {
			t.Errorf("%g: %d %v, want %d %v", c.q, got, more, c.want, c.more)
		}
	}
	if got, more := Quantile(nil, 0.5); got != 0 || more {
		t.Error(got, more)
	}
}

func TestSince(t *testing.T) {
	before, now := &v1.Lateness{Bounds: []uint64{4}, Counts: []uint64{5, 1}, Sum: 9}, &v1.Lateness{Bounds: []uint64{4}, Counts: []uint64{7, 1}, Sum: 10}
	if d := Since(before, now); d.Counts[0] != 2 || d.Counts[1] != 0 || d.Sum != 1 {
		t.Error(d)
	}
	if d := Since(now, before); d != before {
		t.Error("a new generation counts as it is")
	}
}
