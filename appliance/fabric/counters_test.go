package fabric_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"spillway/appliance/fabric"
	"spillway/appliance/refusal"
	"spillway/p4/pipeline"
)

// counts waits until the events of an index that happened are these: the ToR counts when it gets to a packet.
func (s *subject) counts(index uint8, want map[string]uint64) {
	s.t.Helper()
	ctx := deadline(s.t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := s.Counters(ctx, index)
		happened := map[string]uint64{}
		for name, n := range got.Events {
			if n > 0 {
				happened[name] = n
			}
		}
		diff := cmp.Diff(want, happened)
		if diff == "" && err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("counters of index %d: %v (-want +got):\n%s", index, err, diff)
		}
	}
}

// Counters are sums over reboots, and begin at 0 with a generation, whichever daemon reads them.
func TestCounters(t *testing.T) {
	tor := newTor(t)
	s := run(t, tor.target(), nil)
	job := newJob(1, 1)
	s.SetJob(job)
	s.settled(1, 1)
	for seq := range uint32(3) {
		tor.send(1, contribution(job, 0, seq))
	}
	tor.send(2, contribution(job, 1, 0))
	stranger := newJob(99, 1)
	tor.send(1, contribution(stranger, 0, 0))
	s.counts(1, map[string]uint64{"claimed": 3, "merged": 1})
	s.counts(0, map[string]uint64{"unknown_job": 1})
	s.counts(5, map[string]uint64{})

	d, err := s.Describe(deadline(t), true)
	if err != nil || len(d.GetOccupied()) != 3 || !d.GetSlotsReadable() || d.GetSlots() != slots || d.GetElements() != elements {
		t.Fatalf("%v, %v", d, err)
	}
	first := d.GetOccupied()[0]
	if first.GetIndex() != uint32(job.Region.Base) || first.GetJob() != "1" || first.GetSeq() != 0 || first.GetPriority() != 64 ||
		!cmp.Equal(first.GetPresent(), []uint32{0, 1}) || !cmp.Equal(first.GetMissing(), []uint32{2, 3, 4, 5, 6, 7}) {
		t.Errorf("%v", first)
	}

	tor.kill()
	s.wait(away)
	got, err := s.Counters(deadline(t), 1)
	wantRefusal(t, err, refusal.SwitchAway)
	if got.Events["claimed"] != 3 {
		t.Errorf("what was known before the reboot is %v", got)
	}
	tor.start()
	s.settledAgain(1, 1)
	s.counts(1, map[string]uint64{"claimed": 3, "merged": 1})
	for seq := range uint32(2) {
		tor.send(1, contribution(job, 0, seq))
	}
	s.counts(1, map[string]uint64{"claimed": 5, "merged": 1})

	// The next generation, in the place of this one.
	s.RemoveJob(1)
	next := newJob(1, 2)
	s.SetJob(next)
	s.settled(1, 2)
	s.counts(1, map[string]uint64{})
	tor.send(1, contribution(next, 0, 5))
	tor.send(1, contribution(job, 0, 6))
	s.counts(1, map[string]uint64{"claimed": 1, "stale": 1})
	s.stop()

	// Another daemon goes on with what is there.
	s = prepare(t, tor.target(), nil)
	s.SetJob(next)
	s.begin()
	s.settled(1, 2)
	s.counts(1, map[string]uint64{"claimed": 1, "stale": 1})
	other := newJob(7, 1)
	other.Index = 1
	s.RemoveJob(1)
	s.SetJob(other)
	s.settled(7, 1)
	s.counts(1, map[string]uint64{})
}

// settledAgain waits until a job is in a ToR that was away.
func (s *subject) settledAgain(id uint16, generation uint8) {
	s.t.Helper()
	s.wait(inSync)
	s.settled(id, generation)
}

// rigid refuses to set counters, as a target may, and lets the rest through to the ToR.
func rigid(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	r, ok := req.(*p4v1.WriteRequest)
	if !ok {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	rest := &p4v1.WriteRequest{DeviceId: r.GetDeviceId(), ElectionId: r.GetElectionId(), Atomicity: r.GetAtomicity()}
	st := &spb.Status{Code: int32(codes.Unknown)}
	refused := false
	for _, u := range r.GetUpdates() {
		e := &p4v1.Error{}
		if u.GetEntity().GetCounterEntry() != nil {
			refused, e = true, &p4v1.Error{CanonicalCode: int32(codes.Unimplemented), Message: "counters only count"}
		} else {
			rest.Updates = append(rest.Updates, u)
		}
		detail, err := anypb.New(e)
		if err != nil {
			return err
		}
		st.Details = append(st.Details, detail)
	}
	if err := invoke(ctx, method, rest, reply, cc, opts...); err != nil || !refused {
		return err
	}
	return status.FromProto(st).Err()
}

// Where counters cannot be set, a generation's begin at what they were.
func TestCountersThatCannotBeSet(t *testing.T) {
	tor := newTor(t)
	s := run(t, tor.target(), func(c *fabric.Config) { c.Dial = append(c.Dial, grpc.WithChainUnaryInterceptor(rigid)) })
	job := newJob(1, 1)
	s.SetJob(job)
	s.settled(1, 1)
	tor.send(1, contribution(job, 0, 0))
	s.counts(1, map[string]uint64{"claimed": 1})
	next := newJob(1, 2)
	s.SetJob(next)
	s.settled(1, 2)
	s.counts(1, map[string]uint64{})
	tor.send(1, contribution(next, 0, 1))
	s.counts(1, map[string]uint64{"claimed": 1})
	tor.kill()
	s.wait(away)
	tor.start()
	s.settledAgain(1, 2)
	s.counts(1, map[string]uint64{"claimed": 1})
	tor.send(1, contribution(next, 0, 1))
	s.counts(1, map[string]uint64{"claimed": 2})
	if s.events.of("switch-refused") != 0 {
		t.Errorf("events: %s", s.events)
	}
}

// Describe says what is in the ToR, not what should be.
func TestDescribe(t *testing.T) {
	tor := newTor(t)
	s := run(t, tor.target(), nil)
	job := newJob(2, 1)
	s.SetJob(job)
	s.settled(2, 1)
	s.wait(inSync)
	updates, err := pipeline.Removal(pipeline.Software(), job)
	if err != nil {
		t.Fatal(err)
	}
	tor.meddle(s.election(), updates[0])
	d, err := s.Describe(deadline(t), false)
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string][2]uint32{}
	for _, table := range d.GetTables() {
		tables[table.GetName()] = [2]uint32{table.GetEntries(), table.GetWanted()}
		if table.GetSize() == 0 {
			t.Errorf("table %s has no size", table.GetName())
		}
	}
	want := map[string][2]uint32{
		"forward": {9, 9}, "bridge": {10, 10}, "group": {1, 1}, "publish": {1, 1}, "uplink": {1, 1}, "region": {1, 1}, "job": {1, 1}, "member": {8, 9},
	}
	if diff := cmp.Diff(want, tables); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if len(d.GetGroups()) != 2 || d.GetGroups()[0].GetId() != 2 || d.GetGroups()[0].GetJob() != "2" || len(d.GetGroups()[0].GetPorts()) != 8 ||
		d.GetGroups()[1].GetId() != flood || d.GetGroups()[1].GetJob() != "" {
		t.Errorf("groups %v", d.GetGroups())
	}
	if d.GetState() != inSync || d.GetReason() != "" || !d.GetPrimary() || d.GetElectionId() != "1" || d.GetP4Runtime() != "1.5.0" || d.GetPipelineCookie() == 0 ||
		d.GetSessions() != 1 || d.GetPushes() != 1 || d.GetTarget() != tor.target() || d.GetLastCheck() == nil || d.GetSince() == nil {
		t.Errorf("%v", d)
	}
	tor.kill()
	s.wait(away)
	if d, err := s.Describe(deadline(t), true); err != nil || len(d.GetTables()) != 8 || d.GetPrimary() || d.GetReason() == "" {
		t.Errorf("%v, %v", d, err)
	}
}
