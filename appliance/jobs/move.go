package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"spillway/appliance/refusal"
	"spillway/appliance/store"
)

// A move lets a running generation go on as a new one, at other homes (docs/protocol.md, section 8). Its steps, each of which leaves a state that the next
// attempt, or the next daemon, goes on from:
//
//	places at the new homes, in the ledger     the old generation is as it was
//	the ToR, and the aggregators of new homes  the same; nobody knows the cookie
//	the store                                  from here on there is no way back
//	the aggregators of homes that stay         what fails here is homes that the new generation lacks: it moves again
//	the workers
//	the aggregators of old homes               what fails here is a node in doubt, which is looked at before it is given anything
//
// A job without a running generation only gets other places.

// maxBefore bounds how many generations a worker may miss, whose call is broken meanwhile.
const maxBefore = 64

// errAgain: what a move was planned with has changed.
var errAgain = errors.New("the nodes have changed")

// kick moves all jobs that cannot stay where they are. The lock is held.
func (m *Manager) kick() {
	if m.closed || m.starting > 0 {
		return
	}
	for _, j := range m.jobs {
		switch why := m.displaced(j); {
		case why != "":
			m.startMove(j, why)
		case j.stuck != "" && j.moving == nil: // what it was to move away from is back
			j.stuck = ""
			m.changed(j)
			m.form(j)
		default:
			m.form(j)
		}
	}
}

// startMove begins to move a job, unless that is under way. The lock is held.
func (m *Manager) startMove(j *job, why string) {
	if m.closed || m.starting > 0 || j.hidden || j.gone || j.deletions > 0 || j.moving != nil {
		return
	}
	ctx, stop := context.WithCancel(m.ctx)
	j.moving, j.stopMoving = make(chan struct{}), stop
	if j.stuck == "" {
		j.stuck = why
		m.changed(j)
	}
	m.running.Add(1)
	go func() {
		defer m.running.Done()
		defer stop()
		excluded := map[string]error{}
		for again := true; again; {
			err := j.acquire(ctx)
			if err == nil {
				err = m.move(ctx, j, excluded)
				m.trim(j)
				j.release()
			}
			again = m.moved(ctx, j, err)
		}
	}()
}

// moved sees to what comes of an attempt to move, and reports whether there must be another.
func (m *Manager) moved(ctx context.Context, j *job, err error) (again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	why := m.displaced(j)
	if !m.closed && !j.deleted && ctx.Err() == nil && why != "" && (err == nil || errors.Is(err, errAgain)) {
		return true
	}
	close(j.moving)
	j.moving, j.stopMoving = nil, nil
	switch {
	case m.closed || j.deleted || j.gone:
		return false
	case why == "":
		j.stuck = ""
	case ctx.Err() == nil:
		text := "it waits for a place: " + err.Error()
		if refusal.Of(err) == nil || refusal.Of(err).Reason != refusal.NoRoomToMove {
			text = "it could not be moved, and will be: " + err.Error()
		}
		if text != j.stuck {
			j.stuck = text
			m.event(levelError, "job-stuck", j, nil, "job %s cannot stay where it is (%s), and %s", j.name, why, text)
		}
	}
	m.changed(j)
	m.form(j)
	m.vacated()
	return false
}

// move is one attempt. The work of the job is held.
func (m *Manager) move(ctx context.Context, j *job, excluded map[string]error) error {
	m.mu.Lock()
	old, why := j.record, m.displaced(j)
	if j.deleted || why == "" {
		m.mu.Unlock()
		return nil
	}
	spots, err := m.choose(j, excluded)
	gaps := maps.Clone(j.gaps)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	if old.Running == nil {
		return m.reassign(j, old, spots)
	}
	// A home that stays has the generation before, and keeps it until the new one is written down.
	var fresh, staying []spot
	for i := range spots {
		if s := &spots[i]; old.Running.At(s.Name) != nil && gaps[s.Name] == "" {
			s.stays = true
			staying = append(staying, *s)
		} else {
			fresh = append(fresh, *s)
		}
	}
	record, err := m.succeed(old, spots, excluded)
	if err != nil {
		return err
	}
	if err := m.enterNew(ctx, j, record, fresh, excluded); err != nil {
		m.takeBack(old, record, fresh)
		return err
	}
	if err := m.put(j, record); err != nil {
		m.takeBack(old, record, fresh)
		return notStored(j, err)
	}
	m.goOn(j, old, record, m.addAll(record, staying), why)
	return nil
}

// reassign gives a job that is not running other places.
func (m *Manager) reassign(j *job, old *store.Job, spots []spot) error {
	record := *old
	record.Allocation.Places = places(spots)
	if err := m.put(j, &record); err != nil {
		return notStored(j, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settleAt(j, &record)
	m.event(levelInfo, "job-placed", j, nil, "job %s has its place at %s now", j.name, at(&record))
	return nil
}

// settleAt has a job be where its record says. The lock is held.
func (m *Manager) settleAt(j *job, record *store.Job) {
	j.record, j.gaps = record, nil
	for _, place := range record.Allocation.Places {
		if is, ok := m.ledger.Place(j.id, place.Node); !ok || is != place {
			j.gap(place.Node, "its slots at node "+place.Node+" are not there any more")
		}
	}
}

// at are the nodes of a job, for people.
func at(record *store.Job) string {
	var names []string
	for _, place := range record.Allocation.Places {
		names = append(names, place.Node)
	}
	return strings.Join(names, ", ")
}

// succeed is the record with the generation that goes on from the one that is running.
func (m *Manager) succeed(old *store.Job, spots []spot, excluded map[string]error) (*store.Job, error) {
	cookie, err := random(old)
	if err != nil {
		return nil, err
	}
	key, err := random(nil)
	if err != nil {
		return nil, err
	}
	record, running := *old, *old.Running
	record.Allocation.Places = places(spots)
	record.Running = &running
	running.Cookie, running.Key, running.Homes, running.Members = cookie, key, nil, slices.Clone(running.Members)
	running.Before = append(slices.Clone(running.Before), store.Part{Generation: old.Generation, Cookie: old.Running.Cookie})
	running.Before = running.Before[max(0, len(running.Before)-maxBefore):]
	record.Generation++
	record.Moves++
	for _, s := range spots {
		home := store.Home{Node: s.Name}
		if s.stays {
			before := old.Running.At(s.Name)
			home.Addr, home.Ways = before.Addr, before.Ways
		} else {
			addr, ways, err := m.waysFrom(s.remote, old)
			if err != nil {
				if !errors.Is(err, ErrNodeAway) {
					excluded[s.Name] = err
				}
				return nil, fmt.Errorf("%w: %w", errAgain, err)
			}
			home.Addr, home.Ways = netip.AddrPortFrom(addr, 0), ways
		}
		running.Homes = append(running.Homes, home)
	}
	m.route(&record)
	return &record, nil
}

// enterNew brings a generation into the ToR, or past it, and into the aggregators that do not have the generation before.
func (m *Manager) enterNew(ctx context.Context, j *job, record *store.Job, fresh []spot, excluded map[string]error) error {
	if err := m.enterSwitch(ctx, j, record); err != nil {
		return err
	}
	failed := m.addAll(record, fresh)
	for name, err := range failed {
		if !errors.Is(err, ErrNodeAway) {
			excluded[name] = fmt.Errorf("its aggregator did not take generation %d: %w", record.Generation, err)
		}
	}
	if len(failed) > 0 {
		return errAgain
	}
	return ctx.Err()
}

// takeBack has the ToR be as it was before a new generation, and homes without memory be empty. What other aggregators have of it, trim takes out of them.
func (m *Manager) takeBack(old, record *store.Job, fresh []spot) {
	_ = each(fresh, func(s spot) error {
		if old.Running.At(s.Name) == nil {
			return nil
		}
		if err := m.removeAt(s.remote, old.Allocation.ID); err != nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.distrust(s.of, fmt.Sprintf("job %s could not be taken out of its aggregator: %v", old.Name(), err))
		}
		return nil
	}) // what fails is seen to
	switch {
	case m.config.Switch == nil:
	case old.Running.Through:
		m.config.Switch.SetJob(switchJob(old, m.config.TorAddress))
	case record.Running.Through:
		m.config.Switch.RemoveJob(old.Allocation.ID)
	}
}

// goOn has a new generation take the place of the one before, and tells the workers.
func (m *Manager) goOn(j *job, old, record *store.Job, failed map[string]error, why string) {
	if m.config.Switch != nil && old.Running.Through && !record.Running.Through {
		m.config.Switch.RemoveJob(record.Allocation.ID)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settleAt(j, record)
	for name, err := range failed {
		j.gap(name, fmt.Sprintf("the aggregator of node %s did not take generation %d: %v", name, record.Generation, err))
	}
	for rank := range j.members {
		if c := j.members[rank].call; c != nil {
			c.begin(parameters(record, uint32(rank)))
		}
	}
	m.changed(j)
	way := ""
	if record.Running.Reason != "" {
		way = ", " + record.Running.Reason
	}
	m.event(levelWarning, "job-moved", j, nil, "job %s goes on as generation %d at %s%s: %s", j.name, record.Generation, at(record), way, why)
}

// waysFrom looks up how a node reaches the members of a running generation. Where nobody answers for a member's Ethernet address, which may be lost, it is
// taken to be what it was: at another home of the same network it is the same.
func (m *Manager) waysFrom(r remote, old *store.Job) (home netip.Addr, ways []store.Way, err error) {
	members := old.Running.Members
	found := make([]Path, len(members))
	var ranks []int
	for rank := range members {
		ranks = append(ranks, rank)
	}
	err = each(ranks, func(rank int) error {
		path, err := m.path(r, members[rank].Addr)
		if err == nil && len(path.MAC) != 6 {
			path.MAC = old.Running.Homes[0].Ways[rank].MAC
		}
		if err == nil {
			err = fit(path, members[rank].Addr, old.Spec)
		}
		if err != nil {
			return fmt.Errorf("rank %d at %s: %w", rank, members[rank].Addr, err)
		}
		found[rank] = path
		return nil
	})
	if err != nil {
		return home, nil, err
	}
	for rank, path := range found {
		if first := found[0]; path.Ifindex != first.Ifindex || path.Home != first.Home {
			return home, nil, fmt.Errorf("%s leads to rank 0, and %s to rank %d: all ranks of a job must be behind one interface of the aggregator", first.Interface, path.Interface, rank)
		}
		ways = append(ways, store.Way{MAC: path.MAC, Ifindex: path.Ifindex})
	}
	return found[0].Home, ways, nil
}

// homesOf are the nodes of the running generation, by shard.
func homesOf(record *store.Job) (names []string) {
	if record.Running == nil {
		return nil
	}
	for shard := range shards(record.Spec) {
		names = append(names, record.Running.Home(shard).Node)
	}
	return names
}
