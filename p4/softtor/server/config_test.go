package server_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"spillway/p4/client"
	"spillway/p4/p4info"
	"spillway/p4/pipeline"
)

const (
	verify    = p4v1.SetForwardingPipelineConfigRequest_VERIFY
	save      = p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_SAVE
	commit    = p4v1.SetForwardingPipelineConfigRequest_COMMIT
	verifyGo  = p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT
	reconcile = p4v1.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT
)

// ours is the pipeline with a cookie of its own.
func ours(cookie uint64) client.Pipeline {
	return client.Pipeline{Info: pipeline.Software(), Device: []byte("whatever"), Cookie: cookie}
}

// cookie is that of the committed pipeline, 0 without one.
func cookie(t *testing.T, c *client.Client) uint64 {
	t.Helper()
	config, err := c.Pipeline(deadline(t), p4v1.GetForwardingPipelineConfigRequest_COOKIE_ONLY)
	if err != nil {
		t.Fatal(err)
	}
	if config.GetP4Info() != nil || config.GetP4DeviceConfig() != nil {
		t.Error("more than the cookie came")
	}
	return config.GetCookie().GetCookie()
}

func TestPipelineActions(t *testing.T) {
	tor := newTarget(t)
	c := tor.dial(t, "", 1)
	ctx := deadline(t)
	push := func(action p4v1.SetForwardingPipelineConfigRequest_Action, p client.Pipeline, want codes.Code, then uint64) {
		t.Helper()
		if err := c.Push(ctx, action, p); status.Code(err) != want {
			t.Errorf("%s: %v, want %s", action, err, want)
		}
		if got := cookie(t, c); got != then {
			t.Errorf("after %s the cookie is %d, want %d", action, got, then)
		}
	}
	write := func(kind p4v1.Update_Type, want codes.Code) {
		t.Helper()
		err := c.Write(ctx, update(kind, changed(t, forwardEntry, nil)))
		if status.Code(err) != want {
			t.Errorf("%s: %v, want %s", kind, err, want)
		}
	}
	entries := func() int {
		t.Helper()
		found, err := c.Read(ctx, tableEntity(&p4v1.TableEntry{}))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	frame := ipv4Frame(0x0a4d0101)
	forwards := func(want bool) {
		t.Helper()
		out, err := tor.Process(2, frame)
		if err != nil || (len(out) == 1 && out[0].Port == 1) != want {
			t.Errorf("%d frames leave, %v; forwarded should be %v", len(out), err, want)
		}
	}

	if config, err := c.Pipeline(ctx, p4v1.GetForwardingPipelineConfigRequest_ALL); config != nil || err != nil {
		t.Errorf("before there is any: %v, %v", config, err)
	}
	push(0, ours(1), codes.InvalidArgument, 0)
	push(99, ours(1), codes.InvalidArgument, 0)
	push(verify, ours(1), codes.OK, 0)
	push(verify, client.Pipeline{}, codes.InvalidArgument, 0)
	push(commit, client.Pipeline{}, codes.NotFound, 0)

	// Writes before the first commit wait for it.
	push(save, ours(2), codes.OK, 0)
	write(insert, codes.OK)
	forwards(false)
	push(commit, ours(2), codes.InvalidArgument, 0)
	push(commit, client.Pipeline{}, codes.OK, 2)
	forwards(true)
	push(commit, client.Pipeline{}, codes.NotFound, 2)

	// A reconciling commit keeps everything; another one clears everything.
	push(reconcile, ours(3), codes.OK, 3)
	forwards(true)
	if n := entries(); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
	push(verifyGo, ours(4), codes.OK, 4)
	forwards(false)
	if n := entries(); n != 0 {
		t.Errorf("%d entries, want none", n)
	}

	// What is saved has entries of its own, and goes when something else is committed.
	write(insert, codes.OK)
	push(save, ours(5), codes.OK, 4)
	if n := entries(); n != 0 {
		t.Errorf("%d entries of what is saved, want none", n)
	}
	forwards(true)
	push(commit, client.Pipeline{}, codes.OK, 5)
	forwards(false)
	push(save, ours(6), codes.OK, 5)
	write(insert, codes.OK)
	push(reconcile, ours(7), codes.OK, 7)
	push(commit, client.Pipeline{}, codes.NotFound, 7)
	if n := entries(); n != 0 {
		t.Errorf("%d entries, want none", n)
	}

	for response, want := range map[p4v1.GetForwardingPipelineConfigRequest_ResponseType]*p4v1.ForwardingPipelineConfig{
		p4v1.GetForwardingPipelineConfigRequest_ALL:                      {P4Info: pipeline.Software().Message(), P4DeviceConfig: []byte("whatever")},
		p4v1.GetForwardingPipelineConfigRequest_COOKIE_ONLY:              {},
		p4v1.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE:        {P4Info: pipeline.Software().Message()},
		p4v1.GetForwardingPipelineConfigRequest_DEVICE_CONFIG_AND_COOKIE: {P4DeviceConfig: []byte("whatever")},
	} {
		want.Cookie = &p4v1.ForwardingPipelineConfig_Cookie{Cookie: 7}
		got, err := c.Pipeline(ctx, response)
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", response, err, diff)
		}
	}
	if _, err := c.Pipeline(ctx, 99); status.Code(err) != codes.InvalidArgument {
		t.Errorf("response type 99: %v", err)
	}
}

func TestWrongProgramIsRefused(t *testing.T) {
	_, c := prepared(t)
	before, there := snapshot(t, c), cookie(t, c)
	for name, test := range map[string]struct {
		change func(*configv1.P4Info)
		want   string
	}{
		"size":   {func(p *configv1.P4Info) { p.Tables[0].Size = 99 }, "tables["},
		"table":  {func(p *configv1.P4Info) { p.Tables = p.Tables[1:] }, "is missing"},
		"width":  {func(p *configv1.P4Info) { p.Actions[0].Params[0].Bitwidth++ }, "bitwidth"},
		"action": {func(p *configv1.P4Info) { p.Actions[0].Preamble.Id = 0x01123456 }, "id is "},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := proto.Clone(pipeline.Software().Message()).(*configv1.P4Info)
			test.change(wrong)
			raw := client.Pipeline{Cookie: 66, Info: unchecked(t, wrong)}
			for _, action := range []p4v1.SetForwardingPipelineConfigRequest_Action{verify, save, verifyGo, reconcile} {
				err := c.Push(deadline(t), action, raw)
				if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "config.p4info") || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: %v", action, err)
				}
			}
			if err := c.Push(deadline(t), commit, client.Pipeline{}); status.Code(err) != codes.NotFound {
				t.Errorf("something was saved: %v", err)
			}
		})
	}
	if diff := cmp.Diff(before, snapshot(t, c), protocmp.Transform()); diff != "" || cookie(t, c) != there {
		t.Errorf("what was there did not stay:\n%s", diff)
	}
}

// unchecked is a P4Info, however contradictory.
func unchecked(t *testing.T, message *configv1.P4Info) *p4info.Info {
	t.Helper()
	info, err := p4info.New(&configv1.P4Info{})
	if err != nil {
		t.Fatal(err)
	}
	proto.Merge(info.Message(), message)
	return info
}

func TestEnsurePipeline(t *testing.T) {
	tor := newTarget(t)
	c := tor.primary(t)
	ctx := deadline(t)
	p, err := client.NewPipeline(pipeline.Software(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(ctx, update(insert, changed(t, forwardEntry, nil))); err != nil {
		t.Fatal(err)
	}
	left := func(want int) {
		t.Helper()
		if found, err := c.Read(ctx, tableEntity(&p4v1.TableEntry{})); len(found) != want || err != nil {
			t.Errorf("%d entries, %v; want %d", len(found), err, want)
		}
	}
	if pushed, err := c.EnsurePipeline(ctx, p, false); pushed || err != nil {
		t.Errorf("the same again: pushed %v, %v", pushed, err)
	}
	left(1)
	p.Cookie++
	if pushed, err := c.EnsurePipeline(ctx, p, true); !pushed || err != nil {
		t.Errorf("another, keeping: pushed %v, %v", pushed, err)
	}
	left(1)
	p.Cookie++
	if pushed, err := c.EnsurePipeline(ctx, p, false); !pushed || err != nil {
		t.Errorf("another: pushed %v, %v", pushed, err)
	}
	left(0)
}

// ipv4Frame is an Ethernet frame with an IPv4 packet, not of Spillway, to an address.
func ipv4Frame(dst uint32) []byte {
	frame := make([]byte, 60)
	copy(frame, []byte{2, 0, 0, 0, 0, 0xfe, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 77, 0, 2})
	frame[30], frame[31], frame[32], frame[33] = byte(dst>>24), byte(dst>>16), byte(dst>>8), byte(dst)
	return frame
}
