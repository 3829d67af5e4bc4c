package events_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const level = v1.EventLevel_EVENT_LEVEL_INFO

// collect streams until the end of what is there.
func collect(t *testing.T, l *events.Log, request *v1.StreamEventsRequest) (all []*v1.Event) {
	t.Helper()
	if err := l.Stream(t.Context(), request, func(e *v1.Event) error { all = append(all, e); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func numbers(all []*v1.Event) (n []uint64) {
	for _, e := range all {
		n = append(n, e.Number)
	}
	return n
}

func TestWhatIsKept(t *testing.T) {
	l := events.New(4)
	if got := collect(t, l, &v1.StreamEventsRequest{}); len(got) != 0 {
		t.Fatalf("events of an empty log: %v", got)
	}
	for i := range 6 {
		l.Add(level, "kind", []string{"a", "b"}[i%2], []uint32{uint32(i)}, "event %d", i)
	}
	for _, c := range []struct {
		request *v1.StreamEventsRequest
		want    []uint64
	}{
		{&v1.StreamEventsRequest{}, []uint64{3, 4, 5, 6}},
		{&v1.StreamEventsRequest{Limit: 2}, []uint64{5, 6}},
		{&v1.StreamEventsRequest{Limit: 100}, []uint64{3, 4, 5, 6}},
		{&v1.StreamEventsRequest{Job: "a"}, []uint64{3, 5}},
		{&v1.StreamEventsRequest{Job: "a", Limit: 1}, []uint64{5}},
		{&v1.StreamEventsRequest{Job: "c"}, nil},
	} {
		if got := numbers(collect(t, l, c.request)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v: %v, want %v", c.request, got, c.want)
		}
	}
	last := collect(t, l, &v1.StreamEventsRequest{Limit: 1})[0]
	if last.Text != "event 5" || last.Kind != "kind" || last.Job != "b" || len(last.Ranks) != 1 || last.Ranks[0] != 5 || last.Lost != 0 || time.Since(last.Time.AsTime()) > time.Minute {
		t.Errorf("%v", last)
	}
}

func TestFollow(t *testing.T) {
	l := events.New(0)
	l.Add(level, "before", "", nil, "before")
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan *v1.Event)
	done := make(chan error)
	go func() {
		done <- l.Stream(ctx, &v1.StreamEventsRequest{Follow: true}, func(e *v1.Event) error { got <- e; return nil })
	}()
	if e := <-got; e.Kind != "before" {
		t.Errorf("%v", e)
	}
	l.Add(level, "after", "", nil, "after")
	if e := <-got; e.Kind != "after" || e.Number != 2 {
		t.Errorf("%v", e)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the end of a follower is an error: %v", err)
	}
}

func TestSendFails(t *testing.T) {
	l := events.New(0)
	l.Add(level, "kind", "", nil, "text")
	gone := errors.New("gone")
	if err := l.Stream(t.Context(), &v1.StreamEventsRequest{Follow: true}, func(*v1.Event) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

// TestSlowFollower holds that a follower that stands still holds up nobody, and is told how much it missed.
func TestSlowFollower(t *testing.T) {
	l := events.New(100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reached, resume := make(chan struct{}), make(chan struct{})
	var got []*v1.Event
	l.Add(level, "kind", "", nil, "first")
	done := make(chan error)
	go func() {
		done <- l.Stream(ctx, &v1.StreamEventsRequest{Follow: true}, func(e *v1.Event) error {
			if got = append(got, e); len(got) == 1 {
				close(reached)
				<-resume
			}
			if e.Number == 1001 {
				cancel()
			}
			return nil
		})
	}()
	<-reached
	for i := range 1000 {
		l.Add(level, "kind", "", nil, "event %d", i)
	}
	close(resume)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	next := uint64(1)
	for _, e := range got {
		if e.Number != next+e.Lost {
			t.Fatalf("event %d with %d lost after %d", e.Number, e.Lost, next-1)
		}
		next = e.Number + 1
	}
	if len(got) != 101 || got[1].Lost != 900 {
		t.Errorf("%d events, %d lost; want 101 and 900", len(got), got[1].Lost)
	}
}

// TestManyAtOnce is for the race detector, and for followers that share what they read.
func TestManyAtOnce(t *testing.T) {
	l := events.New(1000)
	ctx, cancel := context.WithCancel(t.Context())
	var followers, writers sync.WaitGroup
	for range 8 {
		seen := 0
		followers.Go(func() {
			err := l.Stream(ctx, &v1.StreamEventsRequest{Follow: true}, func(e *v1.Event) error {
				e.Text = "mine"
				if seen++; seen+int(e.Lost) > 800 {
					return fmt.Errorf("event %d was sent twice", e.Number)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range 8 {
		writers.Go(func() {
			for i := range 100 {
				l.Add(level, "kind", "", []uint32{1}, "event %d", i)
			}
		})
	}
	writers.Wait()
	cancel()
	followers.Wait()
	if all := collect(t, l, &v1.StreamEventsRequest{}); len(all) != 800 || all[0].Text == "mine" {
		t.Errorf("%d events, the first %v", len(all), all[0])
	}
}
