package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/ledger"
	"spillway/appliance/refusal"
	"spillway/appliance/store"
)

// Create admits a job, or only says whether it would: then nothing changes.
func (m *Manager) Create(ctx context.Context, spec *v1.JobSpec, dryRun bool) (*v1.Job, error) {
	m.learnLimits()
	if !m.begin() {
		return nil, shuttingDown()
	}
	defer m.running.Done()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j, err := m.admit(spec, dryRun)
	if err != nil {
		return nil, err
	}
	if dryRun {
		return m.view(j), nil // nobody else has it
	}
	if err := m.store.Put(*j.record); err != nil {
		if err := m.store.Delete(j.name); err != nil { // it may be written down all the same
			m.config.Log.Warn("a job that was not created may be there after a restart", "job", j.name, "error", err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.forget(j)
		return nil, notStored(j, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	j.hidden = false
	m.changed(j)
	if why := m.displaced(j); why != "" {
		m.startMove(j, why) // its node was lost meanwhile
	}
	m.event(levelInfo, "job-created", j, nil, "job %s was created for %d workers: id %d, %d slots of %d elements", j.name, j.record.Spec.Workers, j.id,
		j.record.Allocation.Slots, j.record.Allocation.ClassElements)
	return m.view(j), nil
}

// admit sets aside what a job needs and takes the name, but shows it to nobody yet. With dryRun it gives it all back at once.
func (m *Manager) admit(asked *v1.JobSpec, dryRun bool) (*job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	spec, err := m.site().complete(asked)
	if err != nil {
		return nil, err
	}
	if m.jobs[spec.Name] != nil {
		return nil, refusal.New(codes.AlreadyExists, refusal.JobExists, "there is a job %q already: delete it first, or choose another name", spec.Name).With("job", spec.Name)
	}
	nodes := m.preferred(packetBytes(int(spec.Elements)))
	if len(nodes) == 0 {
		return nil, m.noneReady(spec.Name)
	}
	allocation, err := m.ledger.Reserve(request(spec), nodes...)
	if err != nil {
		return nil, err
	}
	now := m.config.Now()
	j := newJob(&store.Job{Spec: spec, Allocation: allocation, Created: now, Since: now}, now)
	j.hidden, j.torState = true, m.torState
	m.jobs[spec.Name] = j
	if dryRun {
		m.forget(j)
	}
	return j, nil
}

// request is what a specification asks of the ledger. A job that a ToR forwards needs a group there, and so does one that is published to a group without.
func request(spec *v1.JobSpec) ledger.Request {
	return ledger.Request{
		Name: spec.Name, Workers: spec.Workers, Elements: spec.Elements, Window: spec.Window, Lag: lag(spec), Tor: spec.Tor, TorSlots: spec.TorSlots,
		Multicast: spec.Publication == v1.Publication_PUBLICATION_MULTICAST, Shards: uint32(shards(spec)),
	}
}

// site is what of the nodes decides over specifications. The lock is held.
func (m *Manager) site() site {
	mtu := m.self().MTU
	for _, n := range m.nodes {
		mtu = min(mtu, n.MTU) // also of those that are lost: a job may have to move there
	}
	return site{
		defaults: m.config.Defaults, mtu: mtu, nodes: len(m.nodes), multicast: m.config.Ledger.Groups.IsValid(), tor: m.config.Switch != nil,
		torElements: m.limits.Elements, sharedSlots: m.config.Ledger.SharedSlots,
	}
}

// noneReady refuses a job while no node may be given any. The lock is held.
func (m *Manager) noneReady(name string) error {
	var texts []string
	for _, node := range m.names(func(*node) bool { return true }) {
		texts = append(texts, m.nodes[node].trouble())
	}
	return refusal.New(codes.Unavailable, refusal.NodeAway, "no node can be given job %q now: %s; create it again when one is ready (spillctl nodes)", name, strings.Join(texts, "; ")).
		With("job", name)
}

// forget takes a job out of memory, with all that it holds. The lock is held.
func (m *Manager) forget(j *job) {
	m.ledger.Release(j.id)
	delete(m.jobs, j.name)
}

// Delete takes a job away at once. Without force it is refused while workers wait or take part.
func (m *Manager) Delete(ctx context.Context, name string, force bool) (*v1.Job, error) {
	if !m.begin() {
		return nil, shuttingDown()
	}
	defer m.running.Done()
	m.mu.Lock()
	j, err := m.find(name)
	if err == nil && !force {
		err = inUse(j)
	}
	if err != nil {
		m.mu.Unlock()
		return nil, err
	}
	j.deletions++
	if j.forming {
		j.stop() // no sense in waiting for a ToR on behalf of a job that goes away
	}
	if j.moving != nil {
		j.stopMoving()
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		j.deletions--
		m.form(j) // it may have stayed
		m.kick()
	}()
	return m.remove(ctx, j, func() error {
		if force {
			return nil
		}
		return inUse(j)
	}, "job-deleted", "was deleted")
}

// inUse refuses to delete a job that somebody uses. The lock is held.
func inUse(j *job) error {
	if !j.busy() {
		return nil
	}
	users := j.ranks(func(rank uint32) bool { return j.waiting[rank] != nil || j.members != nil && j.members[rank].present() })
	return refusal.New(codes.FailedPrecondition, refusal.JobInUse, "job %q is in use by %s: drain it, which lets them finish, or delete it by force, which fails their collectives",
		j.name, these(users, "", "")).With("job", j.name).With("ranks", list(users))
}

// Drain lets no worker join any more, and deletes the job when the last has left: at once when there is none.
func (m *Manager) Drain(ctx context.Context, name string) (*v1.Job, error) {
	if !m.begin() {
		return nil, shuttingDown()
	}
	defer m.running.Done()
	m.mu.Lock()
	j, err := m.find(name)
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := m.drain(ctx, j); err != nil {
		return nil, err
	}
	m.mu.Lock()
	over, view := j.finished(), m.view(j)
	m.mu.Unlock()
	if !over {
		return view, nil
	}
	if _, err := m.remove(ctx, j, func() error { return nil }, "job-deleted", "was deleted: it was drained, and has no workers"); err != nil {
		if refused := refusal.Of(err); refused == nil || refused.Reason != refusal.NoSuchJob { // the sweep was faster
			return nil, err
		}
	}
	return view, nil
}

// drain marks the job, and sends away who waits.
func (m *Manager) drain(ctx context.Context, j *job) error {
	if err := j.acquire(ctx); err != nil {
		return err
	}
	defer j.release()
	m.mu.Lock()
	if j.deleted || j.record.Draining {
		defer m.mu.Unlock()
		if j.deleted {
			return noSuchJob(j.name)
		}
		return nil
	}
	record := *j.record
	record.Draining, record.Since = true, m.config.Now()
	m.mu.Unlock()
	if err := m.put(j, &record); err != nil {
		return notStored(j, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	j.record = &record
	for rank := range j.waiting {
		m.endWaiting(j, uint32(rank), draining(j))
	}
	for rank := range j.members {
		if c := j.members[rank].call; c != nil {
			c.draining = true
			c.poke()
		}
	}
	m.changed(j)
	m.event(levelInfo, "job-draining", j, j.present(), "job %s is draining: nobody may join any more, and it is deleted when the last worker has left", j.name)
	return nil
}

// remove deletes a job, if the condition holds when nothing else changes it: from the store, from the data plane, from the ledger.
func (m *Manager) remove(ctx context.Context, j *job, condition func() error, kind, why string) (*v1.Job, error) {
	if err := j.acquire(ctx); err != nil {
		return nil, err
	}
	defer j.release()
	record, before, err := m.shut(j, condition)
	if err != nil {
		return nil, err
	}
	if err := m.erase(j, record); err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		j.gone = false
		m.event(levelError, "job-stays", j, nil, "job %s could not be deleted: %v", j.name, err)
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(j)
	j.deleted = true
	for rank := range j.waiting {
		m.endWaiting(j, uint32(rank), deleted(j))
	}
	for rank := range j.members {
		if c := j.members[rank].call; c != nil {
			c.end(deleted(j))
		}
	}
	j.members = nil
	m.changed(j)
	m.event(levelInfo, kind, j, nil, "job %s %s", j.name, why)
	m.kick() // there may be room where there was none
	return before, nil
}

// shut lets nobody join a job any more, which is to be deleted if the condition holds. It returns the job as it is.
func (m *Manager) shut(j *job, condition func() error) (*store.Job, *v1.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := condition()
	if j.deleted {
		err = noSuchJob(j.name)
	}
	if err != nil {
		return nil, nil, err
	}
	j.gone = true
	return j.record, m.view(j), nil
}

// erase takes a job out of the store and of the data plane, or leaves it in both.
func (m *Manager) erase(j *job, record *store.Job) error {
	name := record.Name()
	if err := m.store.Delete(name); err != nil {
		m.writes(j, err)
		return refusal.New(codes.Internal, refusal.Storage, "job %q stays: %w; free space on the disk, or see to its rights, and delete it again", name, err).With("job", name)
	}
	// Also when no generation is running: one may be left that could not be undone.
	if err := m.uninstall(record); err != nil {
		return errors.Join(err, m.putBack(j, record))
	}
	return nil
}

// uninstall takes the job out of the aggregators and then out of the ToR. It is no error that it is not there. When the first of the aggregators does not give it
// up, it is left in all of them and in the ToR; one that does not after another did is given nothing more until it has.
func (m *Manager) uninstall(record *store.Job) error {
	id, name := record.Allocation.ID, record.Name()
	began := false
	for _, place := range record.Allocation.Places {
		m.mu.Lock()
		r, there := m.reachOrSkip(place.Node)
		m.mu.Unlock()
		if !there {
			continue
		}
		err := m.removeAt(r, id)
		if err != nil && !errors.Is(err, ErrNodeAway) {
			err = refusal.New(codes.Internal, refusal.DataPlane, "generation %d of job %q could not be taken out of the aggregator: %w; try again, and restart spillwayd if it stays",
				record.Generation, name, err).With("job", name)
			if !began {
				return err
			}
			m.mu.Lock()
			m.distrust(r.of, err.Error())
			m.mu.Unlock()
		}
		began = true
	}
	if m.config.Switch != nil {
		m.config.Switch.RemoveJob(id)
	}
	return nil
}

// put writes a record down.
func (m *Manager) put(j *job, record *store.Job) error { return m.writes(j, m.store.Put(*record)) }

// writes remembers whether what is written down of a job is what is true of it: after a failure it may be either.
func (m *Manager) writes(j *job, err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	j.unwritten = err != nil
	return err
}

// rewrite writes down again what could not be written.
func (m *Manager) rewrite(ctx context.Context) {
	if !m.begin() {
		return
	}
	defer m.running.Done()
	m.mu.Lock()
	all := m.sorted()
	m.mu.Unlock()
	for _, j := range all {
		m.rewriteJob(ctx, j)
	}
}

func (m *Manager) rewriteJob(ctx context.Context, j *job) {
	due := func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return j.unwritten && !j.deleted
	}
	if !due() || j.acquire(ctx) != nil {
		return
	}
	defer j.release()
	if !due() {
		return
	}
	if err := m.put(j, j.record); err != nil {
		m.config.Log.Warn("what is written down of a job is not what is true of it", "job", j.name, "error", err)
	}
}

// putBack writes the record as it was. Where even that fails it is tried again later; should the daemon die before, the next one sets the data plane right.
func (m *Manager) putBack(j *job, record *store.Job) error {
	if err := m.put(j, record); err != nil {
		return fmt.Errorf("and what was changed could not be undone: %w", err)
	}
	return nil
}

func notStored(j *job, err error) error {
	return refusal.New(codes.Internal, refusal.Storage, "job %q is as it was: %w; free space on the disk, or see to its rights, and try again", j.name, err).With("job", j.name)
}

func beingDeleted(j *job) error {
	return refusal.New(codes.Aborted, refusal.JobDeleted, "job %q is being deleted: create it again when it is gone", j.name).With("job", j.name)
}

func deleted(j *job) error {
	return refusal.New(codes.Aborted, refusal.JobDeleted, "job %q was deleted during the call", j.name).With("job", j.name)
}

func draining(j *job) error {
	return refusal.New(codes.FailedPrecondition, refusal.JobDraining, "job %q is draining: nobody may join it any more; create another", j.name).With("job", j.name)
}
