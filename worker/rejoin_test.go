package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/wire"
)

// elasticOf are parameters of an elastic job.
func elasticOf(p Params) Params {
	p.Elastic = true
	return p
}

// dead says to a worker that ranks are dead.
func (c *call) dead(t *testing.T, n *v1.Notice) {
	t.Helper()
	n.Kind = v1.NoticeKind_NOTICE_KIND_DEAD
	c.say(t, &v1.JoinResponse{Update: &v1.JoinResponse_Notice{Notice: n}})
}

// joinElastic is joinOne for an elastic job, by any rank.
func joinElastic(t *testing.T, a *appliance, p Params, asked int, opts ...Option) (*Worker, *call) {
	t.Helper()
	result := joining(t, t.Context(), a.target(), asked, append(opts, WithAnyRank(), WithAddress(p.Addr))...)
	c := a.next(t)
	if r := c.request; !r.AnyRank || r.Rank != uint32(asked) || r.Resume != nil {
		t.Errorf("joins with %v", r)
	}
	c.parameters(t, elasticOf(p))
	w, err := await(t, result)
	if err != nil {
		t.Fatal(err)
	}
	return w, c
}

func TestDeadRanksFailWhatIsInFlight(t *testing.T) {
	a, l := newAppliance(t, ""), newLoopback(t, 3, 0)
	w, c := joinOne(t, a, l.of(0))
	h, err := w.AllReduceAsync(make([]float32, 1000)) // ranks 1 and 2 never come
	if err != nil {
		t.Fatal(err)
	}
	c.dead(t, &v1.Notice{Text: "ranks 1 and 2 are dead.", Ranks: []uint32{1, 2}, Descriptions: []string{"10.0.0.2, host b pid 7", "10.0.0.3"}, Ago: durationpb.New(time.Hour)})
	err = h.Wait(t.Context())
	var dead *DeadRanksError
	if !errors.As(err, &dead) || !errors.Is(err, ErrBroken) {
		t.Fatalf("%v", err)
	}
	if since := time.Since(dead.Since); !slices.Equal(dead.Ranks, []int{1, 2}) || !slices.Equal(dead.Descriptions, []string{"10.0.0.2, host b pid 7", "10.0.0.3"}) ||
		since < time.Hour || since > time.Hour+patience || !strings.HasPrefix(err.Error(), "ranks 1 and 2 are dead (since ") {
		t.Errorf("%+v", dead)
	}
	if err := w.AllReduce(t.Context(), make([]float32, 10)); !errors.As(err, &dead) {
		t.Errorf("afterwards: %v", err)
	}
	if err := w.Rejoin(t.Context()); !errors.Is(err, ErrNotElastic) {
		t.Errorf("rejoin: %v", err)
	}
}

func TestQuorumGoesOnWithoutDeadRanks(t *testing.T) {
	a, l := newAppliance(t, ""), newQuorumLoopback(t, 3, 0, Policy{Quorum: 1, After: time.Millisecond, MaxLag: 64})
	w, c := joinOne(t, a, l.of(0))
	c.dead(t, &v1.Notice{Ranks: []uint32{1}})
	c.notice(t, v1.NoticeKind_NOTICE_KIND_RESUMED, "", 1)
	c.dead(t, &v1.Notice{Ranks: []uint32{2, 77}}) // there is no such rank
	for range 3 {
		if _, err := w.AllReduceWith(t.Context(), make([]float32, 100)); err != nil && !errors.As(err, new(*PartialError)) {
			t.Fatalf("with a quorum left: %v", err)
		}
	}
	h, err := w.AllReduceAsync(make([]float32, 10_000_000))
	if err != nil {
		t.Fatal(err)
	}
	c.dead(t, &v1.Notice{Ranks: []uint32{0, 1}}) // it hears of itself: nobody is left
	var dead *DeadRanksError
	if err := h.Wait(t.Context()); !errors.As(err, &dead) || !slices.Equal(dead.Ranks, []int{0, 1, 2}) {
		t.Errorf("without a quorum: %v", err)
	}
}

// The generation after may have another rank, other numbers and another cookie; what runs there is new, and the call before has ended.
func TestRejoin(t *testing.T) {
	a, two := newAppliance(t, ""), newLoopback(t, 2, 0)
	first := two.of(1)
	first.Generation, first.Cookie, first.Workers, first.Rank = first.Generation-1, 17, 3, 2
	w, c := joinElastic(t, a, first, 7)
	if w.Rank() != 2 || w.Workers() != 3 {
		t.Fatalf("rank %d of %d", w.Rank(), w.Workers())
	}
	select {
	case <-w.Resizing():
		t.Error("nobody waits")
	default:
	}
	resizing := w.Resizing()
	c.notice(t, v1.NoticeKind_NOTICE_KIND_RESIZE, "a new worker waits for the next generation")
	c.notice(t, v1.NoticeKind_NOTICE_KIND_RESIZE, "2 new workers wait for the next generation")
	select {
	case <-resizing:
	case <-time.After(patience):
		t.Fatal("nobody is told that others wait")
	}
	h, err := w.AllReduceAsync(make([]float32, 1000))
	if err != nil {
		t.Fatal(err)
	}
	// The other rank of the next generation.
	other, err := JoinWith(two.of(0), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	rejoined := make(chan error, 1)
	go func() { rejoined <- w.Rejoin(t.Context()) }()
	next := a.next(t)
	if r := next.request; !r.AnyRank || r.Rank != 2 || r.Resume.GetGeneration() != uint32(first.Generation) || r.Resume.GetCookie() != first.Cookie {
		t.Errorf("rejoins with %v", r)
	}
	if err := h.Wait(t.Context()); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "next generation") {
		t.Errorf("in flight: %v", err)
	}
	c.end <- nil // as the appliance does
	next.waiting(t, 4, 3)
	next.parameters(t, elasticOf(two.of(1)))
	if err := <-rejoined; err != nil {
		t.Fatal(err)
	}
	if w.Rank() != 1 || w.Workers() != 2 || w.Resizing() == resizing {
		t.Errorf("rank %d of %d", w.Rank(), w.Workers())
	}
	agreed := make(chan bool, 1)
	go func() {
		data := []int32{0}
		if err := other.AllReduceInt32(t.Context(), data, wire.Max); err != nil {
			t.Error(err)
		}
		agreed <- data[0] != 0
	}()
	if yes, err := w.AgreeToRejoin(t.Context()); err != nil || yes || <-agreed {
		t.Errorf("nobody waits any more: %v", err)
	}
	next.notice(t, v1.NoticeKind_NOTICE_KIND_RESIZE, "a new worker waits")
	<-w.Resizing()
	go func() {
		data := []int32{0}
		if err := other.AllReduceInt32(t.Context(), data, wire.Max); err != nil {
			t.Error(err)
		}
		agreed <- data[0] != 0
	}()
	if yes, err := w.AgreeToRejoin(t.Context()); err != nil || !yes || !<-agreed {
		t.Errorf("others wait: %v", err)
	}
	if s := w.Stats(); s.Collectives != 2 {
		t.Errorf("statistics begin anew: %d collectives", s.Collectives)
	}
	// It resumes the new part.
	next.end <- refusal.New(codes.Unavailable, refusal.ShuttingDown, "going away")
	again := a.next(t)
	if r := again.request; r.AnyRank || r.Rank != 1 || r.Resume.GetGeneration() != uint32(two.of(1).Generation) {
		t.Errorf("resumes with %v", r)
	}
	again.parameters(t, elasticOf(two.of(1)))
}

// Rejoin can be tried again after it failed, and Close ends one that waits.
func TestRejoinThatFails(t *testing.T) {
	a, l := newAppliance(t, ""), newLoopback(t, 1, 0)
	w, _ := joinElastic(t, a, l.of(0), 0)
	ctx, cancel := context.WithCancel(t.Context())
	rejoined := make(chan error, 1)
	go func() { rejoined <- w.Rejoin(ctx) }()
	a.next(t).waiting(t, 2, 1)
	cancel()
	if err := <-rejoined; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	go func() { rejoined <- w.Rejoin(t.Context()) }()
	a.next(t).end <- refusal.New(codes.FailedPrecondition, refusal.JobDraining, "job train is draining")
	var refused *refusal.Error
	if err := <-rejoined; !errors.As(err, &refused) || refused.Reason != refusal.JobDraining {
		t.Errorf("refused: %v", err)
	}
	if err := w.AllReduce(t.Context(), make([]float32, 10)); !errors.Is(err, ErrBroken) {
		t.Errorf("between generations: %v", err)
	}
	// Parameters that cannot be: nothing can be sent from there.
	go func() { rejoined <- w.Rejoin(t.Context()) }()
	p := elasticOf(l.of(0))
	p.Group = p.Addr // no group
	a.next(t).parameters(t, p)
	if err := <-rejoined; err == nil || !strings.Contains(err.Error(), "not an IPv4 multicast address") {
		t.Errorf("impossible: %v", err)
	}
	go func() { rejoined <- w.Rejoin(t.Context()) }()
	a.next(t).parameters(t, elasticOf(l.of(0)))
	if err := <-rejoined; err != nil {
		t.Fatal(err)
	}
	if err := w.AllReduce(t.Context(), make([]float32, 10)); err != nil {
		t.Errorf("rejoined: %v", err)
	}
	go func() { rejoined <- w.Rejoin(t.Context()) }()
	a.next(t)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := <-rejoined; !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if err := w.Rejoin(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
}
