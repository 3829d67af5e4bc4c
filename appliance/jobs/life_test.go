package jobs

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/p4/pipeline"
	"spillway/wire"
	"spillway/xdp"
)

// frame is a DATA packet of one rank, as its host sends it.
func frame(p *v1.Parameters, element int32) []byte {
	home := netip.MustParseAddr(p.Homes[0].Address)
	source := netip.MustParseAddr(p.Address)
	b := make([]byte, 42+wire.HeaderSize+4*32)
	copy(b, homeMAC)
	copy(b[6:], workerMAC(int(p.Rank)))
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	ip := b[14:34]
	ip[0], ip[1], ip[8], ip[9] = 0x45, 2, 64, 17
	binary.BigEndian.PutUint16(ip[2:], uint16(len(b)-14))
	s, d := source.As4(), home.As4()
	copy(ip[12:], s[:])
	copy(ip[16:], d[:])
	udp := b[34:]
	binary.BigEndian.PutUint16(udp, uint16(p.WorkerPort))
	binary.BigEndian.PutUint16(udp[2:], uint16(p.Homes[0].Port))
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	h := wire.Header{Version: wire.Version, Type: wire.Data, Job: uint16(p.JobId), Generation: uint8(p.Generation), Cookie: p.Cookie, Bitmap: 1 << p.Rank, Elems: 32, Slot: wire.NoSlot}
	h.Encode(udp[8:])
	for i := range 32 {
		binary.BigEndian.PutUint32(udp[8+wire.HeaderSize+4*i:], uint32(element))
	}
	return b
}

// send has the aggregator take a rank's contribution, and returns the sum if that was the last one.
func send(t *testing.T, p *v1.Parameters, element int32) (sum int32, published bool) {
	t.Helper()
	verdict, out, err := aggregator.Process(frame(p, element))
	if err != nil {
		t.Fatal(err)
	}
	if verdict == xdp.Drop {
		return 0, false
	}
	var h wire.Header
	payload, err := h.Decode(out[42:])
	if err != nil || h.Type != wire.Result {
		return 0, false
	}
	return int32(binary.BigEndian.Uint32(payload)), true
}

// TestLife goes through the whole life of a job, with sums in the aggregator.
func TestLife(t *testing.T) {
	r := newRig(t, false)
	job := r.create("train", 3)
	if job.State != v1.JobState_JOB_STATE_WAITING || job.Generation != 0 || len(job.Missing) != 3 || job.CollectedAt == nil || job.Spec.Elements != 256 {
		t.Errorf("created: %v", job)
	}
	a, b := r.join("train", 0), r.join("train", 2)
	a.waits(1)
	b.waits(1)
	if job := r.get("train"); job.Present != 2 || job.CollectedAt != nil || !slices.Equal(job.Missing, []uint32{1}) {
		t.Errorf("forming: %v", job)
	}
	c := r.join("train", 1)
	all := []*worker{a, c, b}
	for rank, w := range all {
		p := w.begun()
		if p.Rank != uint32(rank) || p.Generation != 1 || p.Cookie == 0 || p.Cookie != all[0].params.Cookie || p.Group != "239.77.0.0" || p.Address != workerAddr(rank).String() ||
			p.Homes[0].Address != homeAddr.String() || p.Homes[0].Port != pipeline.FirstPort || p.Homes[0].Ports != 64 || p.Window != 7 || p.Workers != 3 || p.Tor != nil {
			t.Errorf("rank %d: %v", rank, p)
		}
	}
	if job := r.get("train"); job.State != v1.JobState_JOB_STATE_RUNNING || job.Path != v1.JobPath_JOB_PATH_DIRECT || job.Present != 3 || len(job.Missing) != 0 || job.Generation != 1 {
		t.Errorf("running: %v", job)
	}
	for rank, w := range all {
		sum, published := send(t, w.params, int32(rank+1))
		if published != (rank == 2) || published && sum != 6 {
			t.Errorf("after rank %d: %d, %v", rank, sum, published)
		}
	}
	first := a.params
	for rank, w := range all {
		w.leave()
		for _, other := range all[rank+1:] {
			other.notice(v1.NoticeKind_NOTICE_KIND_LEFT, uint32(rank))
		}
	}
	if job := r.get("train"); job.State != v1.JobState_JOB_STATE_WAITING || job.Present != 0 || len(job.Missing) != 3 || job.CollectedAt == nil {
		t.Errorf("all have left: %v", job)
	}
	for _, w := range r.joinAll("train", 3) {
		if w.params.Generation != 2 || w.params.Cookie == first.Cookie {
			t.Errorf("second generation: %v", w.params)
		}
		if _, published := send(t, first, 1); published {
			t.Error("a packet of the old generation was summed")
		}
	}
	before := r.state()
	_, err := r.m.Delete(t.Context(), "train", false)
	refused(t, err, codes.FailedPrecondition, refusal.JobInUse, "ranks 0 1 2", "drain it")
	r.unchanged(before, "the refusal")
	if _, err := r.m.Delete(t.Context(), "train", true); err != nil {
		t.Fatal(err)
	}
	if len(aggregator.Jobs()) != 0 || len(r.m.List()) != 0 || r.m.Capacity().Jobs.Used != 0 {
		t.Error("something of the deleted job is left")
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t, true)
	r.create("a", 2)
	waiting := r.join("a", 0)
	waiting.waits(1)
	join := func(change func(*v1.JoinRequest)) error { return r.join("a", 1, change).end() }
	_, err := r.m.Create(t.Context(), r.spec("a", 2), false)
	refused(t, err, codes.AlreadyExists, refusal.JobExists, `"a"`)
	_, err = r.m.Get("b")
	refused(t, err, codes.NotFound, refusal.NoSuchJob, `"b"`)
	refused(t, join(func(q *v1.JoinRequest) { q.Job = "b" }), codes.NotFound, refusal.NoSuchJob, "spillctl jobs")
	refused(t, join(func(q *v1.JoinRequest) { q.Rank = 2 }), codes.OutOfRange, refusal.NoSuchRank, "ranks 0 to 1")
	refused(t, join(func(q *v1.JoinRequest) { q.Rank = 0 }), codes.AlreadyExists, refusal.RankTaken, "rank 0", "10.77.0.1", "process of rank 0")
	refused(t, join(func(q *v1.JoinRequest) { q.Address = "nowhere" }), codes.InvalidArgument, refusal.BadRequest, "nowhere")
	refused(t, join(func(q *v1.JoinRequest) { q.Address = "ff02::1" }), codes.InvalidArgument, refusal.BadRequest)
	refused(t, join(func(q *v1.JoinRequest) { q.Address = "10.77.0.1" }), codes.AlreadyExists, refusal.AddressTaken, "rank 0's address")
	refused(t, join(func(q *v1.JoinRequest) { q.Address = torAddr.String() }), codes.AlreadyExists, refusal.AddressTaken, "the ToR")
	refused(t, join(func(q *v1.JoinRequest) { q.Address = homeAddr.String() }), codes.FailedPrecondition, refusal.Unreachable, "own address")
	refused(t, join(func(q *v1.JoinRequest) { q.Address = "192.0.2.1" }), codes.FailedPrecondition, refusal.Unreachable, "192.0.2.1", "no route")
	refused(t, join(func(q *v1.JoinRequest) { q.Address = "10.78.0.1" }), codes.FailedPrecondition, refusal.Unreachable, "eth1", "eth0", "rank 0", "one interface")
	refused(t, join(func(q *v1.JoinRequest) { q.Address = "10.79.0.1" }), codes.FailedPrecondition, refusal.Unreachable, "MTU of eth0 is 576", "1080 bytes")
	refused(t, join(func(q *v1.JoinRequest) { q.Address = "10.80.0.1" }), codes.FailedPrecondition, refusal.Unreachable, "nobody answers", "eth0")
	refused(t, join(func(q *v1.JoinRequest) { q.Resume = &v1.Resume{Generation: 1, Cookie: 1} }), codes.FailedPrecondition, refusal.GenerationOver, "join again")
	waiting.vanish()
	if job := r.get("a"); job.Present != 0 || job.CollectedAt == nil {
		t.Errorf("after the only one vanished: %v", job)
	}
}

func TestLostAndResumed(t *testing.T) {
	r := newRig(t, false)
	all := r.run("a", 3)
	all[1].vanish()
	if text := all[0].notice(v1.NoticeKind_NOTICE_KIND_LOST, 1); text != "rank 1 (10.77.0.2, process of rank 1) lost its connection" {
		t.Error(text)
	}
	all[2].notice(v1.NoticeKind_NOTICE_KIND_LOST, 1)
	job := r.get("a")
	if job.State != v1.JobState_JOB_STATE_RUNNING || job.Present != 2 || !strings.Contains(job.Reason, "rank 1 is lost") {
		t.Errorf("%v", job)
	}
	refused(t, all[1].resume(func(q *v1.JoinRequest) { q.Resume.Cookie++ }).end(), codes.FailedPrecondition, refusal.GenerationOver, "another cookie")
	refused(t, all[1].resume(func(q *v1.JoinRequest) { q.Resume.Generation++ }).end(), codes.FailedPrecondition, refusal.GenerationOver)
	refused(t, all[1].resume(func(q *v1.JoinRequest) { q.Address = "10.77.0.9" }).end(), codes.PermissionDenied, refusal.AddressForeign, "10.77.0.2", "10.77.0.9")
	again := all[1].resume()
	if p := again.begun(); p.Cookie != all[1].params.Cookie || p.Generation != 1 {
		t.Errorf("%v", p)
	}
	all[0].notice(v1.NoticeKind_NOTICE_KIND_RESUMED, 1)
	// Its connection breaks without the daemon noticing: the new call takes the place of the old one, and nobody is bothered.
	third := again.resume()
	third.begun()
	refused(t, again.end(), codes.AlreadyExists, refusal.RankTaken, "resumed from another call")
	if job := r.get("a"); job.Present != 3 {
		t.Errorf("%v", job)
	}
	third.leave()
	refused(t, third.resume().end(), codes.FailedPrecondition, refusal.GenerationOver, "has left")
	all[0].vanish()
	r.clock.advance(DefaultGrace + time.Second)
	refused(t, all[0].resume().end(), codes.FailedPrecondition, refusal.GenerationOver, "longer than its grace")
}

// TestNextGeneration has one worker start anew while the others still take part.
func TestNextGeneration(t *testing.T) {
	r := newRig(t, false)
	all := r.run("a", 4)
	all[2].vanish()
	anew := r.join("a", 2)
	waiting := anew.waits(0, 1, 3)
	if want := "rank 2 asks to join again; ranks 0 1 3 still take part in generation 1 and must leave first"; waiting.Step != want {
		t.Errorf("step %q, want %q", waiting.Step, want)
	}
	refused(t, r.join("a", 0).end(), codes.AlreadyExists, refusal.RankTaken, "takes part already")
	for _, rank := range []int{0, 1, 3} {
		all[rank].leave()
		r.join("a", rank)
	}
	if p := anew.begun(); p.Generation != 2 {
		t.Errorf("%v", p)
	}
}

// TestResumeBeatsJoin has a second process claim a rank whose worker is only away for a moment.
func TestResumeBeatsJoin(t *testing.T) {
	r := newRig(t, false)
	all := r.run("a", 2)
	all[1].vanish()
	stranger := r.join("a", 1)
	stranger.waits(0)
	all[1].resume().begun()
	refused(t, stranger.end(), codes.AlreadyExists, refusal.RankTaken, "has resumed")
	if job := r.get("a"); job.Present != 2 || len(job.Missing) != 0 {
		t.Errorf("%v", job)
	}
}

func TestLeaveIsIdempotent(t *testing.T) {
	r := newRig(t, false)
	all := r.run("a", 2)
	request := func(change func(*v1.LeaveRequest)) error {
		q := &v1.LeaveRequest{Job: "a", Rank: 0, Part: &v1.Resume{Generation: 1, Cookie: all[0].params.Cookie}}
		change(q)
		return r.m.Leave(t.Context(), q)
	}
	refused(t, request(func(q *v1.LeaveRequest) { q.Part.Cookie++ }), codes.FailedPrecondition, refusal.GenerationOver)
	refused(t, request(func(q *v1.LeaveRequest) { q.Rank = 2 }), codes.OutOfRange, refusal.NoSuchRank)
	for _, over := range []func(*v1.LeaveRequest){
		func(q *v1.LeaveRequest) { q.Job = "gone" }, func(q *v1.LeaveRequest) { q.Part.Generation = 7 }, func(q *v1.LeaveRequest) { q.Part = nil },
		func(*v1.LeaveRequest) {}, func(*v1.LeaveRequest) {},
	} {
		if err := request(over); err != nil {
			t.Error(err)
		}
	}
	if err := all[0].end(); err != nil {
		t.Error(err)
	}
	all[1].vanish()
	all[1].r.join("a", 1).waits(0)
}

func TestWorkers(t *testing.T) {
	r := newRig(t, false)
	all := r.run("a", 4)
	all[1].vanish()
	all[2].leave()
	all[3].vanish()
	r.join("a", 3).waits(0, 1, 2)
	workers, err := r.m.Workers("a")
	if err != nil {
		t.Fatal(err)
	}
	var states []v1.WorkerState
	for rank, w := range workers {
		states = append(states, w.State)
		if w.Rank != uint32(rank) || w.Address != workerAddr(rank).String() || !strings.HasPrefix(w.Description, "process of rank") || w.Since == nil {
			t.Errorf("%v", w)
		}
	}
	want := []v1.WorkerState{v1.WorkerState_WORKER_STATE_PRESENT, v1.WorkerState_WORKER_STATE_LOST, v1.WorkerState_WORKER_STATE_LEFT, v1.WorkerState_WORKER_STATE_JOINED}
	if !slices.Equal(states, want) {
		t.Errorf("%v, want %v", states, want)
	}
	_, err = r.m.Workers("b")
	refused(t, err, codes.NotFound, refusal.NoSuchJob)
}

func TestDryRun(t *testing.T) {
	r := newRig(t, true)
	before := r.state()
	job, err := r.m.Create(t.Context(), r.spec("a", 2), true)
	if err != nil || job.Allocation.Region == nil || job.Id != 1 {
		t.Fatalf("%v, %v", job, err)
	}
	r.unchanged(before, "a dry run")
	_, err = r.m.Create(t.Context(), &v1.JobSpec{Name: "a", Workers: 2, Window: 1 << 15}, true)
	refused(t, err, codes.ResourceExhausted, refusal.NoRoom, "131072 slots", "the largest that is free has 2048")
}

func TestWatch(t *testing.T) {
	r := newRig(t, false)
	r.create("a", 1)
	r.create("b", 1)
	updates, release := make(chan *v1.WatchJobsResponse, 1000), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		synced := false
		done <- r.m.Watch(ctx, "", func(u *v1.WatchJobsResponse) error {
			if synced {
				<-release // a reader that does not read
			}
			synced = synced || u.Synced
			updates <- u
			return nil
		})
	}()
	if a, b, s := <-updates, <-updates, <-updates; a.Job.Spec.Name != "a" || b.Job.Spec.Name != "b" || !s.Synced || s.Job != nil {
		t.Errorf("%v %v %v", a, b, s)
	}
	for range 100 {
		w := r.join("a", 0)
		w.begun()
		w.leave()
	}
	if _, err := r.m.Delete(t.Context(), "a", true); err != nil {
		t.Fatal(err)
	}
	r.create("a", 2)
	close(release)
	var last *v1.Job
	for n := 0; last.GetSpec().GetWorkers() != 2; n++ {
		last = (<-updates).Job
		if n > 5 {
			t.Fatalf("a slow reader gets each of many changes: %v", last)
		}
	}
	if _, err := r.m.Delete(t.Context(), "a", false); err != nil {
		t.Fatal(err)
	}
	for last.State != v1.JobState_JOB_STATE_DELETED {
		last = (<-updates).Job
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	refused(t, r.m.Watch(t.Context(), "none", nil), codes.NotFound, refusal.NoSuchJob)
	gone := errors.New("gone")
	if err := r.m.Watch(t.Context(), "b", func(*v1.WatchJobsResponse) error { return gone }); !errors.Is(err, gone) {
		t.Error(err)
	}
}
