package worker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/wire"
)

// move has the homes lose their memory and gives the job others, in a new generation. It returns the parameters of a rank.
func (l *loopback) move(t *testing.T) func(rank int) *v1.Parameters {
	t.Helper()
	homes := len(l.homes)
	l.close(t)
	l.seed++
	l.job.Generation++
	l.job.Cookie += 1000
	l.job.Resumed = l.job.Policy.Quorum != 0
	before := uint32(l.params.Generation)
	l.params.Generation, l.params.Cookie = l.job.Generation, l.job.Cookie
	l.open(t, homes)
	return func(rank int) *v1.Parameters {
		p := said(l.of(rank))
		p.Resumes = before
		return p
	}
}

func (c *call) moves(t *testing.T, p *v1.Parameters) {
	t.Helper()
	c.say(t, &v1.JoinResponse{Update: &v1.JoinResponse_Parameters{Parameters: p}})
}

// TestMovesUnderCollectives: again and again the homes die in the middle of collectives, and others take their place; every sum is right.
func TestMovesUnderCollectives(t *testing.T) {
	const ranks, steps = 2, 24
	for _, c := range []struct {
		homes  int
		loss   float64
		policy Policy
	}{{homes: 1}, {homes: 3, loss: 0.01}, {homes: 2, policy: Policy{Quorum: 1, After: time.Minute}}} {
		t.Run(fmt.Sprintf("homes=%d loss=%v quorum=%d", c.homes, c.loss, c.policy.Quorum), func(t *testing.T) {
			a, l := newAppliance(t, ""), newQuorumLoopback(t, ranks, c.loss, c.policy)
			l.close(t)
			if c.policy.Quorum != 0 {
				l.job.Policy.MaxLag = wire.ShardLag(c.homes)
			}
			l.open(t, c.homes)
			var all []*Worker
			var calls []*call
			for rank := range ranks {
				w, at := joinOne(t, a, l.of(rank))
				all, calls = append(all, w), append(calls, at)
			}
			done := make(chan int, ranks*steps)
			ended := make(chan []error, 1)
			go func() {
				ended <- each(all, func(rank int, w *Worker) error {
					data := make([]int32, 40_000)
					for step := range steps {
						for i := range data {
							data[i] = int32(i*(rank+1) + step)
						}
						if err := w.AllReduceInt32(t.Context(), data, wire.Sum); err != nil {
							return fmt.Errorf("step %d: %w", step, err)
						}
						for i, got := range data {
							if want := int32(3*i + 2*step); got != want {
								return fmt.Errorf("step %d, element %d: %d, want %d", step, i, got, want)
							}
						}
						done <- step
					}
					return nil
				})
			}()
			for range 5 {
				for range 2 * ranks {
					<-done
				}
				parameters := l.move(t)
				for rank, at := range calls {
					at.moves(t, parameters(rank))
				}
			}
			for rank, err := range <-ended {
				if err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
			}
			for rank, w := range all {
				if p := w.Params(); p.Generation != l.params.Generation || len(p.Homes) != c.homes || p.Homes[0] != l.params.Homes[0] || p.Rank != rank {
					t.Errorf("rank %d: %+v", rank, p)
				}
			}
		})
	}
}

// TestMoveWhileTheCallIsBroken: a worker that resumes with a generation hears of the last of those that followed it, and leaves with that.
func TestMoveWhileTheCallIsBroken(t *testing.T) {
	a, l := newAppliance(t, ""), newLoopback(t, 1, 0)
	w, _ := joinOne(t, a, l.of(0))
	a.stop()
	own := uint32(l.params.Generation)
	l.move(t)
	parameters := l.move(t)
	handle, err := w.AllReduceAsync(make([]float32, 10_000))
	if err != nil {
		t.Fatal(err)
	}
	a.start(t)
	c := a.next(t)
	if c.request.GetResume().GetGeneration() != own {
		t.Errorf("resumes with %v", c.request)
	}
	c.moves(t, parameters(0))
	if err := handle.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	c.end <- refusal.New(codes.Unavailable, refusal.ShuttingDown, "going away")
	c = a.next(t)
	if r := c.request.GetResume(); r.GetGeneration() != own+2 || r.GetCookie() != l.params.Cookie {
		t.Errorf("resumes with %v", c.request)
	}
	c.moves(t, parameters(0)) // nothing new
	if err := w.AllReduce(t.Context(), make([]float32, 100)); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if left := <-a.left; left.GetPart().GetGeneration() != own+2 {
		t.Errorf("left with %v", left)
	}
}

// TestFirstParametersThatResume: a rank that joins when the others go on already is one of them from the start.
func TestFirstParametersThatResume(t *testing.T) {
	a, l := newAppliance(t, ""), newQuorumLoopback(t, 2, 0, Policy{Quorum: 1, After: time.Minute})
	one, c := joinOne(t, a, l.of(0))
	result := joining(t, t.Context(), a.target(), 1)
	late := a.next(t)
	parameters := l.move(t)
	handle, err := one.AllReduceInt32Async([]int32{1}, wire.Sum)
	if err != nil {
		t.Fatal(err)
	}
	c.moves(t, parameters(0))
	late.moves(t, parameters(1))
	two, err := await(t, result)
	if err != nil {
		t.Fatal(err)
	}
	got := []int32{2}
	if err := two.AllReduceInt32(t.Context(), got, wire.Sum); err != nil || got[0] != 3 {
		t.Errorf("%v, %v", got, err)
	}
	if err := handle.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestMovesThatCannotBe: what is not the job's next generation, or would make another job of it, breaks the worker.
func TestMovesThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(p *v1.Parameters){
		"another generation than the one to resume":     func(p *v1.Parameters) { p.Resumes = 0 },
		"than the one to resume ":                       func(p *v1.Parameters) { p.Resumes-- },
		"generation than the one to resume":             func(p *v1.Parameters) { p.Generation = p.Resumes },
		"those of rank 1, not 0":                        func(p *v1.Parameters) { p.Rank = 1 },
		"0 homes are not between":                       func(p *v1.Parameters) { p.Homes = nil },
		"worker port 7 instead of":                      func(p *v1.Parameters) { p.WorkerPort = 7 },
		"group 239.1.1.1 instead of":                    func(p *v1.Parameters) { p.Group = "239.1.1.1" },
		"own address 127.0.0.9 instead of 127.0.0.2":    func(p *v1.Parameters) { p.Address = "127.0.0.9" },
		"the job would be another":                      func(p *v1.Parameters) { p.Window = 63 },
		"the job would be another, ":                    func(p *v1.Parameters) { p.Homes = append(p.Homes, p.Homes[0]) },
		"the job would be another, {Job:5 Generation:0": func(p *v1.Parameters) { p.Quorum = &v1.Quorum{Workers: 1, After: p.MaxRto} },
		"a job with a tor region has one home, not 2": func(p *v1.Parameters) {
			p.Tor, p.Homes, p.Priority = &v1.Region{Slots: 64, Period: 64}, append(p.Homes, p.Homes[0]), 1
		},
		"tor period 32 is not a power of two from the window": func(p *v1.Parameters) { p.Tor, p.Priority = &v1.Region{Slots: 32, Period: 32}, 1 },
	} {
		t.Run(want, func(t *testing.T) {
			a, l := newAppliance(t, ""), newLoopback(t, 2, 0)
			l.params.MaxRTO = time.Second
			w, c := joinOne(t, a, l.of(0))
			inFlight, err := w.AllReduceAsync(make([]float32, 1000)) // rank 1 never comes
			if err != nil {
				t.Fatal(err)
			}
			p := l.move(t)(0)
			change(p)
			c.moves(t, p)
			if err := inFlight.Wait(t.Context()); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
				t.Errorf("in flight: %v", err)
			}
		})
	}
}
