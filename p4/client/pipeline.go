package client

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"spillway/p4/p4info"
)

// Pipeline is a P4 program as a target takes it.
type Pipeline struct {
	Info *p4info.Info
	// Device is the target's own form of the program: the compiler's JSON for BMv2; the software ToR needs none.
	Device []byte
	// Cookie tells pipelines apart; NewPipeline makes one of the content.
	Cookie uint64
}

// NewPipeline is a pipeline whose cookie is a hash of its content.
func NewPipeline(info *p4info.Info, device []byte) (Pipeline, error) {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(info.Message())
	if err != nil {
		return Pipeline{}, fmt.Errorf("p4info: %w", err)
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%d\n", len(text))
	hash.Write(text)
	hash.Write(device)
	return Pipeline{info, device, binary.BigEndian.Uint64(hash.Sum(nil))}, nil
}

// Push sets the forwarding pipeline with any of the actions of P4Runtime. COMMIT goes without a pipeline (the zero one).
func (c *Client) Push(ctx context.Context, action p4v1.SetForwardingPipelineConfigRequest_Action, p Pipeline) error {
	request := &p4v1.SetForwardingPipelineConfigRequest{DeviceId: c.config.Device, Role: c.config.Role, ElectionId: c.election(), Action: action}
	if p.Info != nil {
		request.Config = &p4v1.ForwardingPipelineConfig{
			P4Info: p.Info.Message(), P4DeviceConfig: p.Device, Cookie: &p4v1.ForwardingPipelineConfig_Cookie{Cookie: p.Cookie},
		}
	}
	err := c.during(ctx, func(ctx context.Context) error {
		_, err := c.rpc.SetForwardingPipelineConfig(ctx, request)
		return err
	})
	if err != nil {
		return fmt.Errorf("set the pipeline (%s): %w", action, err)
	}
	return nil
}

// Pipeline gets the forwarding pipeline of the device, nil when it has none.
func (c *Client) Pipeline(ctx context.Context, what p4v1.GetForwardingPipelineConfigRequest_ResponseType) (*p4v1.ForwardingPipelineConfig, error) {
	var config *p4v1.ForwardingPipelineConfig
	err := c.during(ctx, func(ctx context.Context) error {
		answer, err := c.rpc.GetForwardingPipelineConfig(ctx, &p4v1.GetForwardingPipelineConfigRequest{DeviceId: c.config.Device, ResponseType: what})
		config = answer.GetConfig()
		return err
	})
	// Servers older than 1.3 say so where newer ones leave the config out.
	if status.Code(err) == codes.FailedPrecondition {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get the pipeline: %w", err)
	}
	return config, nil
}

// EnsurePipeline pushes a pipeline unless the device has the one with its cookie. With keep, entries that are there stay
// (RECONCILE_AND_COMMIT) where the server can do that; otherwise the device is empty after a push.
func (c *Client) EnsurePipeline(ctx context.Context, p Pipeline, keep bool) (pushed bool, err error) {
	there, err := c.Pipeline(ctx, p4v1.GetForwardingPipelineConfigRequest_COOKIE_ONLY)
	if err != nil {
		return false, err
	}
	if there.GetCookie() != nil && there.GetCookie().GetCookie() == p.Cookie {
		return false, nil
	}
	if keep && there != nil {
		err := c.Push(ctx, p4v1.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT, p)
		if status.Code(err) != codes.Unimplemented {
			return err == nil, err
		}
	}
	if there != nil {
		if err := c.makeWay(ctx, p); err != nil {
			return false, err
		}
	}
	err = c.Push(ctx, p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT, p)
	return err == nil, err
}

// makeWay deletes the multicast groups before a pipeline takes another's place, once it is sure that it can. BMv2 forgets that it has
// groups then, but not their members: a group of the same number would send to both.
func (c *Client) makeWay(ctx context.Context, p Pipeline) error {
	if err := c.Push(ctx, p4v1.SetForwardingPipelineConfigRequest_VERIFY, p); err != nil {
		return err
	}
	groups, err := c.Read(ctx, &p4v1.Entity{Entity: &p4v1.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4v1.PacketReplicationEngineEntry{
		Type: &p4v1.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: &p4v1.MulticastGroupEntry{}},
	}}})
	if err != nil && status.Code(err) != codes.Unimplemented {
		return err
	}
	deletions := make([]*p4v1.Update, len(groups))
	for n, group := range groups {
		deletions[n] = &p4v1.Update{Type: p4v1.Update_DELETE, Entity: group}
	}
	return c.Write(ctx, deletions...)
}

// Capabilities is the version of P4Runtime that the server speaks.
func (c *Client) Capabilities(ctx context.Context) (version string, err error) {
	err = c.during(ctx, func(ctx context.Context) error {
		answer, err := c.rpc.Capabilities(ctx, &p4v1.CapabilitiesRequest{DeviceId: c.config.Device})
		version = answer.GetP4RuntimeApiVersion()
		return err
	})
	if err != nil {
		return "", fmt.Errorf("capabilities: %w", err)
	}
	return version, nil
}
