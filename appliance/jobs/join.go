package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/appliance/store"
)

// maxDescription bounds what a worker may say of itself, in bytes.
const maxDescription = 256

// Join takes part in a job as one rank. It lasts as long as the worker does: until ctx ends, which loses the worker, until the worker leaves, which is no
// error, or until the Manager ends it. The address is set, and the caller may send from it.
func (m *Manager) Join(ctx context.Context, request *v1.JoinRequest, send func(*v1.JoinResponse) error) error {
	address, err := netip.ParseAddr(request.GetAddress())
	if err != nil || !isUnicast(address.Unmap()) {
		return refusal.New(codes.InvalidArgument, refusal.BadRequest, "address: %q is not the IPv4 address of a worker", shorten(request.GetAddress())).With("field", "address")
	}
	c := &call{rank: request.GetRank(), address: address.Unmap(), description: request.GetDescription(), wake: make(chan struct{}, 1)}
	if len(c.description) > maxDescription {
		c.description = c.description[:maxDescription]
	}
	c.anyRank, c.asked, c.part, c.before = request.GetAnyRank(), c.rank, request.GetResume(), -1
	if resume := request.GetResume(); resume != nil && !c.anyRank {
		err = m.resume(c, request.GetJob(), resume)
	} else {
		err = m.enter(c, request.GetJob())
	}
	if err != nil {
		return err
	}
	defer m.detach(c)
	return m.serve(ctx, c, send)
}

// enter puts a call among those that wait for the next generation.
func (m *Manager) enter(c *call, name string) error {
	m.mu.Lock()
	j, err := m.joinable(c, name)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	// Without the lock: to ask the kernel takes a while, and more when it must look for a neighbour.
	if c.paths, err = m.pathsTo(j, c.address); err != nil {
		return unreachable(j, c, "%w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if j, err = m.joinable(c, name); err != nil {
		return err
	}
	if err := m.placed(j, c); err != nil {
		return err
	}
	c.job, c.since = j, m.config.Now()
	if elastic(j.record.Spec) {
		m.sit(j, c)
	} else {
		j.waiting[c.rank] = c
	}
	m.changed(j)
	m.form(j)
	return nil
}

// joinable returns the job if its next generation has a place for the call. The lock is held.
func (m *Manager) joinable(c *call, name string) (*job, error) {
	if m.closed {
		return nil, shuttingDown()
	}
	j, err := m.find(name)
	if err != nil {
		return nil, err
	}
	if !elastic(j.record.Spec) {
		if err := m.hasRank(j, c); err != nil {
			return nil, err
		}
	}
	switch {
	case j.gone:
		return nil, beingDeleted(j)
	case j.record.Draining:
		return nil, draining(j)
	case elastic(j.record.Spec):
		return j, m.seat(j, c)
	}
	if other := j.waiting[c.rank]; other != nil {
		return nil, rankTaken(j, c, "waits already", other)
	}
	if j.members != nil && j.members[c.rank].present() {
		return nil, rankTaken(j, c, "takes part already", j.members[c.rank].call)
	}
	return j, nil
}

func (m *Manager) hasRank(j *job, c *call) error {
	if workers := j.record.Spec.Workers; c.rank >= workers {
		return refusal.New(codes.OutOfRange, refusal.NoSuchRank, "rank %d: job %q has ranks 0 to %d", c.rank, j.name, workers-1).
			With("job", j.name).With("workers", workers)
	}
	return nil
}

func rankTaken(j *job, c *call, does string, other *call) error {
	who := other.address.String()
	if other.description != "" {
		who += " (" + other.description + ")"
	}
	return refusal.New(codes.AlreadyExists, refusal.RankTaken, "rank %d of job %q %s, from %s: end that process, or join as another rank", c.rank, j.name, does, who).
		With("job", j.name).With("rank", c.rank).With("address", other.address)
}

// pathsTo is how the nodes where a job has a place reach an address. One that is lost, or turns out to be, is left out: the job moves before it is formed.
func (m *Manager) pathsTo(j *job, address netip.Addr) (map[string]Path, error) {
	m.mu.Lock()
	var nodes []remote
	for _, place := range j.record.Allocation.Places {
		if r, ok := m.reach(place.Node); ok {
			nodes = append(nodes, r)
		}
	}
	m.mu.Unlock()
	var mu sync.Mutex
	paths := map[string]Path{}
	return paths, each(nodes, func(r remote) error {
		path, err := m.path(r, address)
		if errors.Is(err, ErrNodeAway) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		paths[r.Name] = path
		return err
	})
}

// path is how a node reaches an address.
func (m *Manager) path(r remote, address netip.Addr) (path Path, err error) {
	err = m.ask(r, "find the way to a worker", func(ctx context.Context) (err error) {
		path, err = r.Paths.To(ctx, address)
		return err
	})
	return path, err
}

// fit says why a job's worker cannot be reached by a path.
func fit(path Path, address netip.Addr, spec *v1.JobSpec) error {
	need := packetBytes(int(spec.Elements))
	switch {
	case address == path.Home:
		return errors.New("it is the aggregator's own address, and a host drops the multicast that comes from itself: run the worker on another host")
	case !path.Home.Is4() || path.Ifindex <= 0:
		return fmt.Errorf("interface %q leads there, and has no IPv4 address of the aggregator: give it one", path.Interface)
	case len(path.MAC) != 6:
		// Also where results are multicast: a generation may have to go past the ToR, with a copy for each worker.
		return fmt.Errorf("nobody answers for its Ethernet address on %s: is the address the worker's, and is it on the same network?", path.Interface)
	case path.MTU < need:
		return fmt.Errorf("the MTU of %s is %d, and a chunk of %d elements is a packet of %d bytes: raise the MTU, or create the job with fewer elements",
			path.Interface, path.MTU, spec.Elements, need)
	}
	return nil
}

// together reports whether two paths of a node leave by one interface.
func together(a, b Path) bool { return a.Ifindex == b.Ifindex && a.Home == b.Home }

func apart(j *job, c *call, path, other Path, rank int) error {
	return unreachable(j, c, "%s (%s here) leads there, and %s (%s here) to rank %d: all ranks of a job must be behind one interface of the aggregator",
		path.Interface, path.Home, other.Interface, other.Home, rank)
}

// placed refuses a call whose address cannot be the rank's. The lock is held.
func (m *Manager) placed(j *job, c *call) error {
	if c.address == m.config.TorAddress {
		return refusal.New(codes.AlreadyExists, refusal.AddressTaken, "rank %d of job %q: %s is the address that the ToR sends from: give the worker another one", c.rank, j.name, c.address)
	}
	for _, node := range slices.Sorted(maps.Keys(c.paths)) {
		if err := fit(c.paths[node], c.address, j.record.Spec); err != nil {
			return unreachable(j, c, "%w", err)
		}
	}
	for rank, other := range j.waiting {
		if other == nil || c.before >= 0 && other.before == c.before { // or that call takes the other's place
			continue
		}
		if other.address == c.address {
			return refusal.New(codes.AlreadyExists, refusal.AddressTaken, "rank %d of job %q: %s is rank %d's address already: each rank of a job needs its own", c.rank, j.name, c.address, rank).
				With("job", j.name).With("rank", rank)
		}
		for node, path := range c.paths {
			if its, ok := other.paths[node]; ok && !together(path, its) {
				return apart(j, c, path, its, rank)
			}
		}
	}
	return nil
}

func unreachable(j *job, c *call, format string, args ...any) error {
	refused := refusal.New(codes.FailedPrecondition, refusal.Unreachable, format, args...).With("job", j.name).With("address", c.address)
	refused.Text = "the aggregator does not reach " + c.address.String() + " for job \"" + j.name + "\": " + refused.Text
	return refused
}

// resume gives a part in the running generation back to the worker that has it.
func (m *Manager) resume(c *call, name string, part *v1.Resume) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return shuttingDown()
	}
	j, err := m.find(name)
	if err != nil {
		return err
	}
	if err := m.hasRank(j, c); err != nil {
		return err
	}
	if j.gone {
		return beingDeleted(j)
	}
	if err := m.resumable(j, c, part); err != nil {
		return err
	}
	now, member := m.config.Now(), &j.members[c.rank]
	other := j.waiting[c.rank]
	if other != nil && !elastic(j.record.Spec) {
		// The cookie proves that the caller is the one whose contributions are on the way; who only waits has nothing to lose.
		m.endWaiting(j, c.rank, rankTaken(j, other, "has resumed its part in the running generation", c))
	}
	before := member.call
	c.job, c.since = j, now
	*member = member.with(c, now)
	if other != nil && elastic(j.record.Spec) {
		j.waiting[c.rank] = nil
		m.makeRoom(j, other, c)
	}
	c.begin(parameters(j.record, c.rank))
	c.draining = j.record.Draining
	if before != nil {
		// Its connection broke, and only the worker noticed.
		before.end(rankTaken(j, before, "has resumed from another call", c))
		return nil
	}
	for rank := range j.members {
		if other := &j.members[rank]; other.lost() && other.told {
			c.tell(v1.NoticeKind_NOTICE_KIND_LOST, uint32(rank))
		}
	}
	c.deaths = j.deaths(now)
	if elastic(j.record.Spec) {
		c.resize = j.resize()
	}
	m.tellOthers(j, c.rank, v1.NoticeKind_NOTICE_KIND_RESUMED)
	m.changed(j)
	m.event(levelInfo, "worker-resumed", j, []uint32{c.rank}, "rank %d of job %s has resumed its part in generation %d", c.rank, j.name, j.record.Generation)
	return nil
}

// follows reports whether the running generation is one of that number, or goes on from it.
func (j *job) follows(generation uint32) bool {
	return j.record.Running != nil && slices.ContainsFunc(j.record.Parts(), func(p store.Part) bool { return p.Generation == generation })
}

// has reports whether a part is one in the running generation, or in one that it goes on from: then its worker goes on as well.
func (j *job) has(part *v1.Resume) bool {
	return j.record.Running != nil && slices.Contains(j.record.Parts(), store.Part{Generation: part.GetGeneration(), Cookie: part.GetCookie()})
}

// with is the member with a call.
func (m member) with(c *call, now time.Time) member {
	m.call, m.since, m.told, m.dead = c, now, false, false
	if c.description != "" {
		m.description = c.description
	}
	return m
}

// resumable refuses a part that is over, or another's. The lock is held.
func (m *Manager) resumable(j *job, c *call, part *v1.Resume) error {
	over := func(format string, args ...any) error {
		refused := refusal.New(codes.FailedPrecondition, refusal.GenerationOver, format, args...).With("job", j.name).With("generation", j.record.Generation)
		refused.Text += ": join again, without resume"
		if elastic(j.record.Spec) {
			refused.Reason = refusal.Resized
		}
		return refused
	}
	running := j.record.Running
	switch {
	case running == nil || j.forming || !j.follows(part.Generation):
		return over("generation %d of job %q is over", part.Generation, j.name)
	case !j.has(part):
		return over("generation %d of job %q has another cookie than the call says", part.Generation, j.name)
	}
	member := j.member(c.rank)
	if member == nil {
		return over("generation %d of job %q has no rank %d", part.Generation, j.name, c.rank)
	}
	switch at := running.Members[c.rank].Addr; {
	case at != c.address:
		return refusal.New(codes.PermissionDenied, refusal.AddressForeign, "rank %d takes part in generation %d of job %q from %s, and the call says %s: resume from there, or join again, without resume",
			c.rank, part.Generation, j.name, at, c.address).With("job", j.name).With("address", at)
	case member.left:
		return over("rank %d has left generation %d of job %q", c.rank, part.Generation, j.name)
	case member.dead && !j.goesOn():
		return over("rank %d of job %q was lost for longer than %v, and the others were told that it is dead", c.rank, j.name, j.lostAfter())
	case member.call == nil && m.config.Now().Sub(member.since) > j.grace():
		return over("rank %d of job %q was lost for longer than its grace, %v", c.rank, j.name, j.grace())
	}
	return nil
}

// detach is for the end of a call, whatever the reason: who waited waits no more, and who took part is lost, unless it has left or resumed elsewhere.
func (m *Manager) detach(c *call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := c.job
	if m.closed || j.deleted {
		return
	}
	switch {
	case j.waiting[c.rank] == c:
		m.endWaiting(j, c.rank, nil)
		if j.forming {
			j.stop() // without this rank it comes to nothing
		}
		m.changed(j)
	case j.members != nil && j.members[c.rank].call == c:
		j.members[c.rank].call, j.members[c.rank].since, j.members[c.rank].told = nil, m.config.Now(), true
		m.idle(j)
		m.tellOthers(j, c.rank, v1.NoticeKind_NOTICE_KIND_LOST)
		m.changed(j)
		m.event(levelWarning, "worker-lost", j, []uint32{c.rank}, "rank %d of job %s at %s was lost: its call ended without leave; it may resume within %v", c.rank, j.name, c.address, j.mayResume())
	}
}

// endWaiting ends a call that waits, if there is one. The lock is held.
func (m *Manager) endWaiting(j *job, rank uint32, err error) {
	c := j.waiting[rank]
	if c == nil {
		return
	}
	j.waiting[rank] = nil
	j.gathered, j.settling = m.config.Now(), false
	c.end(err)
	m.idle(j)
}

// idle remembers since when nobody uses the job, when somebody has just ceased to. The lock is held.
func (m *Manager) idle(j *job) {
	if !j.busy() {
		j.idle = m.config.Now()
	}
}

// tellOthers has a notice about a rank for all others that take part. The lock is held.
func (m *Manager) tellOthers(j *job, about uint32, kind v1.NoticeKind) {
	for rank := range j.members {
		if c := j.members[rank].call; c != nil && uint32(rank) != about {
			c.tell(kind, about)
		}
	}
}

// Leave ends a rank's part in a generation in good order. It is no error when that is over already, for whatever reason.
func (m *Manager) Leave(ctx context.Context, request *v1.LeaveRequest) error {
	if !m.begin() {
		return shuttingDown()
	}
	defer m.running.Done()
	j, err := m.leave(request)
	if err != nil || j == nil {
		return err
	}
	m.settle(ctx, j)
	return nil
}

// leave takes the rank out of the generation in memory. The job is nil when there was nothing to leave.
func (m *Manager) leave(request *v1.LeaveRequest) (*job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.jobs[request.GetJob()]
	if j == nil || j.hidden || j.gone {
		return nil, nil
	}
	c, part := &call{rank: request.GetRank()}, request.GetPart()
	if err := m.hasRank(j, c); err != nil {
		return nil, err
	}
	if j.record.Running == nil || !j.follows(part.GetGeneration()) || j.member(c.rank) == nil || j.members[c.rank].left {
		return nil, nil
	}
	if !j.has(part) {
		return nil, refusal.New(codes.FailedPrecondition, refusal.GenerationOver, "generation %d of job %q has another cookie than the call says: only who takes part can leave",
			part.GetGeneration(), j.name).With("job", j.name)
	}
	member := &j.members[c.rank]
	if member.call != nil {
		member.call.end(nil)
	}
	member.call, member.left, member.since = nil, true, m.config.Now()
	m.idle(j)
	m.tellOthers(j, c.rank, v1.NoticeKind_NOTICE_KIND_LEFT)
	m.changed(j)
	m.event(levelInfo, "worker-left", j, []uint32{c.rank}, "rank %d of job %s has left generation %d", c.rank, j.name, j.record.Generation)
	return j, nil
}

// settle writes down who has left, and deletes a job that was only kept for the last one. What cannot be done is left to the sweep: the worker has left.
func (m *Manager) settle(ctx context.Context, j *job) {
	if err := m.writeLeft(ctx, j); err != nil && ctx.Err() == nil {
		m.event(levelWarning, "state-not-written", j, nil, "that workers have left job %s is not written down: after a restart they count as lost: %v", j.name, err)
	}
	m.mu.Lock()
	over := j.record.Draining && !j.gone && j.finished()
	m.mu.Unlock()
	if !over {
		return
	}
	_, err := m.remove(ctx, j, func() error { return nil }, "job-deleted", "was deleted: it was draining, and its last worker has left")
	var refused *refusal.Error
	if err != nil && ctx.Err() == nil && !(errors.As(err, &refused) && refused.Reason == refusal.NoSuchJob) {
		m.config.Log.Warn("a job that is drained could not be deleted yet", "job", j.name, "error", err)
	}
}

// writeLeft brings the record up to date. When 64 ranks leave at once, the first writes for all that have left by then.
func (m *Manager) writeLeft(ctx context.Context, j *job) error {
	if err := j.acquire(ctx); err != nil {
		return err
	}
	defer j.release()
	m.mu.Lock()
	record, changed := *j.record, false
	if record.Running != nil && !j.deleted {
		running := *record.Running
		running.Members = append([]store.Member(nil), running.Members...)
		for rank := range running.Members {
			if now := &j.members[rank]; now.left && !running.Members[rank].Left {
				running.Members[rank].Left, running.Members[rank].Since = true, now.since
				changed = true
			}
		}
		record.Running = &running
	}
	m.mu.Unlock()
	if !changed {
		return nil
	}
	if err := m.put(j, &record); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	j.record = &record
	return nil
}
