package observe

import (
	"context"
	"math/bits"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/stragglers"
	"spillway/xdp"
)

// Workers says what is known of a job's workers: by the manager of jobs, and by the data plane, which sees their packets.
func (o *Observer) Workers(_ context.Context, name string) (*v1.ListWorkersResponse, error) {
	job, err := o.job(name)
	if err != nil {
		return nil, err
	}
	states, err := o.slots(job)
	if err != nil {
		return nil, err
	}
	workers, err := o.workers(job, states)
	if err != nil {
		return nil, err
	}
	return &v1.ListWorkersResponse{Workers: workers}, nil
}

func (o *Observer) workers(job *v1.Job, states []xdp.SlotState) ([]*v1.Worker, error) {
	workers, err := o.config.Jobs.Workers(job.GetSpec().GetName())
	if err != nil {
		return nil, err
	}
	var members []xdp.MemberState
	if job.GetId() != 0 {
		members, err = o.config.Plane.Members(uint16(job.GetId()))
		if err != nil && !absent(err) {
			return nil, unreadable(job, "members", err)
		}
	}
	if err := o.lateness(job, workers); err != nil {
		return nil, err
	}
	now := time.Now()
	packets := map[int]xdp.MemberState{}
	for _, m := range members {
		if bits.OnesCount64(m.Bits) == 1 { // a worker; the ToR has all of the job's, unless that is one
			packets[bits.TrailingZeros64(m.Bits)] = m
		}
	}
	late := waiting(states, size(job))
	for _, w := range workers {
		rank := int(w.GetRank())
		if m, ok := packets[rank]; ok && m.Packets > 0 && m.Addr.String() == w.GetAddress() {
			w.Packets, w.LastPacket = m.Packets, timestamppb.New(now.Add(-m.Silent))
		}
		if rank < len(late) && late[rank].chunks > 0 {
			w.WaitedFor, w.Late = late[rank].chunks, durationpb.New(late[rank].oldest)
		}
	}
	return workers, nil
}

// lateness adds how late the workers' contributions came.
func (o *Observer) lateness(job *v1.Job, workers []*v1.Worker) error {
	if job.GetId() == 0 {
		return nil
	}
	late, err := o.config.Plane.Lateness(uint16(job.GetId()))
	if absent(err) {
		return nil
	}
	if err != nil {
		return unreadable(job, "workers' lateness", err)
	}
	for _, w := range workers {
		rank := int(w.GetRank())
		if rank >= len(late.Ranks) {
			continue
		}
		w.ReleasedWithout = late.Ranks[rank].Without
		if l := stragglers.Of(&late, rank); stragglers.Contributions(l) > 0 {
			w.Lateness = l
		}
	}
	return nil
}
