package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"spillway/p4/pipeline"
)

// refusals are the codes with which a server may answer what a controller asks wrongly. Internal and Unknown are bugs; but a batch of which some
// failed is Unknown by the specification, and has details.
var refusals = []codes.Code{
	codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.ResourceExhausted, codes.FailedPrecondition,
	codes.OutOfRange, codes.Unimplemented,
}

func checkRefusal(t *testing.T, request proto.Message, err error) {
	t.Helper()
	st := status.Convert(err)
	if err == nil || slices.Contains(refusals, st.Code()) || st.Code() == codes.Unknown && len(st.Details()) > 0 {
		return
	}
	t.Fatalf("answered with %v\n%s", err, prototext.Format(request))
}

// seedOf are requests as bytes.
func seedOf(f *testing.F, requests ...proto.Message) {
	f.Helper()
	for _, request := range requests {
		b, err := proto.Marshal(request)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// fill writes a group, which reads can find.
func (s *Server) fill(t testing.TB) {
	t.Helper()
	group := &p4v1.MulticastGroupEntry{MulticastGroupId: 1, Replicas: []*p4v1.Replica{{PortKind: &p4v1.Replica_Port{Port: []byte{1}}, Instance: 1}}}
	entity := &p4v1.Entity{Entity: &p4v1.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4v1.PacketReplicationEngineEntry{
		Type: &p4v1.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: group},
	}}}
	if _, err := s.committed.state.update(&p4v1.Update{Type: p4v1.Update_INSERT, Entity: entity}); err != nil {
		t.Fatal(err)
	}
}

// FuzzPipeline: whatever bytes a forwarding pipeline configuration is, what is refused or only verified changes nothing, and what is committed is
// the pipeline that is built in.
func FuzzPipeline(f *testing.F) {
	built := pipeline.Software().Message()
	for action := range p4v1.SetForwardingPipelineConfigRequest_Action(7) {
		seedOf(f,
			&p4v1.SetForwardingPipelineConfigRequest{Action: action},
			&p4v1.SetForwardingPipelineConfigRequest{Action: action, Config: &p4v1.ForwardingPipelineConfig{P4DeviceConfig: []byte("x")}},
			&p4v1.SetForwardingPipelineConfigRequest{Action: action, Config: &p4v1.ForwardingPipelineConfig{P4Info: built}})
	}
	s := fuzzed(f)
	s.fill(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		request := new(p4v1.SetForwardingPipelineConfigRequest)
		if proto.Unmarshal(b, request) != nil {
			return
		}
		// Whom it comes from is for other tests.
		request.DeviceId, request.Role, request.ElectionId = 1, "", &p4v1.Uint128{Low: 1}
		committed, saved, config, before := s.committed, s.saved, s.committed.config, s.written(t)
		_, err := s.SetForwardingPipelineConfig(t.Context(), request)
		checkRefusal(t, request, err)
		if err != nil || request.GetAction() == p4v1.SetForwardingPipelineConfigRequest_VERIFY {
			if s.committed != committed || s.saved != saved || s.committed.config != config || !slices.Equal(before, s.written(t)) {
				t.Fatalf("something is changed by what gave %v\n%s", err, prototext.Format(request))
			}
			return
		}
		if err := s.verify(s.committed.config); err != nil {
			t.Fatalf("another pipeline is committed: %v", err)
		}
		if s.committed == committed && s.committed.config == config {
			s.saved = nil // only saved, which reads would look at from now on
			return
		}
		s.empty(t)
		s.fill(t)
	})
}

// sent is the stream of a read: it keeps nothing but the number of messages and the largest.
type sent struct {
	grpc.ServerStream
	ctx               context.Context
	messages, largest int
}

func (s *sent) Context() context.Context { return s.ctx }

func (s *sent) Send(m *p4v1.ReadResponse) error {
	s.messages++
	s.largest = max(s.largest, len(m.GetEntities()))
	_, err := proto.Marshal(m)
	return err
}

// FuzzRead: whatever bytes a read request is, nothing changes by it, and its answer comes in messages of a bounded size.
func FuzzRead(f *testing.F) {
	s := fuzzed(f)
	s.fill(f)
	info := pipeline.Software()
	var entities []*p4v1.Entity
	for _, t := range info.Tables() {
		entities = append(entities, &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: &p4v1.TableEntry{TableId: t.ID}}},
			&p4v1.Entity{Entity: &p4v1.Entity_DirectCounterEntry{DirectCounterEntry: &p4v1.DirectCounterEntry{TableEntry: &p4v1.TableEntry{TableId: t.ID}}}})
	}
	for _, c := range info.Counters() {
		entities = append(entities, &p4v1.Entity{Entity: &p4v1.Entity_CounterEntry{CounterEntry: &p4v1.CounterEntry{CounterId: c.ID, Index: &p4v1.Index{Index: 3}}}})
	}
	for _, e := range append(entities, &p4v1.Entity{}, &p4v1.Entity{Entity: &p4v1.Entity_RegisterEntry{RegisterEntry: &p4v1.RegisterEntry{}}},
		&p4v1.Entity{Entity: &p4v1.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4v1.PacketReplicationEngineEntry{}}}) {
		seedOf(f, &p4v1.ReadRequest{DeviceId: 1, Entities: []*p4v1.Entity{e}})
	}
	seedOf(f, &p4v1.ReadRequest{DeviceId: 2}, &p4v1.ReadRequest{DeviceId: 1, Role: "x", Entities: entities})
	f.Fuzz(func(t *testing.T, b []byte) {
		request := new(p4v1.ReadRequest)
		if proto.Unmarshal(b, request) != nil {
			return
		}
		before := s.written(t)
		stream := &sent{ctx: t.Context()}
		checkRefusal(t, request, s.Read(request, stream))
		if stream.largest > maxEntitiesSent || stream.messages > maxFound/maxEntitiesSent {
			t.Fatalf("%d messages, the largest of %d entities\n%s", stream.messages, stream.largest, prototext.Format(request))
		}
		if !slices.Equal(before, s.written(t)) {
			t.Fatalf("a read changed something\n%s", prototext.Format(request))
		}
	})
}

// talk is a stream channel on which a controller sends what it has to say, and ends it.
type talk struct {
	grpc.ServerStream
	ctx  context.Context
	says []*p4v1.StreamMessageRequest
}

func (c *talk) Context() context.Context { return c.ctx }

func (c *talk) Send(*p4v1.StreamMessageResponse) error { return nil }

func (c *talk) Recv() (*p4v1.StreamMessageRequest, error) {
	if len(c.says) == 0 {
		return nil, io.EOF
	}
	m := c.says[0]
	c.says = c.says[1:]
	return m, nil
}

// FuzzStream: whatever a second controller says, it is heard or refused, nothing is left of it but the roles that it named, and it takes the place
// of the first only with an election id that is not lower.
func FuzzStream(f *testing.F) {
	arbitration := func(device uint64, role string, low uint64) *p4v1.StreamMessageRequest {
		m := &p4v1.MasterArbitrationUpdate{DeviceId: device, ElectionId: &p4v1.Uint128{Low: low}}
		if role != "" {
			m.Role = &p4v1.Role{Name: role}
		}
		return &p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_Arbitration{Arbitration: m}}
	}
	packet := &p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_Packet{Packet: &p4v1.PacketOut{Payload: []byte("x")}}}
	digest := &p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_DigestAck{DigestAck: &p4v1.DigestListAck{DigestId: 1}}}
	for _, says := range [][]*p4v1.StreamMessageRequest{
		{packet}, {{}}, {arbitration(2, "", 1)}, {arbitration(1, "", 4), packet, digest, {}}, {arbitration(1, "", 5)}, {arbitration(1, "", 6), arbitration(1, "", 4)},
		{arbitration(1, "backup", 9), arbitration(1, "", 9)}, slices.Repeat([]*p4v1.StreamMessageRequest{arbitration(1, "", 4), packet}, 80),
	} {
		var b bytes.Buffer
		for _, m := range says {
			if _, err := protodelim.MarshalTo(&b, m); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(b.Bytes())
	}
	s := fuzzed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &talk{ctx: t.Context()}
		mayLead := false
		for r := bytes.NewReader(b); ; {
			m := new(p4v1.StreamMessageRequest)
			if err := protodelim.UnmarshalFrom(r, m); err != nil {
				break
			}
			a := m.GetArbitration()
			mayLead = mayLead || a != nil && a.GetRole().GetName() == "" && compare(a.GetElectionId(), &p4v1.Uint128{Low: 5}) >= 0
			c.says = append(c.says, m)
		}
		// Election ids are remembered for ever, so that each input has a server's arbiter of its own.
		s.arbiter = newArbiter(1, s.log, s.finishWrites)
		first := &session{untold: make(chan *p4v1.StreamMessageResponse, 1024), end: func(error) {}}
		err := errors.Join(s.arbiter.enter(first), s.arbiter.update(first, &p4v1.MasterArbitrationUpdate{DeviceId: 1, ElectionId: &p4v1.Uint128{Low: 5}}))
		if err != nil {
			t.Fatal(err)
		}
		err = s.StreamChannel(c)
		s.watching.Wait()
		if st := status.Convert(err); err != nil && !slices.Contains(refusals, st.Code()) {
			t.Fatalf("the stream ended with %v", err)
		}
		if len(s.arbiter.sessions) != 1 || len(s.arbiter.roles) > maxRoles || len(s.arbiter.roles[""].live) != 1 {
			t.Fatalf("%d sessions and %d roles are left", len(s.arbiter.sessions), len(s.arbiter.roles))
		}
		if !mayLead && s.arbiter.roles[""].primary != first {
			t.Fatal("the first controller is no longer primary")
		}
	})
}
