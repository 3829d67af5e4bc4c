package jobs

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

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
	now := m.config.Now()
	var errs []error
	for _, record := range records {
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
	var running, absent []*job
	for _, j := range m.sorted() {
		if j.record.Running != nil {
			running = append(running, j)
			if !installed[j.id] {
				absent = append(absent, j)
			}
		}
	}
	moved := m.follow(absent)
	for _, j := range running {
		if err := m.reinstall(j, installed[j.id], moved[j]); err != nil {
			return err
		}
	}
	return nil
}

// removeStrangers takes out of the aggregator what the store does not know, or knows otherwise: what a daemon that died had begun. It returns the ids that
// are rightly there.
func (m *Manager) removeStrangers() (map[uint16]bool, error) {
	known := map[uint16]*job{}
	for _, j := range m.jobs {
		known[j.id] = j
	}
	installed := map[uint16]bool{}
	for _, job := range m.config.Aggregator.Jobs() {
		if j := known[job.ID]; j != nil && j.isInstalled(&job) {
			installed[job.ID] = true
			continue
		}
		if err := m.config.Aggregator.RemoveJob(job.ID); err != nil && !errors.Is(err, xdp.ErrNoJob) {
			return nil, fmt.Errorf("take job id %d, which the state file does not know, out of the aggregator: %w", job.ID, err)
		}
		m.config.Log.Warn("a job was in the aggregator that the state file does not know: it was taken out", "id", job.ID, "generation", job.Generation)
	}
	return installed, nil
}

// isInstalled reports whether the job in the aggregator is the running generation.
func (j *job) isInstalled(is *xdp.Job) bool {
	running := j.record.Running
	return running != nil && is.Generation == uint8(j.record.Generation) && is.Cookie == running.Cookie &&
		is.Home == running.Home && is.Place != nil && *is.Place == j.record.Allocation.First
}

// reinstall puts a running generation back where it is missing: after a reboot, as the workers have all it takes to make the sums again. What cannot be put
// back, for the reason given or because the aggregator does not take it, is over: its workers join again.
func (m *Manager) reinstall(j *job, installed bool, reason error) error {
	err := reason
	if !installed && err == nil && j.record.Spec.GetQuorum() != nil {
		err = errReleased(j.record)
	}
	if !installed && err == nil {
		err = m.add(j.record)
	}
	if err != nil {
		record := *j.record
		record.Running = nil
		if err := m.store.Put(record); err != nil {
			return notStored(j, err)
		}
		j.record, j.members = &record, nil
		j.state = j.stateNow()
		j.failure = fmt.Sprintf("generation %d could not be put back after the restart: %v", record.Generation, err)
		m.event(levelError, "generation-lost", j, nil, "generation %d of job %s is over, its workers must join again: it could not be put back: %v", record.Generation, j.name, err)
		return nil
	}
	if j.record.Running.Through && m.config.Switch != nil {
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
				path, err := m.config.Paths.To(member.Addr)
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
		over[j] = j.move(found)
	}
	return over
}

// move has the members be reached by the paths, where these are known.
func (j *job) move(paths []Path) error {
	record, running := *j.record, *j.record.Running
	running.Members = slices.Clone(running.Members)
	for rank, path := range paths {
		member := &running.Members[rank]
		switch {
		case !path.Home.IsValid() || len(path.MAC) != 6: // nothing was found, or nobody answers yet
		case path.Home != running.Home.Addr():
			return fmt.Errorf("the aggregator's address towards rank %d, %s, is %s now, and was %s", rank, member.Addr, path.Home, running.Home.Addr())
		default:
			member.Ifindex, member.MAC = path.Ifindex, path.MAC
		}
	}
	record.Running = &running
	j.record = &record
	return nil
}
