package client_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"go.uber.org/goleak"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/anypb"

	"spillway/p4/client"
	"spillway/p4/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// foreign is a server that is not ours: it answers as it is told. (The client against our own is tested with that, in p4/softtor/server.)
type foreign struct {
	p4v1.UnimplementedP4RuntimeServer
	// end ends the stream channel, with the error sent; say is sent on it.
	end chan error
	say chan *p4v1.StreamMessageResponse

	pipeline *p4v1.ForwardingPipelineConfig
	noConfig error
	actions  []p4v1.SetForwardingPipelineConfigRequest_Action
	set      map[p4v1.SetForwardingPipelineConfigRequest_Action]error
	write    error
	read     []*p4v1.ReadResponse
	hang     bool
}

func (f *foreign) StreamChannel(stream p4v1.P4Runtime_StreamChannelServer) error {
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	answer := m.GetArbitration()
	answer.Status = &spb.Status{}
	if err := stream.Send(&p4v1.StreamMessageResponse{Update: &p4v1.StreamMessageResponse_Arbitration{Arbitration: answer}}); err != nil {
		return err
	}
	for {
		select {
		case err := <-f.end:
			return err
		case m := <-f.say:
			if err := stream.Send(m); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (f *foreign) GetForwardingPipelineConfig(context.Context, *p4v1.GetForwardingPipelineConfigRequest) (*p4v1.GetForwardingPipelineConfigResponse, error) {
	return &p4v1.GetForwardingPipelineConfigResponse{Config: f.pipeline}, f.noConfig
}

func (f *foreign) SetForwardingPipelineConfig(_ context.Context, r *p4v1.SetForwardingPipelineConfigRequest) (*p4v1.SetForwardingPipelineConfigResponse, error) {
	f.actions = append(f.actions, r.GetAction())
	return &p4v1.SetForwardingPipelineConfigResponse{}, f.set[r.GetAction()]
}

func (f *foreign) Write(ctx context.Context, _ *p4v1.WriteRequest) (*p4v1.WriteResponse, error) {
	if f.hang {
		f.end <- status.Error(codes.Aborted, "the switch is on fire")
		<-ctx.Done()
	}
	return &p4v1.WriteResponse{}, f.write
}

func (f *foreign) Read(_ *p4v1.ReadRequest, stream p4v1.P4Runtime_ReadServer) error {
	for _, m := range f.read {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return f.write
}

// session is a session with a server, until the test ends.
func session(t *testing.T, f *foreign) *client.Client {
	t.Helper()
	f.end, f.say = make(chan error, 1), make(chan *p4v1.StreamMessageResponse, 1)
	listener := bufconn.Listen(1 << 16)
	g := grpc.NewServer(grpc.WaitForHandlers(true))
	p4v1.RegisterP4RuntimeServer(g, f)
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	c, err := client.Dial(deadline(t), client.Config{
		Target: "passthrough:foreign", Device: 1, Election: &client.ElectionID{High: 1, Low: 2}, Info: pipeline.Software(),
		Options: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// The end of the stream channel reaches the calls that are pending, and those that follow.
func TestStreamErrorsSurface(t *testing.T) {
	f := &foreign{hang: true}
	c := session(t, f)
	ctx := deadline(t)
	pending := c.Write(ctx, pipelineUpdate())
	<-c.Done()
	_, read := c.Read(ctx)
	_, elect := c.Elect(ctx, &client.ElectionID{Low: 9})
	_, ensure := c.EnsurePipeline(ctx, client.Pipeline{}, false)
	for name, err := range map[string]error{
		"pending write": pending, "read": read, "election": elect, "wait": c.WaitPrimary(ctx), "pipeline": ensure, "the session": c.Err(),
	} {
		var ended *client.SessionError
		if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "the switch is on fire") || name != "the session" && !errors.As(err, &ended) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func pipelineUpdate() *p4v1.Update {
	return &p4v1.Update{Type: p4v1.Update_INSERT, Entity: pipeline.Multicast(1, 1)}
}

func TestOtherEndsOfSessions(t *testing.T) {
	t.Run("server says goodbye", func(t *testing.T) {
		f := &foreign{}
		c := session(t, f)
		f.end <- nil
		<-c.Done()
		if err := c.Write(deadline(t), pipelineUpdate()); err == nil || !strings.Contains(err.Error(), "closed the stream channel") {
			t.Error(err)
		}
	})
	t.Run("server reports an error", func(t *testing.T) {
		f := &foreign{}
		c := session(t, f)
		f.say <- &p4v1.StreamMessageResponse{Update: &p4v1.StreamMessageResponse_Error{Error: &p4v1.StreamError{CanonicalCode: int32(codes.DataLoss), Message: "oops"}}}
		<-c.Done()
		if err := c.Write(deadline(t), pipelineUpdate()); status.Code(err) != codes.DataLoss || !strings.Contains(err.Error(), "oops") {
			t.Error(err)
		}
	})
	t.Run("closed", func(t *testing.T) {
		c := session(t, &foreign{})
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Write(deadline(t), pipelineUpdate()); !errors.Is(err, client.ErrClosed) || !errors.Is(c.Err(), client.ErrClosed) {
			t.Error(err)
		}
	})
	t.Run("call cancelled", func(t *testing.T) {
		c := session(t, &foreign{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Write(ctx, pipelineUpdate()); status.Code(err) != codes.Canceled || c.Err() != nil {
			t.Errorf("%v; the session: %v", err, c.Err())
		}
	})
}

func TestDialErrors(t *testing.T) {
	if _, err := client.Dial(t.Context(), client.Config{Target: "unix:/nothing"}); err == nil {
		t.Error("device 0 was accepted")
	}
	_, err := client.Dial(deadline(t), client.Config{Target: "unix:" + filepath.Join(t.TempDir(), "nothing"), Device: 1})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("nobody there: %v", err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Dial(ctx, client.Config{Target: silent.Addr().String(), Device: 1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody answers: %v", err)
	}
}

func TestEnsurePipelineWhereServersDiffer(t *testing.T) {
	const (
		verify    = p4v1.SetForwardingPipelineConfigRequest_VERIFY
		plain     = p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT
		reconcile = p4v1.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT
	)
	p, err := client.NewPipeline(pipeline.Software(), []byte("device"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := client.NewPipeline(pipeline.Software(), []byte("other"))
	if err != nil || other.Cookie == p.Cookie {
		t.Fatal("two pipelines with one cookie", err)
	}
	with := func(cookie uint64) *p4v1.ForwardingPipelineConfig {
		return &p4v1.ForwardingPipelineConfig{Cookie: &p4v1.ForwardingPipelineConfig_Cookie{Cookie: cookie}}
	}
	type action = p4v1.SetForwardingPipelineConfigRequest_Action
	for _, test := range []struct {
		name    string
		f       foreign
		keep    bool
		actions []action
		code    codes.Code
	}{
		{"none", foreign{}, false, []action{plain}, codes.OK},
		{"none, said as before 1.3", foreign{noConfig: status.Error(codes.FailedPrecondition, "none")}, true, []action{plain}, codes.OK},
		{"the same", foreign{pipeline: with(p.Cookie)}, true, nil, codes.OK},
		{"one without a cookie", foreign{pipeline: &p4v1.ForwardingPipelineConfig{}}, false, []action{verify, plain}, codes.OK},
		{"another", foreign{pipeline: with(other.Cookie)}, false, []action{verify, plain}, codes.OK},
		{"another, that is wrong", foreign{pipeline: with(other.Cookie), set: map[action]error{verify: status.Error(codes.InvalidArgument, "no")}}, false, []action{verify}, codes.InvalidArgument},
		{"another, to keep its state", foreign{pipeline: with(other.Cookie)}, true, []action{reconcile}, codes.OK},
		{"no reconciling", foreign{pipeline: with(1), set: map[action]error{reconcile: status.Error(codes.Unimplemented, "no")}}, true, []action{reconcile, verify, plain}, codes.OK},
		{"cannot be reconciled", foreign{pipeline: with(1), set: map[action]error{reconcile: status.Error(codes.InvalidArgument, "no")}}, true, []action{reconcile}, codes.InvalidArgument},
		{"refused", foreign{set: map[action]error{plain: status.Error(codes.InvalidArgument, "no")}}, false, []action{plain}, codes.InvalidArgument},
		{"unreadable", foreign{noConfig: status.Error(codes.Internal, "no")}, false, nil, codes.Internal},
	} {
		t.Run(test.name, func(t *testing.T) {
			pushed, err := session(t, &test.f).EnsurePipeline(deadline(t), p, test.keep)
			if status.Code(err) != test.code || pushed != (test.code == codes.OK && len(test.actions) > 0) {
				t.Errorf("pushed %v, %v", pushed, err)
			}
			if len(test.f.actions) != len(test.actions) {
				t.Fatalf("actions %v, want %v", test.f.actions, test.actions)
			}
			for n, a := range test.actions {
				if test.f.actions[n] != a {
					t.Errorf("actions %v, want %v", test.f.actions, test.actions)
				}
			}
		})
	}
}

// Errors of a server that names no fields, and of one that does not follow the specification.
func TestErrorsOfOtherServers(t *testing.T) {
	packed := func(messages ...*p4v1.Error) error {
		st := &spb.Status{Code: int32(codes.Unknown)}
		for _, m := range messages {
			detail, err := anypb.New(m)
			if err != nil {
				t.Fatal(err)
			}
			st.Details = append(st.Details, detail)
		}
		return status.FromProto(st).Err()
	}
	table, err := pipeline.Software().Table("job")
	if err != nil {
		t.Fatal(err)
	}
	updates := []*p4v1.Update{pipelineUpdate(), {Type: p4v1.Update_DELETE, Entity: &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: &p4v1.TableEntry{TableId: table.ID}}}}}
	c := session(t, &foreign{write: packed(&p4v1.Error{}, &p4v1.Error{CanonicalCode: int32(codes.NotFound), Message: "Cannot find match entry", Space: "ALL-sswitch-p4org", Code: 3})})
	err = c.Write(deadline(t), updates...)
	var batch *client.BatchError
	if !errors.As(err, &batch) || len(batch.Errors) != 1 {
		t.Fatal(err)
	}
	if e := batch.Errors[0]; e.Index != 1 || e.Name != "job" || e.Code != codes.NotFound || e.Update != p4v1.Update_DELETE || e.SpaceCode != 3 {
		t.Errorf("%+v", e)
	}
	if want := "write: 1 of 2 failed; 1: DELETE job: Cannot find match entry (NotFound)"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if status.Code(err) != codes.NotFound {
		t.Errorf("status %s", status.Code(err))
	}
	for name, f := range map[string]*foreign{
		"fewer details": {write: packed(&p4v1.Error{CanonicalCode: 5})},
		"no details":    {write: status.Error(codes.Unknown, "hm")},
		"all is well":   {write: packed(&p4v1.Error{}, &p4v1.Error{})},
	} {
		err := session(t, f).Write(deadline(t), updates...)
		if errors.As(err, &batch) || status.Code(err) != codes.Unknown {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What could be read comes with the error of what could not.
	found, err := session(t, &foreign{read: []*p4v1.ReadResponse{{Entities: []*p4v1.Entity{updates[0].GetEntity()}}}, write: packed(&p4v1.Error{}, &p4v1.Error{CanonicalCode: 5, Message: "no"})}).
		Read(deadline(t), updates[0].GetEntity(), updates[1].GetEntity())
	if len(found) != 1 || !errors.As(err, &batch) || batch.Op != "read" || batch.Errors[0].Name != "job" {
		t.Errorf("%d entities, %v", len(found), err)
	}
}

func TestElectionIDs(t *testing.T) {
	low := client.ElectionID{Low: 1<<64 - 1}
	if next := low.Next(); next != (client.ElectionID{High: 1}) || low.Compare(next) >= 0 || next.Compare(low) <= 0 || next.Compare(next) != 0 {
		t.Errorf("after %v comes %v", low, next)
	}
	if s := (client.ElectionID{Low: 7}).String(); s != "7" {
		t.Error(s)
	}
	if s := (client.ElectionID{High: 1, Low: 7}).String(); s != "0x10000000000000007" {
		t.Error(s)
	}
}
