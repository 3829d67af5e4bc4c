package peer

import (
	"fmt"
	"net/netip"

	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/wire"
	"spillway/xdp"
)

// installed is a job as a message.
func installed(j *xdp.Job) *v1.InstalledJob {
	out := &v1.InstalledJob{
		Id: uint32(j.ID), Generation: uint32(j.Generation), Cookie: j.Cookie, Elements: uint32(j.Elements), Window: uint32(j.Window), Workers: uint32(j.Workers),
		Home: j.Home.String(), HomePorts: uint32(j.HomePorts), WorkerPort: uint32(j.WorkerPort),
		Quorum: uint32(j.Policy.Quorum), After: durationpb.New(j.Policy.After), MaxLag: uint32(j.Policy.MaxLag), Resumed: j.Resumed, Place: j.Place,
	}
	if j.Group.IsValid() {
		out.Group = j.Group.String()
	}
	for _, m := range j.Members {
		out.Members = append(out.Members, &v1.InstalledMember{Address: m.Addr.String(), Bits: m.Bits, Mac: m.MAC, Ifindex: uint32(m.Ifindex)})
	}
	return out
}

// job is a message as a job. What is in it is the aggregator's to check; what cannot be written in a job is an error here.
func job(m *v1.InstalledJob) (xdp.Job, error) {
	j := xdp.Job{
		Cookie: m.GetCookie(), Elements: int(m.GetElements()), Window: int(m.GetWindow()), Workers: int(m.GetWorkers()),
		Policy:  xdp.Policy{Quorum: int(m.GetQuorum()), After: m.GetAfter().AsDuration(), MaxLag: int(m.GetMaxLag())},
		Resumed: m.GetResumed(),
	}
	var err error
	if j.ID, err = narrow[uint16]("id", m.GetId()); err != nil {
		return j, err
	}
	if j.Generation, err = narrow[uint8]("generation", m.GetGeneration()); err != nil {
		return j, err
	}
	if j.HomePorts, err = narrow[uint16]("home_ports", m.GetHomePorts()); err != nil {
		return j, err
	}
	if j.WorkerPort, err = narrow[uint16]("worker_port", m.GetWorkerPort()); err != nil {
		return j, err
	}
	if j.Home, err = netip.ParseAddrPort(m.GetHome()); err != nil {
		return j, fmt.Errorf("home: %w", err)
	}
	if m.GetGroup() != "" {
		if j.Group, err = netip.ParseAddr(m.GetGroup()); err != nil {
			return j, fmt.Errorf("group: %w", err)
		}
	}
	if m.Place != nil {
		place := m.GetPlace()
		j.Place = &place
	}
	for i, of := range m.GetMembers() {
		addr, err := netip.ParseAddr(of.GetAddress())
		if err != nil {
			return j, fmt.Errorf("members[%d]: %w", i, err)
		}
		j.Members = append(j.Members, xdp.Member{Addr: addr, Bits: of.GetBits(), MAC: of.GetMac(), Ifindex: int(of.GetIfindex())})
	}
	return j, nil
}

// narrow is a number in fewer bits, if it fits.
func narrow[N uint8 | uint16](field string, n uint32) (N, error) {
	if uint32(N(n)) != n {
		return 0, fmt.Errorf("%s: %d is out of range", field, n)
	}
	return N(n), nil
}

// Reading is what an aggregator has of a job.
type Reading struct {
	Slots    []xdp.SlotState
	Members  []xdp.MemberState
	Lateness xdp.JobLateness
	Counters map[string]uint64
}

// Plane is what is read of an aggregator; *xdp.Aggregator is one.
type Plane interface {
	Slots(job uint16) ([]xdp.SlotState, error)
	Members(job uint16) ([]xdp.MemberState, error)
	Lateness(job uint16) (xdp.JobLateness, error)
	Counters(job uint16) (map[string]uint64, error)
	UnknownJobCounters() (map[string]uint64, error)
}

// readJob answers what is asked of a job.
func readJob(plane Plane, r *v1.ReadJobRequest) (*v1.ReadJobResponse, error) {
	id, err := narrow[uint16]("id", r.GetId())
	if err != nil {
		return nil, err
	}
	out := &v1.ReadJobResponse{}
	if r.GetSlots() {
		states, err := plane.Slots(id)
		if err != nil {
			return nil, err
		}
		for _, s := range states {
			out.Slots = append(out.Slots, &v1.InstalledSlot{
				Index: s.Index, Seq: s.Seq, Bitmap: s.Bitmap, Elements: uint32(s.Elements), Op: uint32(s.Op), Flags: uint32(s.Flags), Complete: s.Complete, Age: durationpb.New(s.Age),
			})
		}
	}
	if r.GetMembers() {
		states, err := plane.Members(id)
		if err != nil {
			return nil, err
		}
		for _, m := range states {
			out.Members = append(out.Members, &v1.MemberState{Address: m.Addr.String(), Bits: m.Bits, Packets: m.Packets, Silent: durationpb.New(m.Silent)})
		}
	}
	if r.GetLateness() {
		late, err := plane.Lateness(id)
		if err != nil {
			return nil, err
		}
		out.Tick = durationpb.New(late.Tick)
		for _, of := range late.Ranks {
			out.Lateness = append(out.Lateness, &v1.RankLateness{Counts: of.Counts[:], Sum: durationpb.New(of.Sum), Without: of.Without})
		}
	}
	if r.GetCounters() {
		if out.Counters, err = plane.Counters(id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// reading is what was answered.
func reading(m *v1.ReadJobResponse) (Reading, error) {
	out := Reading{Counters: m.GetCounters(), Lateness: xdp.JobLateness{Tick: m.GetTick().AsDuration()}}
	for _, s := range m.GetSlots() {
		out.Slots = append(out.Slots, xdp.SlotState{
			Index: s.GetIndex(), Seq: s.GetSeq(), Bitmap: s.GetBitmap(), Elements: int(s.GetElements()), Op: wire.Op(s.GetOp()), Flags: wire.Flags(s.GetFlags()),
			Complete: s.GetComplete(), Age: s.GetAge().AsDuration(),
		})
	}
	for i, of := range m.GetMembers() {
		addr, err := netip.ParseAddr(of.GetAddress())
		if err != nil {
			return out, fmt.Errorf("members[%d]: %w", i, err)
		}
		out.Members = append(out.Members, xdp.MemberState{Addr: addr, Bits: of.GetBits(), Packets: of.GetPackets(), Silent: of.GetSilent().AsDuration()})
	}
	for i, of := range m.GetLateness() {
		if len(of.GetCounts()) != xdp.LatenessBuckets {
			return out, fmt.Errorf("lateness[%d]: %d buckets, want %d: the appliances are of different versions", i, len(of.GetCounts()), xdp.LatenessBuckets)
		}
		rank := xdp.Lateness{Sum: of.GetSum().AsDuration(), Without: of.GetWithout()}
		copy(rank.Counts[:], of.GetCounts())
		out.Lateness.Ranks = append(out.Lateness.Ranks, rank)
	}
	return out, nil
}
