package jobs

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"spillway/appliance/store"
	"spillway/p4/pipeline"
	"spillway/xdp"
)

// restore brings memory, aggregator and ToR to what the store says. Nobody else has the Manager yet.
func (m *Manager) restore() error {
	limits, known, err := m.store.Limits()
	if err != nil {
		return err
	}
	if known {
		m.useLimits(pipeline.Limits{Slots: limits.Slots, Elements: limits.Elements})
	}
	records, err := m.store.Jobs()
	if err != nil {
		return err
	}
	if err := m.restoreNodes(); err != nil {
		return err
	}
	now := m.config.Now()
	var errs []error
	for _, record := range records {
		if m.config.Alone {
			m.adopt(&record)
		}
		if err := m.ledger.Restore(record.Allocation); err != nil {
			errs = append(errs, fmt.Errorf("job %q: %w", record.Name(), err))
			continue
		}
		m.jobs[record.Name()] = newJob(&record, now)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("jobs from before do not fit into the configuration (give them back what they hold, or delete them with the configuration from before): %w", err)
	}
	installed, err := m.removeStrangers()
	if err != nil {
		return err
	}
	m.self().clean, m.self().compared = true, now
	var absent []*job
	for _, j := range m.sorted() {
		if j.homedAt(m.config.Self) && !installed[j.id] {
			absent = append(absent, j)
		}
	}
	moved := m.follow(absent)
	for _, j := range m.sorted() {
		if j.record.Running == nil {
			continue
		}
		if err := m.reinstall(j, installed[j.id] || !j.homedAt(m.config.Self), moved[j]); err != nil {
			return err
		}
	}
	return nil
}

// restoreNodes brings the nodes back, and which of them are drained.
func (m *Manager) restoreNodes() error {
	drained, err := m.store.Drained()
	if err != nil {
		return err
	}
	m.drained = drained
	for _, n := range m.config.Nodes {
		m.addNode(n)
	}
	return nil
}

// adopt has a job that was homed at an appliance that stands alone be homed at this one, which is the same whatever it was called.
func (m *Manager) adopt(record *store.Job) {
	record.Allocation.Places = slices.Clone(record.Allocation.Places)
	for i := range record.Allocation.Places {
		record.Allocation.Places[i].Node = m.config.Self
	}
	if record.Running != nil {
		for i := range record.Running.Homes {
			record.Running.Homes[i].Node = m.config.Self
		}
	}
}

// removeStrangers takes out of this host's aggregator what the store does not know, or knows otherwise: what a daemon that died had begun. It returns the ids
// that are rightly there.
func (m *Manager) removeStrangers() (map[uint16]bool, error) {
	known := map[uint16]*job{}
	for _, j := range m.jobs {
		known[j.id] = j
	}
	installed := map[uint16]bool{}
	there, err := m.self().Aggregator.Jobs(m.ctx)
	if err != nil {
		return nil, err
	}
	for _, job := range there {
		if j := known[job.ID]; j != nil && j.isInstalled(m.config.Self, &job) {
			installed[job.ID] = true
			continue
		}
		if err := m.self().Aggregator.RemoveJob(m.ctx, job.ID); err != nil && !errors.Is(err, xdp.ErrNoJob) {
			return nil, fmt.Errorf("take job id %d, which the state file does not know, out of the aggregator: %w", job.ID, err)
		}
		m.config.Log.Warn("a job was in the aggregator that the state file does not know: it was taken out", "id", job.ID, "generation", job.Generation)
	}
	return installed, nil
}

// reinstall puts a running generation back where it is missing here: after a reboot, as the workers have all it takes to make the sums again. What sums were released
// without their stragglers is forgotten, so with a quorum, and where other homes have a part in it, the generation goes on as a new one. What cannot be put
// back, for the reason given or because the aggregator does not take it, is over: its workers join again.
func (m *Manager) reinstall(j *job, installed bool, reason error) error {
	running := j.record.Running
	switch {
	case installed:
	case reason == nil && (j.record.Spec.Quorum != nil || len(running.Homes) > 1):
		j.gap(m.config.Self, fmt.Sprintf("node %s has lost the memory of generation %d", m.config.Self, j.record.Generation))
	case reason == nil:
		reason = m.addAt(m.self().remote(), aggregatorJob(j.record, running.At(m.config.Self), m.config.TorAddress))
	}
	if reason != nil && len(m.nodes) > 1 {
		j.gap(m.config.Self, fmt.Sprintf("generation %d could not be put back at node %s: %v", j.record.Generation, m.config.Self, reason))
		reason = nil
	}
	if reason != nil {
		record := *j.record
		record.Running = nil
		if err := m.store.Put(record); err != nil {
			return notStored(j, err)
		}
		j.record, j.members = &record, nil
		j.state = j.stateNow()
		j.failure = fmt.Sprintf("generation %d could not be put back after the restart: %v", record.Generation, reason)
		m.event(levelError, "generation-lost", j, nil, "generation %d of job %s is over, its workers must join again: it could not be put back: %v", record.Generation, j.name, reason)
		return nil
	}
	if running.Through && m.config.Switch != nil {
		m.config.Switch.SetJob(switchJob(j.record, m.config.TorAddress))
	}
	m.event(levelInfo, "job-restored", j, nil, "generation %d of job %s goes on; its workers may resume", j.record.Generation, j.name)
	return nil
}

// lookups is how many ways are looked up at once. The kernel takes a second or more where it must look for a neighbour that does not answer.
const lookups = 64

// follow looks up again by which interface the members of generations are reached, whose number can be another one after a reboot. Where nothing is found yet,
// what was written down stays. It returns the jobs whose generation is over, because the aggregator has another address towards a member.
func (m *Manager) follow(jobs []*job) map[*job]error {
	var group errgroup.Group
	group.SetLimit(lookups)
	paths := map[*job][]Path{}
	for _, j := range jobs {
		found := make([]Path, len(j.record.Running.Members))
		paths[j] = found
		for rank, member := range j.record.Running.Members {
			group.Go(func() error {
				path, err := m.path(m.self().remote(), member.Addr)
				if err != nil {
					m.config.Log.Warn("the way to a worker is not known yet: the one from before is kept", "job", j.name, "rank", rank, "address", member.Addr, "error", err)
				}
				found[rank] = path
				return nil
			})
		}
	}
	_ = group.Wait() // none of them fails
	over := map[*job]error{}
	for j, found := range paths {
		over[j] = j.follow(m.config.Self, found)
	}
	return over
}

// follow has the members be reached from a node by the paths, where these are known.
func (j *job) follow(node string, paths []Path) error {
	record, running := *j.record, *j.record.Running
	running.Homes = slices.Clone(running.Homes)
	record.Running = &running
	home := running.At(node)
	home.Ways = slices.Clone(home.Ways)
	for rank, path := range paths {
		switch {
		case !path.Home.IsValid() || len(path.MAC) != 6: // nothing was found, or nobody answers yet
		case path.Home != home.Addr.Addr():
			return fmt.Errorf("the aggregator's address towards rank %d, %s, is %s now, and was %s", rank, running.Members[rank].Addr, path.Home, home.Addr.Addr())
		default:
			home.Ways[rank] = store.Way{MAC: path.MAC, Ifindex: path.Ifindex}
		}
	}
	j.record = &record
	return nil
}
