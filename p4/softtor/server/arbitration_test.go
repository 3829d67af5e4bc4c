package server_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"spillway/p4/client"
)

// controller is a stream channel spoken to message by message.
type controller struct {
	t      *testing.T
	stream p4v1.P4Runtime_StreamChannelClient
	hangUp context.CancelFunc
}

func (tor *target) controller(t *testing.T) *controller {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	stream, err := tor.raw(t).StreamChannel(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &controller{t, stream, cancel}
}

// arbitration is a MasterArbitrationUpdate; election 0 is none.
func arbitration(role string, election uint64) *p4v1.MasterArbitrationUpdate {
	m := &p4v1.MasterArbitrationUpdate{DeviceId: device}
	if role != "" {
		m.Role = &p4v1.Role{Name: role}
	}
	if election != 0 {
		m.ElectionId = &p4v1.Uint128{Low: election}
	}
	return m
}

func (c *controller) send(m *p4v1.MasterArbitrationUpdate) {
	c.t.Helper()
	if err := c.stream.Send(&p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_Arbitration{Arbitration: m}}); err != nil {
		c.t.Fatal(err)
	}
}

// told wants the next message to be that of a status and of a highest election id (0: none).
func (c *controller) told(code codes.Code, highest uint64) {
	c.t.Helper()
	m, err := c.stream.Recv()
	if err != nil {
		c.t.Fatal(err)
	}
	a := m.GetArbitration()
	if a == nil || a.GetDeviceId() != device || codes.Code(a.GetStatus().GetCode()) != code || a.GetElectionId().GetLow() != highest || (a.GetElectionId() == nil) != (highest == 0) {
		c.t.Fatalf("told %v, want %s and %d", m, code, highest)
	}
}

// ended wants the stream to end with a status.
func (c *controller) ended(code codes.Code) {
	c.t.Helper()
	m, err := c.stream.Recv()
	if status.Code(err) != code {
		c.t.Errorf("told %v, error %v; want the end with %s", m, err, code)
	}
}

func TestHighestElectionIsPrimary(t *testing.T) {
	tor := newTarget(t)
	a, b, c := tor.controller(t), tor.controller(t), tor.controller(t)
	a.send(arbitration("", 10))
	a.told(codes.OK, 10)
	b.send(arbitration("", 5)) // backup: only it is told
	b.told(codes.AlreadyExists, 10)
	c.send(arbitration("", 20)) // takes over: everybody is told
	a.told(codes.AlreadyExists, 20)
	b.told(codes.AlreadyExists, 20)
	c.told(codes.OK, 20)
	c.send(arbitration("", 20)) // again: it stays, and everybody is told
	a.told(codes.AlreadyExists, 20)
	b.told(codes.AlreadyExists, 20)
	c.told(codes.OK, 20)
	c.send(arbitration("", 1)) // steps down: nobody is primary, the highest id stays
	a.told(codes.NotFound, 20)
	b.told(codes.NotFound, 20)
	c.told(codes.NotFound, 20)
	b.send(arbitration("", 19)) // less than the highest ever
	b.told(codes.NotFound, 20)
	b.send(arbitration("", 20)) // as high
	a.told(codes.AlreadyExists, 20)
	c.told(codes.AlreadyExists, 20)
	b.told(codes.OK, 20)
	b.hangUp() // the primary leaves
	a.told(codes.NotFound, 20)
	c.told(codes.NotFound, 20)
	a.send(arbitration("", 21)) // the next one
	c.told(codes.AlreadyExists, 21)
	a.told(codes.OK, 21)
	c.hangUp() // a backup leaves: nobody is told, as the next message shows
	a.send(arbitration("", 22))
	a.told(codes.OK, 22)
}

func TestStandby(t *testing.T) {
	tor := newTarget(t)
	a, b := tor.controller(t), tor.controller(t)
	a.send(arbitration("", 0))
	a.told(codes.NotFound, 0)
	zero := arbitration("", 0)
	zero.ElectionId = &p4v1.Uint128{} // 0 is an id, unlike none
	b.send(zero)
	for _, c := range []*controller{a, b} {
		m, err := c.stream.Recv()
		if err != nil || m.GetArbitration().GetElectionId() == nil || (m.GetArbitration().GetStatus().GetCode() == 0) != (c == b) {
			t.Errorf("told %v, %v", m, err)
		}
	}
}

func TestRolesAreApart(t *testing.T) {
	tor := newTarget(t)
	a, b := tor.controller(t), tor.controller(t)
	a.send(arbitration("", 10))
	a.told(codes.OK, 10)
	b.send(arbitration("jobs", 10)) // the same id in another role
	m, err := b.stream.Recv()
	if err != nil || m.GetArbitration().GetStatus().GetCode() != 0 || m.GetArbitration().GetRole().GetName() != "jobs" {
		t.Errorf("told %v, %v", m, err)
	}
}

func TestRefusedArbitration(t *testing.T) {
	config := arbitration("", 3)
	config.Role = &p4v1.Role{Config: &anypb.Any{TypeUrl: "x"}}
	foreign := arbitration("", 3)
	foreign.DeviceId = device + 1
	nobody := arbitration("", 3)
	nobody.DeviceId = 0
	for _, test := range []struct {
		name  string
		first *p4v1.MasterArbitrationUpdate
		m     *p4v1.MasterArbitrationUpdate
		code  codes.Code
	}{
		{"unknown device", nil, foreign, codes.NotFound},
		{"no device", nil, nobody, codes.NotFound},
		{"election id in use", nil, arbitration("", 10), codes.InvalidArgument},
		{"role config", nil, config, codes.InvalidArgument},
		{"other device", arbitration("", 3), foreign, codes.FailedPrecondition},
		{"other role", arbitration("", 3), arbitration("jobs", 3), codes.FailedPrecondition},
		{"other election id in use", arbitration("", 3), arbitration("", 10), codes.InvalidArgument},
		{"later role config", arbitration("", 3), config, codes.InvalidArgument},
	} {
		t.Run(test.name, func(t *testing.T) {
			tor := newTarget(t)
			a, b := tor.controller(t), tor.controller(t)
			a.send(arbitration("", 10))
			a.told(codes.OK, 10)
			if test.first != nil {
				b.send(test.first)
				b.told(codes.AlreadyExists, 10)
			}
			b.send(test.m)
			b.ended(test.code)
			a.send(arbitration("", 10)) // the primary has heard nothing of it
			a.told(codes.OK, 10)
		})
	}
}

func TestOtherStreamMessages(t *testing.T) {
	tor := newTarget(t)
	packet := &p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_Packet{Packet: &p4v1.PacketOut{Payload: []byte{1}}}}
	early := tor.controller(t)
	if err := early.stream.Send(packet); err != nil {
		t.Fatal(err)
	}
	early.ended(codes.FailedPrecondition)
	c := tor.controller(t)
	c.send(arbitration("", 1))
	c.told(codes.OK, 1)
	for name, m := range map[string]*p4v1.StreamMessageRequest{
		"packet": packet,
		"digest": {Update: &p4v1.StreamMessageRequest_DigestAck{DigestAck: &p4v1.DigestListAck{DigestId: 1}}},
		"other":  {},
	} {
		if err := c.stream.Send(m); err != nil {
			t.Fatal(err)
		}
		answer, err := c.stream.Recv()
		e := answer.GetError()
		right := map[string]bool{"packet": e.GetPacketOut() != nil, "digest": e.GetDigestListAck() != nil, "other": e.GetOther() != nil}
		if err != nil || e.GetCanonicalCode() != int32(codes.InvalidArgument) || !right[name] {
			t.Errorf("%s: %v, %v", name, answer, err)
		}
	}
	if err := c.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.stream.Recv(); err == nil || err.Error() != "EOF" {
		t.Errorf("the end of a stream that the controller ended: %v", err)
	}
}

func TestTooManySessions(t *testing.T) {
	tor := newTarget(t)
	for n := range 16 {
		c := tor.controller(t)
		c.send(arbitration("", uint64(100-n)))
		c.told(map[bool]codes.Code{true: codes.OK, false: codes.AlreadyExists}[n == 0], 100)
	}
	one := tor.controller(t)
	one.send(arbitration("", 1))
	one.ended(codes.ResourceExhausted)
	for n := range 15 { // the default one is there
		c := tor.controller(t)
		c.send(arbitration(fmt.Sprint("role", n), 1))
		if _, err := c.stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	one = tor.controller(t)
	one.send(arbitration("role too many", 1))
	one.ended(codes.ResourceExhausted)
}

// Who may write, in the order of the checks that the specification wants.
func TestWhoMayWrite(t *testing.T) {
	tor := newTarget(t)
	raw := tor.raw(t)
	try := func(id uint64, role string, election *p4v1.Uint128, want codes.Code) {
		t.Helper()
		_, err := raw.Write(deadline(t), &p4v1.WriteRequest{DeviceId: id, Role: role, ElectionId: election})
		if status.Code(err) != want {
			t.Errorf("write to device %d, role %q, election %v: %v, want %s", id, role, election, err, want)
		}
		if want == codes.FailedPrecondition || want == codes.OK {
			return
		}
		_, err = raw.SetForwardingPipelineConfig(deadline(t), &p4v1.SetForwardingPipelineConfigRequest{DeviceId: id, Role: role, ElectionId: election})
		if status.Code(err) != want {
			t.Errorf("set the pipeline of device %d, role %q, election %v: %v, want %s", id, role, election, err, want)
		}
	}
	one := &p4v1.Uint128{Low: 1}
	try(device+1, "", one, codes.NotFound)
	try(0, "", one, codes.NotFound)
	try(device, "nobody's", one, codes.NotFound)
	try(device, "", one, codes.PermissionDenied) // there is no primary
	a := tor.dial(t, "", 1)
	try(device, "", nil, codes.PermissionDenied)
	try(device, "", &p4v1.Uint128{Low: 2}, codes.PermissionDenied)
	try(device, "", &p4v1.Uint128{High: 1, Low: 1}, codes.PermissionDenied)
	try(device, "", one, codes.FailedPrecondition) // there is no pipeline
	if _, err := a.Read(deadline(t), everything()...); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("read without a pipeline: %v", err)
	}
	b := tor.dial(t, "", 2)
	try(device, "", one, codes.PermissionDenied) // it is primary no more
	if now, _ := a.Arbitration(); now.Primary() {
		if err := waitFor(deadline(t), a, codes.AlreadyExists); err != nil {
			t.Error(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := waitFor(deadline(t), a, codes.NotFound); err != nil {
		t.Error(err)
	}
	try(device, "", &p4v1.Uint128{Low: 2}, codes.PermissionDenied) // its stream is gone
	now, err := a.Elect(deadline(t), &client.ElectionID{Low: 3})
	if err != nil || !now.Primary() {
		t.Errorf("%s, %v", now, err)
	}
	try(device, "", &p4v1.Uint128{Low: 3}, codes.FailedPrecondition)
}

// waitFor waits until a client has been told a status.
func waitFor(ctx context.Context, c *client.Client, code codes.Code) error {
	for {
		now, changed := c.Arbitration()
		if now.Status == code {
			return nil
		}
		select {
		case <-changed:
		case <-c.Done():
			return c.Err()
		case <-ctx.Done():
			return fmt.Errorf("now %s: %w", now, ctx.Err())
		}
	}
}
