package jobs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

const settle = 2 * time.Second

func (r *rig) createElastic(name string, workers, least int, change ...func(*v1.JobSpec)) {
	r.t.Helper()
	spec := r.spec(name, workers)
	spec.MinWorkers, spec.Settle, spec.LostAfter = uint32(least), durationpb.New(settle), durationpb.New(lostAfter)
	for _, c := range change {
		c(spec)
	}
	if _, err := r.m.Create(r.t.Context(), spec, false); err != nil {
		r.t.Fatal(err)
	}
}

func anyRank(request *v1.JoinRequest) { request.AnyRank = true }

// newcomer joins for any rank from the address that belongs to this number.
func (r *rig) newcomer(name string, number int) *worker { return r.join(name, number, anyRank) }

// joinAny has so many join for any rank, one after the other, until a generation of all is formed.
func (r *rig) joinAny(name string, workers int) (all []*worker) {
	r.t.Helper()
	for number := range workers {
		w := r.newcomer(name, number)
		all = append(all, w)
		if number < workers-1 {
			r.waitFor(name, number+1)
		}
	}
	for _, w := range all {
		w.begun()
	}
	return all
}

// waitFor waits until so many wait for the next generation.
func (r *rig) waitFor(name string, count int) {
	r.t.Helper()
	r.until("calls that wait", func() bool {
		r.m.mu.Lock()
		defer r.m.mu.Unlock()
		return len(r.m.jobs[name].lineup()) == count
	})
}

// rejoin asks for the generation after the worker's, as it is placed in that.
func (w *worker) rejoin() *worker {
	w.r.t.Helper()
	number := w.number()
	return w.r.join(w.job(), number, func(request *v1.JoinRequest) {
		request.Rank, request.AnyRank = w.params.Rank, true
		request.Resume = &v1.Resume{Generation: w.params.Generation, Cookie: w.params.Cookie}
	})
}

// number is that of the worker's address, which it keeps whatever its rank.
func (w *worker) number() int {
	for number := range 64 {
		if w.params.Address == workerAddr(number).String() {
			return number
		}
	}
	w.r.t.Fatalf("address %s", w.params.Address)
	return 0
}

// formed checks who has which rank, of how many: numbers are by rank.
func (r *rig) formed(all []*worker, numbers ...int) {
	r.t.Helper()
	got := make([]int, len(numbers))
	for _, w := range all {
		p := w.params
		if p == nil {
			p = w.begun()
		}
		if int(p.Workers) != len(numbers) || int(p.Rank) >= len(numbers) || !p.Elastic {
			r.t.Fatalf("want %d ranks, got %v", len(numbers), p)
		}
		got[p.Rank] = w.number()
	}
	if !slices.Equal(got, numbers) {
		r.t.Errorf("by rank there are %v, want %v", got, numbers)
	}
	for _, job := range aggregator.Jobs() {
		if job.Workers != len(numbers) {
			r.t.Errorf("the aggregator has %d workers, want %d", job.Workers, len(numbers))
		}
	}
}

func (r *rig) settle() {
	r.clock.advance(settle)
	r.m.elapse()
}

func TestElasticJobSettlesForFewer(t *testing.T) {
	r := newRig(t, false)
	r.createElastic("train", 4, 2)
	a := r.newcomer("train", 3)
	r.waitFor("train", 1)
	r.settle() // one is too few
	b := r.newcomer("train", 1)
	r.waitFor("train", 2)
	if reason := r.get("train").Reason; !strings.Contains(reason, "2 workers wait for generation 1, which begins when 2s has passed without another, or 4 are there") {
		t.Errorf("it says %q", reason)
	}
	r.clock.advance(settle - time.Millisecond)
	r.m.elapse()
	c := r.newcomer("train", 2) // begins the time anew
	r.waitFor("train", 3)
	r.clock.advance(time.Millisecond)
	r.m.elapse()
	if job := r.get("train"); job.Generation != 0 {
		t.Fatalf("it did not wait for those that come: %v", job)
	}
	r.settle()
	r.formed([]*worker{a, b, c}, 1, 2, 3)
	if job := r.get("train"); job.Ranks != 3 || job.Present != 3 {
		t.Errorf("the job is %v", job)
	}
}

func TestElasticJobIsFormedAtOnceWhenAllAreThere(t *testing.T) {
	r := newRig(t, false)
	r.createElastic("train", 3, 1)
	r.formed(r.joinAny("train", 3), 0, 1, 2)
}

// The life of an elastic job: one dies, the others go on without, another comes, all go on with it.
func TestElasticJobShrinksAndGrows(t *testing.T) {
	for _, tor := range []bool{false, true} {
		r := newRig(t, tor)
		r.createElastic("train", 4, 2)
		w := r.joinAny("train", 4)
		r.formed(w, 0, 1, 2, 3)
		w[1].vanish()
		r.clock.advance(lostAfter)
		r.m.elapse()
		var next []*worker
		for _, rank := range []int{3, 0, 2} { // in whatever order
			w[rank].died(1)
			next = append(next, w[rank].rejoin())
			if err := w[rank].end(); err != nil {
				t.Errorf("the call before ended with %v", err)
			}
		}
		r.waitFor("train", 3)
		r.settle()
		r.formed(next, 0, 2, 3)
		if job := r.get("train"); job.Generation != 2 || job.Ranks != 3 || job.State != v1.JobState_JOB_STATE_RUNNING {
			t.Errorf("the job is %v", job)
		}
		// One comes back, and disturbs nobody until they ask.
		back := r.newcomer("train", 1)
		r.waitFor("train", 1)
		for _, w := range next {
			w.next("news of who waits", func(u *v1.JoinResponse) bool {
				return u.GetNotice().GetKind() == v1.NoticeKind_NOTICE_KIND_RESIZE && u.GetNotice().GetText() == "a new worker waits for the next generation"
			})
		}
		r.settle()
		r.settle()
		if job := r.get("train"); job.Generation != 2 || !strings.Contains(job.Reason, "1 worker waits for generation 3: ranks 0 1 2 have parts in generation 2 and must rejoin") {
			t.Errorf("the job is %v", job)
		}
		if state := r.workerState("train", 3); state != v1.WorkerState_WORKER_STATE_JOINED {
			t.Errorf("who waits is %v", state)
		}
		all := []*worker{back}
		for i, w := range next {
			all = append(all, w.rejoin())
			if i == 0 {
				next[1].next("news of who asks", func(u *v1.JoinResponse) bool {
					return u.GetNotice().GetKind() == v1.NoticeKind_NOTICE_KIND_RESIZE && len(u.GetNotice().GetRanks()) == 1
				})
			}
		}
		r.formed(all, 0, 2, 3, 1) // survivors first, in their order
		if job := r.get("train"); job.Generation != 3 || job.Ranks != 4 {
			t.Errorf("the job is %v", job)
		}
		refused(t, w[0].resume().end(), codes.FailedPrecondition, refusal.Resized, "generation 1")
	}
}

func TestElasticRefusals(t *testing.T) {
	r := newRig(t, false)
	r.createElastic("train", 2, 1)
	refused(t, r.join("train", 0).end(), codes.FailedPrecondition, refusal.Resized, "any_rank")
	w := r.joinAny("train", 2)
	refused(t, r.newcomer("train", 2).end(), codes.AlreadyExists, refusal.RankTaken, "has its 2 workers")
	refused(t, r.newcomer("train", 0).end(), codes.AlreadyExists, refusal.RankTaken, "takes part already")
	// A part that is not the caller's gives no privilege.
	again := w[0].rejoin()
	refused(t, w[1].end2(again), codes.AlreadyExists, refusal.RankTaken, "")
}

// end2 has this worker claim the part of another that waits, from its own address.
func (w *worker) end2(other *worker) error {
	w.r.waitFor(w.job(), 1)
	defer other.cancel()
	return w.r.join(w.job(), w.rank, func(request *v1.JoinRequest) {
		request.Rank, request.AnyRank = 0, true
		request.Resume = &v1.Resume{Generation: w.params.Generation, Cookie: w.params.Cookie}
	}).end()
}

// A process that was restarted need not wait until what it was before counts as dead.
func TestRestartedProcessIsItsOwnDeath(t *testing.T) {
	r := newRig(t, false)
	r.createElastic("train", 3, 2)
	w := r.joinAny("train", 3)
	w[2].vanish()
	again := r.newcomer("train", 2)
	w[0].died(2)
	w[1].died(2)
	r.formed([]*worker{w[0].rejoin(), w[1].rejoin(), again}, 0, 1, 2)
}

// A lost worker that comes back gets its seat, and who sat there another, or none.
func TestSeatOfALostWorker(t *testing.T) {
	r := newRig(t, false)
	r.createElastic("train", 2, 1)
	w := r.joinAny("train", 2)
	w[1].vanish()
	new := r.newcomer("train", 5) // sits where rank 1 was
	r.waitFor("train", 1)
	back := w[1].resume()
	back.begun()
	refused(t, new.end(), codes.Aborted, refusal.Resized, "one that was lost has come back")
	w[0].quiet()
}

// Whoever waits may call again, before the appliance has noticed that its call ended.
func TestSurvivorCallsAgainWhileItWaits(t *testing.T) {
	r := newRig(t, false)
	r.createElastic("train", 2, 2)
	w := r.joinAny("train", 2)
	first := w[0].rejoin()
	r.waitFor("train", 1)
	second := w[0].rejoin()
	refused(t, first.end(), codes.AlreadyExists, refusal.RankTaken, "has called again")
	r.formed([]*worker{second, w[1].rejoin()}, 0, 1)
}

// What a failure leaves behind, the next attempt of the same workers can use.
func TestElasticGenerationThatFails(t *testing.T) {
	r := newRig(t, false)
	r.createElastic("train", 2, 2)
	w := r.joinAny("train", 2)
	r.failNext("add", 1)
	for _, w := range []*worker{w[1].rejoin(), w[0].rejoin()} {
		refused(t, w.end(), codes.Internal, refusal.DataPlane, "injected")
	}
	r.formed([]*worker{w[1].rejoin(), w[0].rejoin()}, 0, 1)
}

func TestElasticJobOverARestart(t *testing.T) {
	r := newRig(t, false)
	r.createElastic("train", 4, 2)
	a, b, c := r.newcomer("train", 0), r.newcomer("train", 1), r.newcomer("train", 2)
	r.waitFor("train", 3)
	r.settle()
	r.formed([]*worker{a, b, c}, 0, 1, 2)
	r.restart()
	next := []*worker{a.resume(), b.resume()}
	for _, w := range next {
		w.begun()
	}
	r.clock.advance(resumeWithin)
	r.m.elapse()
	next[0].died(2)
	again := []*worker{next[0].rejoin(), next[1].rejoin()}
	r.waitFor("train", 2)
	r.settle()
	r.formed(again, 0, 1)
}

func TestElasticSpecifications(t *testing.T) {
	for _, c := range []struct {
		field, text string
		change      func(*v1.JobSpec)
	}{
		{"min_workers", "5: want 1 to 4", func(s *v1.JobSpec) { s.MinWorkers = 5 }},
		{"min_workers", "want 4 at least", func(s *v1.JobSpec) { s.MinWorkers, s.Quorum = 3, &v1.Quorum{Workers: 3} }},
		{"settle", "only an elastic job settles", func(s *v1.JobSpec) { s.Settle = durationpb.New(time.Second) }},
		{"settle", "want 0s to 1h", func(s *v1.JobSpec) { s.MinWorkers, s.Settle = 1, durationpb.New(-1) }},
		{"lost_after", "want 200ms to 24h", func(s *v1.JobSpec) { s.LostAfter = durationpb.New(1) }},
		{"lost_after", "0 means never", func(s *v1.JobSpec) { s.MinWorkers, s.LostAfter = 1, durationpb.New(0) }},
	} {
		t.Run(c.field+" "+c.text, func(t *testing.T) {
			r := newRig(t, false)
			spec := r.spec("train", 4)
			c.change(spec)
			_, err := r.m.Create(t.Context(), spec, true)
			refused(t, err, codes.InvalidArgument, refusal.BadRequest, c.field, c.text)
		})
	}
}
