package xdp

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"spillway/wire"
)

// SlotState is what a slot of a job holds: a chunk of the job's present generation.
type SlotState struct {
	Index    uint32 // in the job's ring: seq mod R
	Seq      uint32
	Bitmap   uint64 // who is in it
	Elements int
	Op       wire.Op
	Flags    wire.Flags
	Complete bool          // the sum and the bitmap are final
	Age      time.Duration // since its first contribution came; exact to a few milliseconds
}

// MemberState is what came from a member of a job since the job was added.
type MemberState struct {
	Addr    netip.Addr
	Bits    uint64
	Packets uint64        // those that carried its bits only, whatever was done with them
	Silent  time.Duration // since the last of them; exact to a few milliseconds, and meaningless without packets
}

// Jobs returns the jobs that are installed, by id, those of processes before this one included. Members of jobs with a
// multicast group have neither MAC nor interface, because the maps do not keep them.
func (a *Aggregator) Jobs() []Job {
	a.mu.Lock()
	defer a.mu.Unlock()
	var jobs []Job
	for _, id := range slices.Sorted(maps.Keys(a.jobs)) {
		jobs = append(jobs, a.jobs[id].job.clone())
	}
	return jobs
}

// clone shares nothing with j.
func (j *Job) clone() Job {
	c := *j
	c.Members = slices.Clone(j.Members)
	for i := range c.Members {
		c.Members[i].MAC = slices.Clone(c.Members[i].MAC)
	}
	if j.Place != nil {
		place := *j.Place
		c.Place = &place
	}
	c.Parent = j.Parent.clone()
	return c
}

// find returns what is installed as a job, which does not change any more.
func (a *Aggregator) find(job uint16) (*installed, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	in := a.jobs[job]
	if in == nil {
		return nil, fmt.Errorf("job %d: %w", job, ErrNoJob)
	}
	return in, nil
}

// Slots returns the slots of a job that hold a chunk, by index, each as it is between two packets. It costs the packets
// nothing, and this process a microsecond or two for each slot of the ring.
func (a *Aggregator) Slots(job uint16) ([]SlotState, error) {
	in, err := a.find(job)
	if err != nil {
		return nil, err
	}
	base := a.config.Slots.base(in.class) + in.slots.first
	tenant := tenantOf(job, in.job.Generation)
	var states []SlotState
	var claimed []uint64
	for i := range in.slots.count {
		s, err := a.slot(base + i)
		if err != nil {
			return nil, fmt.Errorf("read slot %d of job %d: %w", i, job, err)
		}
		if s.Tenant != tenant {
			continue
		}
		states = append(states, SlotState{
			Index: i, Seq: s.Seq, Bitmap: s.Bitmap, Elements: int(s.Elems), Op: wire.Op(s.Op), Flags: wire.Flags(s.Flags), Complete: s.Complete != 0,
		})
		claimed = append(claimed, s.Claimed)
	}
	now, err := a.clock()
	if err != nil {
		return nil, err
	}
	for i := range states {
		states[i].Age = now.since(claimed[i])
	}
	return states, nil
}

// slot reads a slot as it is between two packets: what is read twice in a row while no packet holds the slot was there in
// between, for a slot's sequence numbers and bitmaps only grow.
func (a *Aggregator) slot(index uint32) (slot aggregatorSlot, err error) {
	var last aggregatorSlot
	for range slotReads {
		if err := a.objects.Slots.Lookup(index, &slot); err != nil {
			return slot, err
		}
		if slot.Held == 0 && (slot == last || slot.Tenant == 0) {
			return slot, nil
		}
		last = slot
	}
	return slot, fmt.Errorf("it was held or had changed at each of %d readings: try again", slotReads)
}

// slotReads is how often a slot is read that packets keep changing. One that is changed every microsecond, as the busiest are, is
// at rest for most of the time.
const slotReads = 10_000

// Members returns the members of a job, in the order in which AddJob was given them.
func (a *Aggregator) Members(job uint16) ([]MemberState, error) {
	in, err := a.find(job)
	if err != nil {
		return nil, err
	}
	var perCPU []aggregatorJobCounters
	if err := a.objects.Counters.Lookup(uint32(job), &perCPU); err != nil {
		return nil, fmt.Errorf("read what the members of job %d sent: %w", job, err)
	}
	now, err := a.clock()
	if err != nil {
		return nil, err
	}
	states := make([]MemberState, len(in.job.Members))
	for i, m := range in.job.Members {
		var last uint64
		states[i] = MemberState{Addr: m.Addr, Bits: m.Bits}
		for _, c := range perCPU {
			states[i].Packets += c.Member[i].Packets
			last = max(last, c.Member[i].Last)
		}
		states[i].Silent = now.since(last)
	}
	return states, nil
}

// tenantOf is tenant_of of bpf/maps.h; TestSlots holds it to that.
func tenantOf(job uint16, generation uint8) uint32 {
	return uint32(job)<<16 | uint32(generation)<<8 | 1
}

// An instant is a reading of the kernel's clock of jiffies, which slots and members are stamped with: reading it costs a packet
// next to nothing.
type instant struct {
	jiffies uint64
	tick    time.Duration // of one
}

// since is how long before the instant the stamp was made.
func (i instant) since(stamp uint64) time.Duration { return time.Duration(i.jiffies-stamp) * i.tick }

// clock reads the clock. A process cannot, but the program can.
func (a *Aggregator) clock() (now instant, err error) {
	tick, err := jiffy()
	if err != nil {
		return now, err
	}
	frame := make([]byte, 64)
	verdict, err := a.objects.Clock.Run(&ebpf.RunOptions{Data: frame, DataOut: frame})
	if err == nil && Verdict(verdict) != Pass {
		err = fmt.Errorf("verdict %d", verdict)
	}
	if err != nil {
		return now, fmt.Errorf("run the clock: %w", err)
	}
	return instant{jiffies: binary.NativeEndian.Uint64(frame), tick: tick}, nil
}
