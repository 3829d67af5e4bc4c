package fabric

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/p4/client"
	"spillway/p4/pipeline"
)

// target is what a session has found out about the ToR; guarded by Fabric.mu.
type target struct {
	version string // of P4Runtime; empty: was not asked yet
	cookie  uint64
	// readable tells whether registers can be read.
	readable bool
	checked  time.Time
}

// registersReadable tries one.
func (f *Fabric) registersReadable(ctx context.Context, c *client.Client) (bool, error) {
	r, err := f.info.Register(pipeline.RegisterSlotID)
	if err != nil {
		return false, nil // a program without it, as Tofino's may be
	}
	found, err := c.Read(ctx, &p4v1.Entity{Entity: &p4v1.Entity_RegisterEntry{RegisterEntry: &p4v1.RegisterEntry{RegisterId: r.ID, Index: &p4v1.Index{}}}})
	if err != nil && c.Err() != nil {
		return false, err
	}
	return err == nil && len(found) == 1, nil
}

// Describe says what is known of the ToR, and with slots what is in its slots, where the target can be asked. Entries and groups are read, if there is a
// session, and otherwise those that it had last. The job of a group or of a slot is its id as a number, empty for one that is nobody's.
func (f *Fabric) Describe(ctx context.Context, slots bool) (*v1.GetSwitchResponse, error) {
	f.mu.Lock()
	c, have := f.session, f.have
	f.mu.Unlock()
	var occupied []pipeline.Slot
	if c != nil {
		// A ToR that has no pipeline yet has no tables either.
		if found, err := f.read(ctx, c); err == nil {
			have = found
		}
		if slots {
			var err error
			if occupied, err = f.readSlots(ctx, c); err != nil {
				return nil, refusal.New(codes.Unavailable, refusal.SwitchAway, "the slots of the ToR at %s cannot be read: %w", f.config.Target, err)
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := &v1.GetSwitchResponse{
		State: f.state, Reason: f.reason, Since: timestamppb.New(f.since), Target: f.config.Target,
		P4Runtime: f.target.version, PipelineCookie: f.target.cookie, SlotsReadable: f.target.readable,
		Sessions: f.totals.sessions, Pushes: f.totals.pushes, Repairs: f.totals.repairs,
	}
	if !f.target.checked.IsZero() {
		answer.LastCheck = timestamppb.New(f.target.checked)
	}
	if f.limits != nil {
		answer.Slots, answer.Elements = f.limits.Slots, uint32(f.limits.Elements)
	}
	if f.session != nil {
		now, _ := f.session.Arbitration()
		answer.ElectionId, answer.Primary = f.session.ElectionID().String(), now.Primary()
	}
	answer.Tables = f.tables(have)
	answer.Groups = f.groups(have)
	for n, s := range occupied {
		if !s.Free() {
			answer.Occupied = append(answer.Occupied, f.slot(n, s))
		}
	}
	return answer, nil
}

func (f *Fabric) readSlots(ctx context.Context, c *client.Client) ([]pipeline.Slot, error) {
	f.mu.Lock()
	readable := f.target.readable
	f.mu.Unlock()
	if !readable {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	// All slots of a large ToR are half a second's work for it: several at once would keep it from answering for so long that it seems dead.
	select {
	case f.reading <- struct{}{}:
		defer func() { <-f.reading }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	slots, err := pipeline.ReadSlots(ctx, c, f.info)
	var each *client.BatchError
	if errors.As(err, &each) && status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	return slots, err
}

// tables says how many entries each table has and should have; f.mu is held.
func (f *Fabric) tables(have map[pipeline.Key]pipeline.Item) []*v1.Table {
	entries, wanted := map[string]uint32{}, map[string]uint32{}
	for _, item := range have {
		entries[item.Table]++
	}
	seen := map[pipeline.Key]bool{}
	count := func(items []pipeline.Item) {
		for _, item := range items {
			if !seen[item.Key] {
				wanted[item.Table]++
			}
			seen[item.Key] = true
		}
	}
	count(f.hosts)
	for _, j := range f.jobs {
		count(j.items)
	}
	var tables []*v1.Table
	for _, t := range f.info.Tables() {
		if len(t.Keys) > 0 {
			tables = append(tables, &v1.Table{Name: t.Name, Entries: entries[t.Name], Wanted: wanted[t.Name], Size: uint64(t.Size)})
		}
	}
	return tables
}

// groups are the multicast groups, with the jobs that they are to be of; f.mu is held.
func (f *Fabric) groups(have map[pipeline.Key]pipeline.Item) []*v1.Group {
	owners := map[uint16]string{}
	for _, j := range f.jobs {
		owners[j.MulticastGroup] = strconv.Itoa(int(j.ID))
	}
	var groups []*v1.Group
	for _, item := range have {
		if item.Stage() != pipeline.StageGroups {
			continue
		}
		group := &v1.Group{Id: uint32(item.Group()), Job: owners[item.Group()]}
		for _, port := range item.Ports() {
			group.Ports = append(group.Ports, uint32(port))
		}
		groups = append(groups, group)
	}
	slices.SortFunc(groups, func(a, b *v1.Group) int { return int(a.GetId()) - int(b.GetId()) })
	return groups
}

// slot is a slot in the words of its job, if that is known: the key that tells its chunk is the job's. f.mu is held.
func (f *Fabric) slot(index int, s pipeline.Slot) *v1.TorSlot {
	id := uint16(s.Tag >> 16)
	out := &v1.TorSlot{Index: uint32(index), Job: strconv.Itoa(int(id)), Seq: s.ID, Present: ranks(s.Bitmap), Priority: s.Urgency >> 24}
	if j := f.jobs[id]; j != nil {
		out.Seq = s.ID ^ j.Key
		out.Missing = ranks(j.Full() &^ s.Bitmap)
	}
	return out
}

// ranks are the numbers of the bits that are set.
func ranks(bitmap uint64) []uint32 {
	var out []uint32
	for ; bitmap != 0; bitmap &= bitmap - 1 {
		out = append(out, uint32(bits.TrailingZeros64(bitmap)))
	}
	return out
}
