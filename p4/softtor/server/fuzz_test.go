package server

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"spillway/p4/pipeline"
	"spillway/p4/softtor/dataplane"
)

// fuzzed is a server with a pipeline over a data plane in the kernel, whose controller is primary with election id 1. Its ports are made up: no interface
// is needed to write tables.
func fuzzed(f *testing.F) *Server {
	f.Helper()
	dp, err := dataplane.Load(dataplane.Config{Slots: 64, Elements: 32})
	if err != nil {
		f.Fatalf("%+v", err)
	}
	f.Cleanup(func() {
		if err := dp.Close(); err != nil {
			f.Error(err)
		}
	})
	s, err := New(Config{Device: 1, Info: pipeline.Software(), Dataplane: somePorts{dp}})
	if err != nil {
		f.Fatal(err)
	}
	primary := &session{untold: make(chan *p4v1.StreamMessageResponse, maxUntold), end: func(error) {}}
	if err := s.arbiter.enter(primary); err != nil {
		f.Fatal(err)
	}
	if err := s.arbiter.update(primary, &p4v1.MasterArbitrationUpdate{DeviceId: 1, ElectionId: &p4v1.Uint128{Low: 1}}); err != nil {
		f.Fatal(err)
	}
	_, err = s.SetForwardingPipelineConfig(context.Background(), &p4v1.SetForwardingPipelineConfigRequest{
		DeviceId: 1, ElectionId: &p4v1.Uint128{Low: 1}, Action: p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		Config: &p4v1.ForwardingPipelineConfig{P4Info: pipeline.Software().Message()},
	})
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// somePorts is a data plane that says that it has ports.
type somePorts struct{ *dataplane.Dataplane }

func (somePorts) Ports() []dataplane.Port { return []dataplane.Port{0, 1, 2, 3, 4, 64} }

// empty deletes all that was written. (Pushing the pipeline again would clear thousands of counters each time.)
func (s *Server) empty(t testing.TB) {
	t.Helper()
	for _, written := range s.written(t) {
		e := new(p4v1.Entity)
		if err := proto.Unmarshal([]byte(written), e); err != nil {
			t.Fatal(err)
		}
		if _, err := s.committed.state.update(&p4v1.Update{Type: p4v1.Update_DELETE, Entity: e}); err != nil {
			t.Fatalf("what was read cannot be deleted: %v\n%s", err, prototext.Format(e))
		}
	}
}

// written is all that was written, as text.
func (s *Server) written(t testing.TB) []string {
	t.Helper()
	found, refusals, err := s.collect([]*p4v1.Entity{
		{Entity: &p4v1.Entity_TableEntry{TableEntry: &p4v1.TableEntry{}}},
		{Entity: &p4v1.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4v1.PacketReplicationEngineEntry{
			Type: &p4v1.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: &p4v1.MulticastGroupEntry{}},
		}}},
	})
	if err != nil || batchStatus("", refusals) != nil {
		t.Fatal(err, refusals)
	}
	var out []string
	for _, e := range found {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	slices.Sort(out)
	return out
}

// FuzzWrite: whatever bytes a write request is, nothing panics; what is refused changed nothing, and in a batch of which some is
// refused only what was made is there; what is there can be read, and written again as it was read.
func FuzzWrite(f *testing.F) {
	job := pipeline.Job{
		ID: 1, Index: 1, Home: netip.MustParseAddrPort("10.77.0.254:9696"), HomePort: 64, TorAddr: netip.MustParseAddr("10.77.0.253"),
		Group: netip.MustParseAddr("239.1.2.3"), MulticastGroup: 1, WorkerPort: 9800, Region: &pipeline.Region{Base: 16, Slots: 16},
		Workers: []pipeline.Worker{{Addr: netip.MustParseAddr("10.77.0.1"), Port: 1, Bits: 1}, {Addr: netip.MustParseAddr("10.77.0.2"), Port: 2, Bits: 2}},
	}
	inserts, err := pipeline.Entries(pipeline.Software(), job)
	if err != nil {
		f.Fatal(err)
	}
	removals, err := pipeline.Removal(pipeline.Software(), job)
	if err != nil {
		f.Fatal(err)
	}
	seed := func(updates ...*p4v1.Update) {
		for atomicity := range p4v1.WriteRequest_Atomicity(3) {
			b, err := proto.Marshal(&p4v1.WriteRequest{Updates: updates, Atomicity: atomicity})
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	seed(inserts...)
	seed(append(slices.Clone(inserts), removals...)...)
	seed(append(slices.Clone(inserts), inserts[0])...)
	for _, u := range inserts {
		seed(u)
		seed(u, &p4v1.Update{Type: p4v1.Update_MODIFY, Entity: u.GetEntity()}, &p4v1.Update{Type: p4v1.Update_DELETE, Entity: u.GetEntity()})
	}
	s := fuzzed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		request := new(p4v1.WriteRequest)
		if proto.Unmarshal(b, request) != nil {
			return
		}
		// Whom it comes from is for other tests.
		request.DeviceId, request.Role, request.ElectionId = 1, "", &p4v1.Uint128{Low: 1}
		s.empty(t)
		_, err := s.Write(context.Background(), request)
		made := statuses(t, request, err)
		after := s.written(t)
		// The same one by one, leaving out what was refused.
		s.empty(t)
		for n, u := range request.GetUpdates() {
			if !made[n] {
				continue
			}
			if _, err := s.committed.state.update(u); err != nil {
				t.Fatalf("update %d was made, but alone: %v\n%s", n, err, prototext.Format(request))
			}
		}
		if again := s.written(t); !slices.Equal(after, again) {
			t.Fatalf("something that was refused left something\n%s", prototext.Format(request))
		}
		s.empty(t)
		for _, entity := range after {
			e := new(p4v1.Entity)
			if err := proto.Unmarshal([]byte(entity), e); err != nil {
				t.Fatal(err)
			}
			if _, err := s.committed.state.update(&p4v1.Update{Type: p4v1.Update_INSERT, Entity: e}); err != nil {
				t.Fatalf("what was read cannot be written: %v\n%s", err, prototext.Format(e))
			}
		}
		if again := s.written(t); !slices.Equal(after, again) {
			t.Fatal("what was read and written is read otherwise")
		}
	})
}

// statuses are which updates of a request were made, from its status.
func statuses(t *testing.T, request *p4v1.WriteRequest, err error) []bool {
	t.Helper()
	made := make([]bool, len(request.GetUpdates()))
	st := status.Convert(err)
	switch {
	case err == nil:
		for n := range made {
			made[n] = true
		}
	case st.Code() == codes.Unknown:
		if len(st.Details()) != len(made) {
			t.Fatalf("%d details of %d updates", len(st.Details()), len(made))
		}
		for n, detail := range st.Details() {
			e, ok := detail.(*p4v1.Error)
			if !ok || codes.Code(e.GetCanonicalCode()) == codes.Internal {
				t.Fatal(fmt.Sprint(detail))
			}
			made[n] = codes.Code(e.GetCanonicalCode()) == codes.OK
		}
		if request.GetAtomicity() == p4v1.WriteRequest_ROLLBACK_ON_ERROR && slices.Contains(made, true) {
			t.Fatal("something is not rolled back")
		}
	}
	return made
}
