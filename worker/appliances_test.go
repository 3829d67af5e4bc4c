package worker

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"spillway/appliance/refusal"
)

// follows is what an appliance says that does not lead.
func follows(leader string) *refusal.Error {
	refused := refusal.New(codes.FailedPrecondition, refusal.NotLeader, "this appliance does not lead; %q does", leader)
	if leader != "" {
		refused = refused.With("leader", leader)
	}
	return refused
}

// deadAddress is one where nobody listens.
func deadAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

// TestJoinFindsTheLeader: past one that does not answer, by the word of one that follows, whether the leader is in the list or not.
func TestJoinFindsTheLeader(t *testing.T) {
	for _, listed := range []bool{true, false} {
		t.Run(fmt.Sprintf("listed=%t", listed), func(t *testing.T) {
			follower, leader, l := newAppliance(t, ""), newAppliance(t, ""), newLoopback(t, 1, 0)
			addrs := deadAddress(t) + ", " + follower.target()
			if listed {
				addrs += "," + deadAddress(t) + "," + leader.target()
			}
			result := joining(t, t.Context(), addrs, 0)
			follower.next(t).end <- follows(leader.target())
			leader.next(t).parameters(t, l.of(0))
			w, err := await(t, result)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if left := <-leader.left; left.GetPart().GetCookie() != l.params.Cookie {
				t.Errorf("left with %v", left)
			}
			if len(follower.calls)+len(follower.left)+len(leader.calls) != 0 {
				t.Errorf("%d calls and %d leaves at the follower, %d calls at the leader, beyond those that were needed", len(follower.calls), len(follower.left), len(leader.calls))
			}
		})
	}
}

// TestLeaderChangesUnderCollectives: the leader goes, another is elected after a while, and the worker resumes there. It leaves there, too, though the first that it asks follows.
func TestLeaderChangesUnderCollectives(t *testing.T) {
	one, two, l := newAppliance(t, ""), newAppliance(t, ""), newLoopback(t, 1, 0)
	result := joining(t, t.Context(), one.target()+","+two.target(), 0)
	one.next(t).parameters(t, l.of(0))
	w, err := await(t, result)
	if err != nil {
		t.Fatal(err)
	}
	one.stop()
	// It does not know better for a while.
	two.next(t).end <- follows(one.target())
	two.next(t).end <- follows("")
	two.next(t).end <- follows("unix:///nonsense")
	c := two.next(t)
	if c.request.GetResume().GetCookie() != l.params.Cookie {
		t.Errorf("resumes with %v", c.request)
	}
	parameters := l.move(t)
	c.moves(t, parameters(0))
	if err := w.AllReduce(t.Context(), make([]float32, 10_000)); err != nil {
		t.Error(err)
	}
	// The first is back, and follows; the second gives the lead to a third.
	one.start(t)
	three := newAppliance(t, "")
	c.end <- follows(three.target())
	c = three.next(t)
	if c.request.GetResume().GetCookie() != l.params.Cookie {
		t.Errorf("resumes with %v", c.request)
	}
	c.end <- refusal.New(codes.AlreadyExists, refusal.RankTaken, "rank 0 is present") // the leader says so: it is asked again
	three.next(t).moves(t, parameters(0))
	if err := w.AllReduce(t.Context(), make([]float32, 100)); err != nil {
		t.Error(err)
	}
	if len(one.calls) != 0 {
		t.Errorf("%d calls to the first, which nobody named", len(one.calls))
	}
}

// TestFollowersThatNameEachOther: a worker does not go back and forth for ever, and gives up when its patience is over.
func TestFollowersThatNameEachOther(t *testing.T) {
	one, two := newAppliance(t, ""), newAppliance(t, "")
	begin := time.Now()
	result := joining(t, t.Context(), one.target()+","+two.target(), 0, WithPatience(500*time.Millisecond))
	calls := 0
	for {
		select {
		case c := <-one.calls:
			calls++
			c.end <- follows(two.target())
			continue
		case c := <-two.calls:
			calls++
			c.end <- follows(one.target())
			continue
		case j := <-result:
			if j.err == nil || !strings.Contains(j.err.Error(), one.target()+","+two.target()) || refusal.Of(j.err) == nil || refusal.Of(j.err).Reason != refusal.NotLeader {
				t.Errorf("error %v", j.err)
			}
		case <-time.After(patience):
			t.Fatal("Join does not return")
		}
		break
	}
	// A round of the list without a pause, three hops in a second, and pauses of a twentieth of a second at least.
	if most := 5 + int(2*time.Since(begin)/(firstPause/2)) + 3*(1+int(time.Since(begin)/while)); calls > most {
		t.Errorf("%d calls, want %d at most", calls, most)
	}
}

// TestListsOfAddressesThatCannotBe: every one is checked before any is called.
func TestListsOfAddressesThatCannotBe(t *testing.T) {
	for list, want := range map[string]string{
		"a:1,,b:2":              `address "" is neither`,
		"a:1,b":                 `address "b" is neither`,
		"a:1,unix:///run/x":     "WithAddress",
		"a:1, http://b:9690 , ": `address "http://b:9690" is neither`,
	} {
		if _, err := Join(t.Context(), list, "train", 0, quiet); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", list, err, want)
		}
	}
	a, err := newAppliances("a:1, b:2,a:1 ,b:2", nil, workerAddr(0))
	if err != nil || strings.Join(a.listed, " ") != "a:1 b:2" {
		t.Fatalf("%v, %v", a, err)
	}
	if err := a.close(); err != nil {
		t.Error(err)
	}
	if _, err := a.client(); err == nil {
		t.Error("calls after the end")
	}
}

// TestNextAddress: who is called after what.
func TestNextAddress(t *testing.T) {
	a, err := newAppliances("a:1,b:2,c:3", nil, workerAddr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.close(); err != nil {
			t.Error(err)
		}
	}()
	away := refusal.New(codes.Unavailable, "", "connection refused")
	for i, step := range []struct {
		err   error
		next  string
		pause bool
	}{
		{away, "b:2", false},
		{follows("a:1"), "c:3", false}, // that did not answer just now
		{follows("d:4"), "d:4", false},
		{follows("b:2"), "b:2", false},
		{follows("b:2"), "a:1", true}, // itself: it does not know
		{follows("d:4"), "d:4", false},
		{follows("a:1"), "b:2", false}, // often enough
		{refusal.New(codes.AlreadyExists, refusal.RankTaken, "taken"), "b:2", true},
		{refusal.New(codes.ResourceExhausted, refusal.TooMany, "busy"), "b:2", true},
		{refusal.New(codes.Unavailable, refusal.ShuttingDown, "going"), "c:3", false},
		{io.EOF, "a:1", true},
	} {
		at := a.present()
		if pause := a.next(at, step.err); pause != step.pause || a.present() != step.next {
			t.Errorf("step %d, at %s: %s and pause %v, want %s and %v", i, at, a.present(), pause, step.next, step.pause)
		}
		if a.next("somewhere else", away) {
			t.Errorf("step %d: an error of another address counts", i)
		}
		if _, err := a.client(); err != nil || len(a.conns) > 4 {
			t.Errorf("step %d: %v, %d connections", i, err, len(a.conns))
		}
	}
}
