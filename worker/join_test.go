package worker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/wire"
)

var quiet = WithLogger(slog.New(slog.DiscardHandler))

// joined is what a Join in a goroutine came to.
type joined struct {
	worker *Worker
	err    error
}

// joining begins a Join; its worker is closed when the test ends.
func joining(t *testing.T, ctx context.Context, addr string, rank int, opts ...Option) <-chan joined {
	t.Helper()
	result := make(chan joined, 1)
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		w, err := Join(ctx, addr, "train", rank, append([]Option{quiet}, opts...)...)
		if w != nil {
			t.Cleanup(func() {
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		result <- joined{w, err}
	}()
	return result
}

func await(t *testing.T, result <-chan joined) (*Worker, error) {
	t.Helper()
	select {
	case j := <-result:
		return j.worker, j.err
	case <-time.After(patience):
		t.Fatal("Join does not return")
		return nil, nil
	}
}

// joinOne makes rank 0 of a job that the appliance knows all about, and returns its call.
func joinOne(t *testing.T, a *appliance, p Params, opts ...Option) (*Worker, *call) {
	t.Helper()
	result := joining(t, t.Context(), a.target(), p.Rank, opts...)
	c := a.next(t)
	c.parameters(t, p)
	w, err := await(t, result)
	if err != nil {
		t.Fatal(err)
	}
	return w, c
}

func TestJoinWaitsForAllAndLeaves(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			socket := ""
			if network == "unix" {
				socket = filepath.Join(t.TempDir(), "spillwayd.sock")
			}
			a, l := newAppliance(t, socket), newLoopback(t, 2, 0)
			heard := make(chan Waiting, 16)
			var results []<-chan joined
			var calls []*call
			for rank := range 2 {
				results = append(results, joining(t, t.Context(), a.target(), rank, WithAddress(workerAddr(rank)), WithProgress(func(w Waiting) { heard <- w })))
				c := a.next(t)
				if r := c.request; r.Job != "train" || int(r.Rank) != rank || r.Address != workerAddr(rank).String() || r.Resume != nil || !strings.Contains(r.Description, "pid ") {
					t.Errorf("asked with %v", r)
				}
				calls = append(calls, c)
			}
			calls[0].waiting(t, 2, 1, 1, 900)
			if w := <-heard; len(w.Missing) != 1 || w.Missing[0] != 1 || w.Workers != 2 || !strings.Contains(w.String(), "waiting for rank 1 of 2") {
				t.Errorf("progress %+v: %s", w, w)
			}
			for rank, c := range calls {
				c.parameters(t, l.of(rank))
			}
			var all []*Worker
			for _, result := range results {
				w, err := await(t, result)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, w)
			}
			for rank, err := range each(all, func(rank int, w *Worker) error {
				return w.AllReduceInt32(t.Context(), []int32{int32(rank) + 1}, wire.Sum)
			}) {
				if err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
			}
			for rank, w := range all {
				if err := w.Close(); err != nil {
					t.Error(err)
				}
				if left := <-a.left; left.Job != "train" || int(left.Rank) != rank || left.Part.GetGeneration() != uint32(l.params.Generation) || left.Part.GetCookie() != l.params.Cookie {
					t.Errorf("left with %v", left)
				}
				if err := w.Close(); err != nil {
					t.Errorf("second close: %v", err)
				}
			}
			if len(a.left) != 0 {
				t.Error("left twice")
			}
		})
	}
}

func TestJoinThatIsCalledOffSaysWhoWasMissing(t *testing.T) {
	a := newAppliance(t, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	heard := make(chan Waiting, 1)
	result := joining(t, ctx, a.target(), 0, WithProgress(func(w Waiting) { heard <- w }))
	c := a.next(t)
	c.waiting(t, 4, 3, 1)
	<-heard
	reason := errors.New("enough")
	cancel(reason)
	_, err := await(t, result)
	if !errors.Is(err, reason) || !strings.Contains(err.Error(), "waiting for ranks 1, 3 of 4 (since ") || !strings.Contains(err.Error(), `join job "train" as rank 0`) {
		t.Errorf("error %v", err)
	}
	<-c.ended
}

func TestRefusalsReachTheCaller(t *testing.T) {
	a := newAppliance(t, "")
	for _, refused := range []*refusal.Error{
		refusal.New(codes.NotFound, refusal.NoSuchJob, "there is no job %q: create it first", "train"),
		refusal.New(codes.PermissionDenied, refusal.NotAuthorised, "the certificate is for another job"),
		refusal.New(codes.AlreadyExists, refusal.RankTaken, "rank 0 is present at 10.0.0.9").With("address", "10.0.0.9"),
	} {
		result := joining(t, t.Context(), a.target(), 0)
		a.next(t).end <- refused
		_, err := await(t, result)
		var got *refusal.Error
		if !errors.As(err, &got) || got.Code != refused.Code || got.Reason != refused.Reason || got.Text != refused.Text || !strings.Contains(err.Error(), refused.Text) ||
			strings.Contains(err.Error(), "rpc error") || got.Metadata["address"] != refused.Metadata["address"] {
			t.Errorf("error %v (%+v)", err, got)
		}
	}
}

func TestJoinWithoutAnAppliance(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	files := openFiles(t)
	var steps []string
	_, err = Join(t.Context(), addr, "train", 0, quiet, WithPatience(200*time.Millisecond), WithProgress(func(w Waiting) { steps = append(steps, w.String()) }))
	if err == nil || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "is spillwayd running") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v", err)
	}
	if len(steps) == 0 || !strings.Contains(steps[0], "calling the appliance at "+addr+" again") {
		t.Errorf("progress %q", steps)
	}
	if now := openFiles(t); now != files {
		t.Errorf("%d files are open, %d before", now, files)
	}
}

func TestAddressesThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		addr, want string
		rank       int
		opts       []Option
	}{
		{addr: "unix:///run/spillway/spillwayd.sock", want: "WithAddress"},
		{addr: "aggregator", want: "aggregator:9690"},
		{addr: "http://aggregator:9690", want: "neither host:port"},
		{addr: "aggregator:", want: "neither host:port"},
		{addr: "aggregator:9690", rank: -1, want: "rank"},
		{addr: "aggregator:9690", want: "fe80::1", opts: []Option{WithAddress(netip.MustParseAddr("fe80::1"))}},
		{addr: "unix:///x", want: "no TLS", opts: []Option{WithAddress(workerAddr(0)), WithTLS(noCertificates)}},
	} {
		if _, err := Join(t.Context(), c.addr, "train", c.rank, append(c.opts, quiet)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.addr, err, c.want)
		}
	}
}

func TestJoinOutlivesARestart(t *testing.T) {
	a, l := newAppliance(t, ""), newLoopback(t, 1, 0)
	heard := make(chan Waiting, 64)
	result := joining(t, t.Context(), a.target(), 0, WithProgress(func(w Waiting) { heard <- w }))
	a.next(t).waiting(t, 2, 1)
	if w := <-heard; w.Step != "" {
		t.Errorf("progress %v", w)
	}
	a.stop()
	if w := <-heard; !strings.Contains(w.Step, "again") || len(w.Missing) != 1 {
		t.Errorf("progress %v", w)
	}
	a.start(t)
	again := a.next(t)
	if again.request.Resume != nil {
		t.Errorf("resumes what it never had: %v", again.request)
	}
	// The appliance has not noticed that the first call ended.
	again.end <- refusal.New(codes.AlreadyExists, refusal.RankTaken, "rank 0 is present")
	// It is busy, it is going away, it says nothing.
	a.next(t).end <- refusal.New(codes.ResourceExhausted, refusal.TooMany, "too many calls")
	a.next(t).end <- refusal.New(codes.Unavailable, refusal.ShuttingDown, "going away")
	a.next(t).end <- nil
	a.next(t).parameters(t, l.of(0))
	if _, err := await(t, result); err != nil {
		t.Fatal(err)
	}
}

func TestAnApplianceThatTalksNonsense(t *testing.T) {
	a, l := newAppliance(t, ""), newLoopback(t, 1, 0)
	files := 0
	for _, c := range []struct {
		name, want string
		said       *v1.JoinResponse
	}{
		{"no parameters", "cannot be", &v1.JoinResponse{Update: &v1.JoinResponse_Parameters{}}},
		{"another rank", "those of rank 5, not 0", &v1.JoinResponse{Update: &v1.JoinResponse_Parameters{Parameters: &v1.Parameters{Rank: 5, Workers: 6}}}},
		{"an address that is not here", "192.0.2.1", func() *v1.JoinResponse {
			p := l.of(0)
			p.Addr = netip.MustParseAddr("192.0.2.1")
			return &v1.JoinResponse{Update: &v1.JoinResponse_Parameters{Parameters: said(p)}}
		}()},
		{"too long", "larger than max", &v1.JoinResponse{Update: &v1.JoinResponse_Notice{Notice: &v1.Notice{Text: strings.Repeat("a", mostMessage)}}}},
	} {
		result := joining(t, t.Context(), a.target(), 0, WithPatience(0))
		at := a.next(t)
		at.say(t, &v1.JoinResponse{})
		at.say(t, &v1.JoinResponse{Update: &v1.JoinResponse_Waiting{}})
		at.say(t, c.said)
		if _, err := await(t, result); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		<-at.ended
		if files == 0 {
			files = openFiles(t)
		}
	}
	// Sockets that failed to open have been closed; the server may still be closing the last connection, which is not counted here.
	if len(a.left) != 1 {
		t.Errorf("%d leaves, want one: of the worker that had parameters and could not use them", len(a.left))
	}

	w, at := joinOne(t, a, l.of(0))
	at.end <- nil
	other := l.of(0)
	other.Cookie++
	a.next(t).parameters(t, other)
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		if err := w.AllReduce(t.Context(), []float32{1}); err != nil {
			if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "another generation") {
				t.Errorf("error %v", err)
			}
			return
		}
	}
	t.Error("a resumed call with another cookie was taken")
}
