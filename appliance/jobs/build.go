package jobs

import (
	"net/netip"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/ledger"
	"spillway/appliance/store"
	"spillway/p4/pipeline"
	"spillway/wire"
	"spillway/xdp"
)

// aggregatorJob is what the aggregator of a home is told of a job's running generation.
func aggregatorJob(record *store.Job, home *store.Home, tor netip.Addr) xdp.Job {
	running := record.Running
	place, _ := record.Allocation.Place(home.Node)
	job := xdp.Job{
		ID:         record.Allocation.ID,
		Generation: uint8(record.Generation),
		Cookie:     running.Cookie,
		Elements:   int(record.Spec.Elements),
		Window:     int(record.Spec.Window),
		Workers:    size(record),
		Home:       home.Addr,
		HomePorts:  home.Ports,
		WorkerPort: record.Allocation.WorkerPort,
		Policy:     policy(record.Spec),
		Resumed:    len(running.Before) > 0,
		Place:      &place.First,
	}
	if running.Multicast {
		job.Group = record.Allocation.Group
	}
	for rank, m := range running.Members {
		job.Members = append(job.Members, xdp.Member{Addr: m.Addr, Bits: 1 << rank, MAC: home.Ways[rank].MAC, Ifindex: home.Ways[rank].Ifindex})
	}
	if running.Through && record.Allocation.Region != nil {
		// Partial sums come from the ToR's own address, with whatever bits they have.
		job.Members = append(job.Members, xdp.Member{Addr: tor, Bits: wire.FullBitmap(job.Workers)})
	}
	return job
}

// switchJob is what the ToR is told of it. The id is also the number of the multicast group and the index in the counters.
func switchJob(record *store.Job, tor netip.Addr) pipeline.Job {
	running, home, id := record.Running, record.Running.Home(0), record.Allocation.ID
	job := pipeline.Job{
		ID:             id,
		Generation:     uint8(record.Generation),
		Index:          uint8(id),
		Cookie:         running.Cookie,
		Key:            running.Key,
		Home:           home.Addr,
		HomePorts:      home.Ports,
		HomePort:       home.Port,
		HomeMAC:        home.MAC,
		TorAddr:        tor,
		Group:          record.Allocation.Group,
		MulticastGroup: id,
		WorkerPort:     record.Allocation.WorkerPort,
		Parent:         parent(record),
	}
	for rank, m := range running.Members {
		job.Workers = append(job.Workers, pipeline.Worker{Addr: m.Addr, Port: m.Port, Bits: 1 << rank})
	}
	if r := record.Allocation.Region; r != nil {
		job.Region = &pipeline.Region{Base: uint16(r.Base), Slots: uint16(r.Slots), Mode: pipeline.ModePrivate}
		switch {
		case r.Shared && record.Spec.FirstCome:
			job.Region.Mode = pipeline.ModeFirstCome
		case r.Shared:
			job.Region.Mode = pipeline.ModeShared
		}
	}
	return job
}

// parameters are what a rank of the running generation must know.
func parameters(record *store.Job, rank uint32) *v1.Parameters {
	running, spec := record.Running, record.Spec
	p := &v1.Parameters{
		JobId:      uint32(record.Allocation.ID),
		Generation: record.Generation,
		Cookie:     running.Cookie,
		Rank:       rank,
		Workers:    uint32(size(record)),
		Elastic:    elastic(spec),
		Elements:   spec.Elements,
		Window:     spec.Window,
		Priority:   spec.Priority,
		WorkerPort: uint32(record.Allocation.WorkerPort),
		Address:    running.Members[rank].Addr.String(),
		MinRto:     spec.MinRto,
		MaxRto:     spec.MaxRto,
		Silence:    spec.Silence,
		Quorum:     spec.Quorum,
		WireBits:   spec.WireBits,
	}
	for shard := range shards(spec) {
		home := running.Home(shard)
		p.Homes = append(p.Homes, &v1.Home{Address: home.Addr.Addr().String(), Port: uint32(home.Addr.Port()), Ports: uint32(home.Ports)})
	}
	if n := len(running.Before); n > 0 {
		p.Resumes = running.Before[n-1].Generation
	}
	if running.Grouped {
		p.Group = record.Allocation.Group.String()
	}
	if running.Through {
		p.Tor = region(record.Allocation.Region)
	}
	return p
}

// region is a region as the API has it.
func region(r *ledger.Region) *v1.Region {
	if r == nil {
		return nil
	}
	return &v1.Region{Base: r.Base, Slots: r.Slots, Period: r.Period, Offset: r.Offset, Shared: r.Shared}
}

// allocation is an allocation as the API has it.
func allocation(a *ledger.Allocation) *v1.Allocation {
	out := &v1.Allocation{
		Slots: a.Slots, ClassElements: uint32(a.ClassElements), Bytes: a.Bytes(), Region: region(a.Region), WorkerPort: uint32(a.WorkerPort),
	}
	if a.Group.IsValid() {
		out.Group = a.Group.String()
	}
	return out
}
