package jobs

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/appliance/store"
	"spillway/p4/pipeline"
)

// form begins to bring a generation into the data plane if all of its ranks wait. The lock is held.
func (m *Manager) form(j *job) {
	if m.closed || j.forming || j.gone || j.deletions > 0 || j.record.Draining || !j.complete() {
		return
	}
	if why := m.displaced(j); why != "" {
		m.startMove(j, why) // and then it is formed
		return
	}
	if !m.settledAt(j) {
		return // it is formed when its nodes have been looked at
	}
	ctx, stop := context.WithCancel(m.ctx)
	j.forming, j.stop, j.step = true, stop, "all ranks are here: the generation is being set up"
	m.running.Add(1)
	go func() {
		defer m.running.Done()
		defer stop()
		m.generate(ctx, j)
	}()
	m.changed(j)
}

// generate brings one generation into the data plane, or tells those who wait for it why not. When a rank vanished meanwhile, the others go on waiting.
func (m *Manager) generate(ctx context.Context, j *job) {
	var calls []*call
	err := j.acquire(ctx)
	if err == nil {
		calls, err = m.attempt(ctx, j)
		j.release()
	}
	if err == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.formed(j)
	switch {
	case m.closed || j.deleted: // those who waited know already
	case err == errVanished || errors.Is(err, ErrNodeAway) || ctx.Err() != nil && refusal.Of(err) == nil: // the others wait on
	case errors.Is(err, errVanished):
		m.config.Log.Error("a generation that lost a rank while it was formed is not undone yet", "job", j.name, "error", err)
	default:
		j.failure = err.Error()
		m.event(levelError, "generation-failed", j, nil, "generation %d of job %s could not be formed: %v", j.record.Generation+1, j.name, err)
		for _, c := range calls {
			if j.waiting[c.rank] == c {
				m.endWaiting(j, c.rank, err)
			}
		}
	}
	m.changed(j)
	m.form(j) // a rank that vanished may be back already
}

// formed is for the end of what form began. The lock is held.
func (m *Manager) formed(j *job) { j.forming, j.stop, j.step, j.failure = false, nil, "", "" }

// errVanished: not all ranks are there any more.
var errVanished = errors.New("a rank has gone")

// attempt forms a generation of those who wait now. The work of the job is held.
func (m *Manager) attempt(ctx context.Context, j *job) ([]*call, error) {
	m.mu.Lock()
	calls, old := j.lineup(), j.record
	ready := !j.deleted && !old.Draining && j.complete() && m.displaced(j) == "" && m.settledAt(j)
	m.mu.Unlock()
	if !ready {
		return nil, errVanished
	}
	old, err := m.conclude(j, old)
	if err != nil {
		return calls, err
	}
	defer m.trim(j)
	record, spots, err := m.propose(j, old, calls)
	if err != nil {
		return calls, err
	}
	if err := m.install(ctx, j, record, spots); err != nil {
		return calls, err
	}
	// Not before: a daemon that dies in between has told nobody, and the next one takes out what is not written down.
	if err := m.put(j, record); err != nil {
		return calls, errors.Join(notStored(j, err), m.undo(record))
	}
	if m.commit(j, record, calls) {
		return calls, nil
	}
	if err := errors.Join(m.undo(record), m.putBack(j, old)); err != nil {
		return calls, errors.Join(errVanished, err)
	}
	return calls, errVanished
}

// undo takes out of the data plane what nobody has been told of. What the aggregator does not give up is harmless, as nobody knows its cookie, and in the way of
// nobody: the job's next generation takes its place.
func (m *Manager) undo(record *store.Job) error {
	if m.config.Switch != nil {
		m.config.Switch.RemoveJob(record.Allocation.ID)
	}
	return m.uninstall(record)
}

// conclude ends the generation that is running for the data plane though nobody takes part in it, and returns the job without it.
func (m *Manager) conclude(j *job, old *store.Job) (*store.Job, error) {
	if old.Running == nil {
		return old, nil
	}
	record := *old
	record.Running = nil
	if err := m.put(j, &record); err != nil {
		return nil, notStored(j, err)
	}
	if err := m.uninstall(old); err != nil {
		return nil, errors.Join(err, m.putBack(j, old))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	j.record, j.members, j.concluded = &record, nil, old
	return &record, nil
}

// propose is the record with the next generation, of those who wait, and where it is to be homed. A node that does not reach all of them is passed over.
func (m *Manager) propose(j *job, old *store.Job, calls []*call) (*store.Job, []spot, error) {
	cookie, err := random(old)
	if err != nil {
		return nil, nil, err
	}
	key, err := random(nil)
	if err != nil {
		return nil, nil, err
	}
	now, record := m.config.Now(), *old
	record.Generation++
	record.Since = now
	multicast := record.Spec.Publication == v1.Publication_PUBLICATION_MULTICAST
	running := &store.Generation{Cookie: cookie, Key: key, Multicast: multicast, Grouped: multicast}
	for _, c := range calls {
		running.Members = append(running.Members, store.Member{Addr: c.address, Since: now, Description: c.description})
	}
	record.Running = running
	excluded := map[string]error{}
	for {
		m.mu.Lock()
		spots, err := m.choose(j, excluded)
		m.mu.Unlock()
		switch {
		case err != nil && len(excluded) == 1:
			for _, why := range excluded {
				err = why // of the only node there is to say something of
			}
			return nil, nil, err
		case err != nil:
			return nil, nil, err
		}
		running.Homes = nil
		for _, s := range spots {
			home, err := m.homeFor(j, s, calls)
			if errors.Is(err, ErrNodeAway) {
				return nil, nil, err
			}
			if err != nil {
				excluded[s.Name] = err
				break
			}
			running.Homes = append(running.Homes, home)
		}
		if len(running.Homes) == len(spots) {
			record.Allocation.Places = places(spots)
			m.route(&record)
			return &record, spots, nil
		}
	}
}

// homeFor is a node as the home of those who wait. What was looked up when they came is not looked up again.
func (m *Manager) homeFor(j *job, s spot, calls []*call) (store.Home, error) {
	home, found := store.Home{Node: s.Name}, make([]Path, len(calls))
	ranks := make([]int, len(calls))
	m.mu.Lock()
	for rank, c := range calls {
		ranks[rank], found[rank] = rank, c.paths[s.Name]
	}
	m.mu.Unlock()
	err := each(ranks, func(rank int) (err error) {
		if c := calls[rank]; !found[rank].Home.IsValid() {
			if found[rank], err = m.path(s.remote, c.address); err == nil {
				err = fit(found[rank], c.address, j.record.Spec)
			}
			if err != nil {
				return unreachable(j, c, "%w", err)
			}
		}
		return nil
	})
	if err != nil {
		return home, err
	}
	for rank, path := range found {
		if rank > 0 && !together(path, found[0]) {
			return home, apart(j, calls[rank], path, found[0], 0)
		}
		home.Ways = append(home.Ways, store.Way{MAC: path.MAC, Ifindex: path.Ifindex})
	}
	home.Addr = netip.AddrPortFrom(found[0].Home, 0)
	return home, nil
}

// route chooses the way that the chunks of a generation go whose homes and members are known. A generation that goes on from another can go through the ToR only if
// its workers know the group already.
func (m *Manager) route(record *store.Job) {
	running := record.Running
	switch {
	case m.config.Switch == nil:
		aim(running, m.config.FirstPort, m.homePorts(m.config.Ports))
	case !running.Grouped:
		m.direct(running, running.Reason)
	case len(running.Members) == 1 && usesTor(record.Spec):
		m.direct(running, "past the ToR: a generation of one worker has nothing to sum there")
	default:
		m.through(running)
	}
}

// homePorts is how many of so many ports one job's home has.
func (m *Manager) homePorts(there uint16) uint16 {
	if most := m.config.HomePorts; most != 0 {
		return min(most, there)
	}
	return there
}

// through has a generation go through the ToR, if the ToR can be told where everybody is.
func (m *Manager) through(running *store.Generation) {
	home := running.Home(0)
	aim(running, pipeline.FirstPort, m.homePorts(pipeline.Ports))
	running.Through, running.Multicast, running.Reason = true, true, ""
	host, ok := m.config.Switch.Host(home.Addr.Addr())
	if !ok {
		m.direct(running, fmt.Sprintf("past the ToR: the aggregator's address %s is not among the hosts of the switch in the configuration", home.Addr.Addr()))
		return
	}
	home.Port, home.MAC = host.Port, host.MAC
	for rank := range running.Members {
		member := &running.Members[rank]
		host, ok := m.config.Switch.Host(member.Addr)
		if !ok {
			m.direct(running, fmt.Sprintf("past the ToR: rank %d at %s is not among the hosts of the switch in the configuration", rank, member.Addr))
			return
		}
		member.Port = host.Port
	}
}

// direct has a generation go past the ToR's pipeline: from ports that the ToR does not look at, and with a copy for each worker instead of one packet for all,
// so that whatever forwards IPv4 carries it. Workers that know the group already stay in it: copies reach them as well.
func (m *Manager) direct(running *store.Generation, reason string) {
	beyond := m.config.Ports - pipeline.Ports
	aim(running, pipeline.FirstPort+pipeline.Ports, m.homePorts(1<<(bits.Len16(beyond)-1)))
	running.Through, running.Multicast, running.Reason = false, false, reason
	if len(running.Before) == 0 {
		running.Grouped = false
	}
	for i := range running.Homes {
		running.Homes[i].Port, running.Homes[i].MAC = 0, pipeline.MAC{}
	}
	for rank := range running.Members {
		running.Members[rank].Port = 0
	}
}

// aim has the chunks of a generation go to these ports of its homes.
func aim(running *store.Generation, first, ports uint16) {
	for i := range running.Homes {
		home := &running.Homes[i]
		home.Addr, home.Ports = netip.AddrPortFrom(home.Addr.Addr(), first), ports
	}
}

// install brings the generation into the ToR, or past it, and into the aggregators. When it fails, none of them has it.
func (m *Manager) install(ctx context.Context, j *job, record *store.Job, spots []spot) error {
	if err := m.enterSwitch(ctx, j, record); err != nil {
		return err
	}
	failed := m.addAll(record, spots)
	if len(failed) == 0 {
		return nil
	}
	var errs []error
	for _, s := range spots {
		if err := failed[s.Name]; err != nil {
			errs = append(errs, err)
		} else if err := m.removeAt(s.remote, record.Allocation.ID); err != nil {
			m.mu.Lock()
			m.distrust(s.of, fmt.Sprintf("generation %d of job %s could not be taken out of its aggregator: %v", record.Generation, j.name, err))
			m.mu.Unlock()
		}
	}
	if record.Running.Through {
		m.config.Switch.RemoveJob(record.Allocation.ID)
	}
	return refusal.New(codes.Internal, refusal.DataPlane, "the aggregator did not take generation %d of job %q: %w; join again, and restart spillwayd if it stays",
		record.Generation, record.Name(), errors.Join(errs...)).With("job", record.Name())
}

// enterSwitch brings the generation into the ToR, or has it go past that. It fails only when ctx ends.
func (m *Manager) enterSwitch(ctx context.Context, j *job, record *store.Job) error {
	if !record.Running.Through {
		return nil
	}
	if err := m.installSwitch(ctx, j, record); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.direct(record.Running, "past the ToR: "+err.Error())
	}
	return nil
}

// addAll puts the running generation into the aggregators of homes, each in the place of one that could not be taken out before. It returns what failed, by node.
func (m *Manager) addAll(record *store.Job, spots []spot) map[string]error {
	var mu sync.Mutex
	failed := map[string]error{}
	_ = each(spots, func(s spot) error {
		if err := m.addAt(s.remote, aggregatorJob(record, record.Running.At(s.Name), m.config.TorAddress)); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed[s.Name] = err
		}
		return nil
	}) // what failed is in the map
	return failed
}

// installSwitch brings the generation into the ToR. When it fails, the ToR is not to have it.
func (m *Manager) installSwitch(ctx context.Context, j *job, record *store.Job) error {
	m.mu.Lock()
	if j.forming {
		j.step = "all ranks are here: the ToR is being told"
		m.changed(j)
	}
	m.mu.Unlock()
	wait, cancel := context.WithTimeout(ctx, m.config.Patience)
	defer cancel()
	told := switchJob(record, m.config.TorAddress)
	err := told.Validate()
	if err == nil {
		m.config.Switch.SetJob(told)
		err = m.config.Switch.Await(wait, record.Allocation.ID, uint8(record.Generation))
	}
	if err != nil {
		m.config.Switch.RemoveJob(record.Allocation.ID)
		return fmt.Errorf("the ToR has not taken generation %d within %v: %w", record.Generation, m.config.Patience, err)
	}
	return nil
}

// commit makes members of those who waited, and tells them their parameters: from here on they send. It does nothing when one of them has gone.
func (m *Manager) commit(j *job, record *store.Job, calls []*call) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || j.deletions > 0 || !slices.Equal(j.lineup(), calls) {
		return false
	}
	now := m.config.Now()
	m.settleAt(j, record)
	j.members = make([]member, len(calls))
	clear(j.waiting)
	for rank, c := range calls {
		c.rank = uint32(rank)
		j.members[rank] = member{}.with(c, now)
		c.begin(parameters(record, uint32(rank)))
	}
	j.gathered, j.settling, j.concluded = now, false, nil
	m.formed(j)
	m.changed(j)
	if why := m.displaced(j); why != "" {
		m.startMove(j, why)
	}
	way, level, kind := "through the aggregator alone", levelInfo, "job-running"
	switch {
	case record.Running.Through:
		way = "through the ToR"
	case record.Running.Reason != "":
		way, level, kind = record.Running.Reason, levelWarning, "job-direct"
	}
	ranks := ""
	if elastic(record.Spec) {
		ranks = fmt.Sprintf(" with %d of at most %d workers", len(calls), record.Spec.Workers)
	}
	m.event(level, kind, j, nil, "generation %d of job %s is running%s, %s", record.Generation, j.name, ranks, way)
	return true
}

// random is a number that nobody can guess, not 0, and not the cookie of the generation before.
func random(before *store.Job) (uint32, error) {
	for {
		var b [4]byte
		if _, err := rand.Read(b[:]); err != nil {
			return 0, fmt.Errorf("a random cookie: %w", err)
		}
		n := binary.NativeEndian.Uint32(b[:])
		if n != 0 && (before == nil || before.Running == nil || n != before.Running.Cookie) {
			return n, nil
		}
	}
}
