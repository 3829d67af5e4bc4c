package jobs

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "spillway/appliance/api/spillway/v1"
)

// Workers says what is known of a job's workers, by rank, without what the data plane knows. A rank that waits for the next generation is shown as that.
func (m *Manager) Workers(name string) ([]*v1.Worker, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, err := m.find(name)
	if err != nil {
		return nil, err
	}
	var workers []*v1.Worker
	for rank := range j.record.Spec.Workers {
		workers = append(workers, j.worker(rank))
	}
	return workers, nil
}

// worker is what is known of a rank.
func (j *job) worker(rank uint32) *v1.Worker {
	w := &v1.Worker{Rank: rank, State: v1.WorkerState_WORKER_STATE_MISSING}
	if c := j.waiting[rank]; c != nil {
		w.State, w.Address, w.Description, w.Since = v1.WorkerState_WORKER_STATE_JOINED, c.address.String(), c.description, timestamppb.New(c.since)
		return w
	}
	member := j.member(rank)
	if member == nil {
		return w
	}
	w.Address, w.Description, w.Since = j.record.Running.Members[rank].Addr.String(), member.description, timestamppb.New(member.since)
	switch {
	case member.dead && !member.left:
		w.State = v1.WorkerState_WORKER_STATE_DEAD
	case member.left:
		w.State = v1.WorkerState_WORKER_STATE_LEFT
	case member.present():
		w.State = v1.WorkerState_WORKER_STATE_PRESENT
	default:
		w.State = v1.WorkerState_WORKER_STATE_LOST
	}
	return w
}
