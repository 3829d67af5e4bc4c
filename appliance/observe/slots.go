package observe

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/wire"
	"spillway/xdp"
)

// defaultLimit is how many slots are listed unless the caller says.
const defaultLimit = 100

// Slots says which chunks of a job the aggregator has, oldest first.
func (o *Observer) Slots(_ context.Context, request *v1.ListSlotsRequest) (*v1.ListSlotsResponse, error) {
	job, err := o.job(request.GetJob())
	if err != nil {
		return nil, err
	}
	states, err := o.slots(job)
	if err != nil {
		return nil, err
	}
	if !request.GetComplete() {
		states = slices.DeleteFunc(states, func(s xdp.SlotState) bool { return s.Complete })
	}
	slices.SortStableFunc(states, func(a, b xdp.SlotState) int { return cmp.Compare(b.Age, a.Age) })
	limit := cmp.Or(int(request.GetLimit()), defaultLimit)
	response := &v1.ListSlotsResponse{}
	if len(states) > limit {
		response.More = uint32(len(states) - limit)
		states = states[:limit]
	}
	full := wire.FullBitmap(size(job))
	for _, s := range states {
		response.Slots = append(response.Slots, &v1.Slot{
			Index: s.Index, Seq: s.Seq, Present: ranks(s.Bitmap), Missing: ranks(full &^ s.Bitmap), Elements: uint32(s.Elements),
			Op: s.Op.String(), Complete: s.Complete, Age: durationpb.New(s.Age),
		})
	}
	return response, nil
}

// size is how many ranks a job's generation has, or will have.
func size(job *v1.Job) int { return int(cmp.Or(job.GetRanks(), job.GetSpec().GetWorkers())) }

// slots are those that the aggregator has of a job; none while it has no job.
func (o *Observer) slots(job *v1.Job) ([]xdp.SlotState, error) {
	if job.GetId() == 0 {
		return nil, nil
	}
	states, err := o.config.Plane.Slots(uint16(job.GetId()))
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(job, "slots", err)
	}
	return states, nil
}

// ranks are the numbers of the bits that are set.
func ranks(bitmap uint64) []uint32 {
	var all []uint32
	for ; bitmap != 0; bitmap &= bitmap - 1 {
		all = append(all, uint32(bits.TrailingZeros64(bitmap)))
	}
	return all
}

// lateness is how many chunks wait for a rank, and for how long the oldest has.
type lateness struct {
	chunks uint32
	oldest time.Duration
}

// waiting sums up by rank which chunks wait for whom.
func waiting(states []xdp.SlotState, workers int) []lateness {
	late := make([]lateness, workers)
	full := wire.FullBitmap(workers)
	for _, s := range states {
		if s.Complete {
			continue
		}
		for _, rank := range ranks(full &^ s.Bitmap) {
			late[rank].chunks++
			late[rank].oldest = max(late[rank].oldest, s.Age)
		}
	}
	return late
}

// oldest is the age of the oldest chunk that waits; 0: none does.
func oldest(states []xdp.SlotState) time.Duration {
	var age time.Duration
	for _, s := range states {
		if !s.Complete {
			age = max(age, s.Age)
		}
	}
	return age
}
