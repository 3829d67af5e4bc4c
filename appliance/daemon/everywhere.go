package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/cluster/peer"
	"spillway/appliance/jobs"
	"spillway/xdp"
)

// everywhere is the data plane of a cluster as its leader reads it: what each appliance that a job is homed at has of it, put together. The counters of packets of
// no job are this host's, and with unknown those of all. An appliance that does not answer is left out: its job is moving.
type everywhere struct {
	*xdp.Aggregator
	clients
	homes func(id uint16) []string
}

func newEverywhere(d *daemon) *everywhere {
	return &everywhere{Aggregator: d.plane, homes: func(uint16) []string { return nil }}
}

// read reads a job at each of its homes.
func (e *everywhere) read(request *v1.ReadJobRequest, own func(id uint16) (peer.Reading, error)) ([]peer.Reading, error) {
	id := uint16(request.GetId())
	names := e.homes(id)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 { // it is homed nowhere, or not known
		of, err := own(id)
		return []peer.Reading{of}, err
	}
	var all []peer.Reading
	for _, name := range names {
		client, there := e.get(name)
		if !there {
			continue
		}
		var of peer.Reading
		var err error
		if client == nil {
			of, err = own(id)
		} else {
			of, err = client.ReadJob(context.Background(), request)
		}
		switch {
		case errors.Is(err, xdp.ErrNoJob) || errors.Is(err, jobs.ErrNodeAway):
		case err != nil:
			return nil, err
		default:
			all = append(all, of)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("job id %d at %v: %w", id, names, xdp.ErrNoJob)
	}
	return all, nil
}

// Slots are those of all homes.
func (e *everywhere) Slots(job uint16) (all []xdp.SlotState, err error) {
	of, err := e.read(&v1.ReadJobRequest{Id: uint32(job), Slots: true}, func(id uint16) (r peer.Reading, err error) {
		r.Slots, err = e.Aggregator.Slots(id)
		return r, err
	})
	for _, r := range of {
		all = append(all, r.Slots...)
	}
	return all, err
}

// Members are what came from each member, to whichever home.
func (e *everywhere) Members(job uint16) (all []xdp.MemberState, err error) {
	of, err := e.read(&v1.ReadJobRequest{Id: uint32(job), Members: true}, func(id uint16) (r peer.Reading, err error) {
		r.Members, err = e.Aggregator.Members(id)
		return r, err
	})
	type key struct {
		addr netip.Addr
		bits uint64
	}
	at := map[key]int{}
	for _, r := range of {
		for _, m := range r.Members {
			i, seen := at[key{m.Addr, m.Bits}]
			if !seen {
				at[key{m.Addr, m.Bits}] = len(all)
				all = append(all, m)
				continue
			}
			if m.Packets > 0 && (all[i].Packets == 0 || m.Silent < all[i].Silent) {
				all[i].Silent = m.Silent
			}
			all[i].Packets += m.Packets
		}
	}
	return all, err
}

// Lateness is that at all homes. Their kernels' clocks have the same tick, or the homes with another are left out.
func (e *everywhere) Lateness(job uint16) (sum xdp.JobLateness, err error) {
	of, err := e.read(&v1.ReadJobRequest{Id: uint32(job), Lateness: true}, func(id uint16) (r peer.Reading, err error) {
		r.Lateness, err = e.Aggregator.Lateness(id)
		return r, err
	})
	for i, r := range of {
		if i == 0 {
			sum = r.Lateness
			continue
		}
		if r.Lateness.Tick != sum.Tick || len(r.Lateness.Ranks) != len(sum.Ranks) {
			continue
		}
		for rank := range sum.Ranks {
			for bucket, n := range r.Lateness.Ranks[rank].Counts {
				sum.Ranks[rank].Counts[bucket] += n
			}
			sum.Ranks[rank].Sum += r.Lateness.Ranks[rank].Sum
			sum.Ranks[rank].Without += r.Lateness.Ranks[rank].Without
		}
	}
	return sum, err
}

// Counters are the sums of those at all homes.
func (e *everywhere) Counters(job uint16) (map[string]uint64, error) {
	of, err := e.read(&v1.ReadJobRequest{Id: uint32(job), Counters: true}, func(id uint16) (r peer.Reading, err error) {
		r.Counters, err = e.Aggregator.Counters(id)
		return r, err
	})
	if err != nil {
		return nil, err
	}
	sum := map[string]uint64{}
	for _, r := range of {
		for name, n := range r.Counters {
			sum[name] += n
		}
	}
	return sum, nil
}

// unknown are the sums of the counters of packets of no job at all appliances that answer.
func (e *everywhere) unknown(ctx context.Context) (map[string]uint64, error) {
	sum, err := e.UnknownJobCounters()
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex // guards sum
	asked, ctx := errgroup.WithContext(ctx)
	for _, client := range e.others() {
		asked.Go(func() error {
			of, err := client.UnknownJobCounters(ctx)
			if errors.Is(err, jobs.ErrNodeAway) {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for name, n := range of {
				sum[name] += n
			}
			return nil
		})
	}
	return sum, asked.Wait()
}
