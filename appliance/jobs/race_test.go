package jobs

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

// TestManyJoins has 256 ranks of several jobs join at once.
func TestManyJoins(t *testing.T) {
	r := newRig(t, true)
	sizes := []int{64, 64, 64, 32, 16, 8, 4, 2, 1, 1}
	for n, size := range sizes {
		r.create(fmt.Sprintf("job-%d", n), size)
	}
	var all sync.WaitGroup
	for n, size := range sizes {
		for rank := range size {
			all.Go(func() {
				name := fmt.Sprintf("job-%d", n)
				begun := make(chan *v1.Parameters, 1)
				done := make(chan error, 1)
				request := &v1.JoinRequest{Job: name, Rank: uint32(rank), Address: workerAddr(rank).String()}
				go func() {
					done <- r.m.Join(t.Context(), request, func(u *v1.JoinResponse) error {
						if p := u.GetParameters(); p != nil {
							begun <- p
						}
						return nil
					})
				}()
				select {
				case p := <-begun:
					if err := r.m.Leave(t.Context(), &v1.LeaveRequest{Job: name, Rank: uint32(rank), Part: &v1.Resume{Generation: p.Generation, Cookie: p.Cookie}}); err != nil {
						t.Errorf("%s, rank %d: %v", name, rank, err)
					}
				case <-time.After(patience):
					t.Errorf("%s, rank %d: no parameters within %v", name, rank, patience)
				}
				if err := <-done; err != nil {
					t.Errorf("%s, rank %d: %v", name, rank, err)
				}
			})
		}
	}
	all.Wait()
	for _, job := range r.m.List() {
		if job.Present != 0 || job.Generation != 1 || job.State != v1.JobState_JOB_STATE_WAITING {
			t.Errorf("%v", job)
		}
	}
	if n := len(aggregator.Jobs()); n != len(sizes) {
		t.Errorf("%d jobs in the aggregator", n)
	}
}

// TestOneRankOnce has many processes claim one rank: one gets it.
func TestOneRankOnce(t *testing.T) {
	r := newRig(t, false)
	r.create("a", 2)
	var claims []*worker
	for range 50 {
		claims = append(claims, r.join("a", 0))
	}
	var winner *worker
	ended := 0
	r.until("all but one are refused", func() bool {
		for i, w := range claims {
			if w == nil {
				continue
			}
			select {
			case err := <-w.done:
				refused(t, err, codes.AlreadyExists, refusal.RankTaken)
				claims[i] = nil
				ended++
			default:
			}
		}
		return ended == len(claims)-1
	})
	for _, w := range claims {
		if w != nil {
			winner = w
		}
	}
	r.join("a", 1).begun()
	winner.begun()
}

func TestHeartbeat(t *testing.T) {
	r := newRig(t, false, func(c *Config) { c.Heartbeat = time.Millisecond })
	r.create("a", 2)
	w := r.join("a", 0)
	for range 5 {
		w.waits(1)
	}
}

// held is a ToR that answers when it is told to; the generation of job a is at it.
func held(t *testing.T) (*rig, []*worker) {
	r := newRig(t, true)
	r.create("a", 2)
	r.tor.mu.Lock()
	r.tor.hold = make(chan struct{})
	r.tor.mu.Unlock()
	all := []*worker{r.join("a", 0), r.join("a", 1)}
	r.until("the ToR is asked", func() bool { return len(r.tor.has()) == 1 })
	return r, all
}

func (r *rig) letGo() {
	r.tor.mu.Lock()
	defer r.tor.mu.Unlock()
	close(r.tor.hold)
	r.tor.hold = nil
}

// TestVanishesDuringActivation has one go while the generation is set up: the other waits on, and begins when somebody takes the place.
func TestVanishesDuringActivation(t *testing.T) {
	r, all := held(t)
	before := r.state()
	before.Tor = nil
	all[1].vanish()
	all[0].waits(1)
	r.until("the ToR is told to forget it", func() bool { return len(r.tor.has()) == 0 })
	r.until("the rest is undone", func() bool { return !r.forming("a") })
	r.unchanged(before, "a generation that was not formed")
	r.letGo()
	last := r.join("a", 1)
	if p := all[0].begun(); p.Generation != 1 || p.Cookie != last.begun().Cookie {
		t.Errorf("%v", p)
	}
}

// TestVanishesAtTheLast has one go, or its place be taken by another, when nothing is left to do but to tell everybody.
func TestVanishesAtTheLast(t *testing.T) {
	for _, step := range []string{"add", "put"} {
		for _, replaced := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, replaced %v", step, replaced), func(t *testing.T) {
				r := newRig(t, true)
				r.create("a", 2)
				before := r.state()
				first, second := r.join("a", 0), make(chan *worker, 1)
				first.waits(1)
				var third *worker
				r.during(step, func() {
					(<-second).vanish()
					if replaced {
						third = r.join("a", 1)
						r.until("its place is taken", func() bool { return r.get("a").Present == 2 })
					}
				})
				second <- r.join("a", 1)
				if !replaced {
					first.waits(1)
					r.until("it is undone", func() bool { return !r.forming("a") })
					r.unchanged(before, "a generation that was not formed")
					third = r.join("a", 1)
				}
				if p := first.begun(); p.Generation != 1 || third.begun().Cookie != p.Cookie || aggregator.Jobs()[0].Cookie != p.Cookie {
					t.Errorf("%v, %v, %v", p, third.params, aggregator.Jobs())
				}
			})
		}
	}
}

func (r *rig) forming(name string) bool {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	return r.m.jobs[name].forming
}

// TestReplacedDuringActivation has the place of one who goes taken before the generation is undone.
func TestReplacedDuringActivation(t *testing.T) {
	r, all := held(t)
	all[1].vanish()
	last := r.join("a", 1)
	r.until("the ToR is asked again", func() bool { return r.count("await") == 2 })
	r.letGo()
	if p := all[0].begun(); p.Generation != 1 || p.Cookie != last.begun().Cookie {
		t.Errorf("%v", p)
	}
	if n := len(aggregator.Jobs()); n != 1 {
		t.Errorf("%d jobs in the aggregator", n)
	}
}

func (s *steps) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[name]
}

// TestOthersDuringActivation does everything else to a job whose generation is being set up.
func TestOthersDuringActivation(t *testing.T) {
	t.Run("join", func(t *testing.T) {
		r, all := held(t)
		refused(t, r.join("a", 1).end(), codes.AlreadyExists, refusal.RankTaken)
		r.create("b", 1)
		spec := r.spec("c", 1)
		if _, err := r.m.Create(t.Context(), spec, false); err != nil {
			t.Fatal(err)
		}
		r.letGo()
		all[0].begun()
	})
	t.Run("delete", func(t *testing.T) {
		r, all := held(t)
		_, err := r.m.Delete(t.Context(), "a", false)
		refused(t, err, codes.FailedPrecondition, refusal.JobInUse)
		if _, err := r.m.Delete(t.Context(), "a", true); err != nil { // without waiting for the ToR
			t.Fatal(err)
		}
		for _, w := range all {
			refused(t, w.end(), codes.Aborted, refusal.JobDeleted)
		}
		if s := r.state(); len(s.Maps)+len(s.Tor)+len(s.Store) != 0 || r.m.Capacity().Jobs.Used != 0 {
			t.Errorf("left behind: %+v", s)
		}
	})
	t.Run("delete that fails", func(t *testing.T) {
		r, all := held(t)
		r.failNext("delete", 1)
		_, err := r.m.Delete(t.Context(), "a", true)
		refused(t, err, codes.Internal, refusal.Storage)
		r.letGo()
		all[0].begun()
		all[1].begun()
	})
	t.Run("drain", func(t *testing.T) {
		r, all := held(t)
		drained := make(chan error)
		go func() { _, err := r.m.Drain(t.Context(), "a"); drained <- err }()
		r.letGo()
		for _, w := range all {
			w.begun()
			w.notice(v1.NoticeKind_NOTICE_KIND_DRAINING)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
	t.Run("grace", func(t *testing.T) {
		r, all := held(t)
		r.clock.advance(2 * DefaultGrace)
		r.m.sweep(t.Context())
		r.letGo()
		all[0].begun()
	})
	t.Run("close", func(t *testing.T) {
		r, all := held(t)
		r.restart()
		for _, w := range all {
			refused(t, w.end(), codes.Unavailable, refusal.ShuttingDown)
		}
		if s := r.state(); len(s.Maps)+len(s.Tor) != 0 || r.get("a").Generation != 0 {
			t.Errorf("left behind: %+v", s)
		}
		r.letGo()
		r.joinAll("a", 2)
	})
}

// TestGraceAgainstJoin has the sweep and a join meet again and again: either the job is gone, or it runs and stays.
func TestGraceAgainstJoin(t *testing.T) {
	r := newRig(t, false)
	kept, collected := 0, 0
	for n := range 100 {
		name := fmt.Sprintf("job-%d", n)
		r.create(name, 1)
		r.clock.advance(DefaultGrace)
		swept := make(chan struct{})
		go func() {
			defer close(swept)
			r.m.sweep(t.Context())
		}()
		w := r.join(name, 0)
		select {
		case err := <-w.done:
			if got := refusal.Of(err); got == nil || got.Reason != refusal.NoSuchJob && got.Reason != refusal.JobDeleted {
				t.Fatal(err)
			}
			collected++
		case u := <-w.updates:
			if u.GetParameters() == nil {
				w.begun()
			}
			kept++
		}
		<-swept
		if _, err := r.m.Get(name); (err == nil) != (len(aggregator.Jobs()) == 1) {
			t.Fatalf("the job is there: %v, the aggregator has %d", err == nil, len(aggregator.Jobs()))
		}
		if _, err := r.m.Delete(t.Context(), name, true); err != nil && refusal.Of(err).Reason != refusal.NoSuchJob {
			t.Fatal(err)
		}
	}
	t.Logf("%d kept, %d collected", kept, collected)
}
