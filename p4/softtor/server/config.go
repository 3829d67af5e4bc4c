package server

import (
	"context"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"spillway/p4/p4info"
)

// SetForwardingPipelineConfig verifies, saves or commits the pipeline. Whatever is refused, what was there before stays.
func (s *Server) SetForwardingPipelineConfig(_ context.Context, request *p4v1.SetForwardingPipelineConfigRequest) (*p4v1.SetForwardingPipelineConfigResponse, error) {
	if err := s.checkDevice(request.GetDeviceId()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.arbiter.checkPrimary(request.GetRole(), request.GetElectionId()); err != nil {
		return nil, err
	}
	if err := s.set(request.GetAction(), request.GetConfig()); err != nil {
		s.log.Warn("pipeline refused", "action", request.GetAction(), "error", err)
		return nil, err
	}
	s.log.Info("pipeline", "action", request.GetAction(), "cookie", request.GetConfig().GetCookie().GetCookie())
	return &p4v1.SetForwardingPipelineConfigResponse{}, nil
}

func (s *Server) set(action p4v1.SetForwardingPipelineConfigRequest_Action, config *p4v1.ForwardingPipelineConfig) error {
	switch action {
	case p4v1.SetForwardingPipelineConfigRequest_COMMIT:
		if config != nil {
			return status.Error(codes.InvalidArgument, "config: COMMIT takes none, it commits what was saved")
		}
		if s.saved == nil {
			return status.Error(codes.NotFound, "no forwarding pipeline config is saved")
		}
		return s.commit(s.saved)
	case p4v1.SetForwardingPipelineConfigRequest_VERIFY, p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_SAVE,
		p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT, p4v1.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT:
	default:
		return status.Errorf(codes.InvalidArgument, "action: %s", action)
	}
	if err := s.verify(config); err != nil || action == p4v1.SetForwardingPipelineConfigRequest_VERIFY {
		return err
	}
	if action == p4v1.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT && s.committed != nil {
		// The program is the same, so all of its state stays, in the data plane too.
		s.committed.config, s.saved = config, nil
		return nil
	}
	state, err := newState(s.config.Info, s.config.Dataplane)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	p := &configured{config, state}
	if action == p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_SAVE {
		s.saved = p
		return nil
	}
	return s.commit(p)
}

// verify wants the pipeline that is built in.
func (s *Server) verify(config *p4v1.ForwardingPipelineConfig) error {
	if config.GetP4Info() == nil {
		return status.Error(codes.InvalidArgument, "config.p4info: there is none")
	}
	if difference := p4info.Difference(s.config.Info.Message(), config.GetP4Info()); difference != "" {
		return status.Errorf(codes.InvalidArgument, "config.p4info: this target runs Spillway's pipeline only: %s", difference)
	}
	return nil
}

// commit makes the data plane run a pipeline: empty, but for what was written since it was saved.
func (s *Server) commit(p *configured) error {
	if err := s.config.Dataplane.Wipe(); err != nil {
		return status.Errorf(codes.Internal, "data plane: %v", err)
	}
	s.committed, s.saved = p, nil
	if err := p.state.goLive(); err != nil {
		return status.Errorf(codes.Internal, "data plane: %v", err)
	}
	return nil
}

// GetForwardingPipelineConfig returns the committed pipeline.
func (s *Server) GetForwardingPipelineConfig(_ context.Context, request *p4v1.GetForwardingPipelineConfigRequest) (*p4v1.GetForwardingPipelineConfigResponse, error) {
	if err := s.checkDevice(request.GetDeviceId()); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.committed == nil {
		return &p4v1.GetForwardingPipelineConfigResponse{}, nil
	}
	there := s.committed.config
	config := &p4v1.ForwardingPipelineConfig{Cookie: there.GetCookie()}
	switch request.GetResponseType() {
	case p4v1.GetForwardingPipelineConfigRequest_ALL:
		config.P4Info, config.P4DeviceConfig = there.GetP4Info(), there.GetP4DeviceConfig()
	case p4v1.GetForwardingPipelineConfigRequest_COOKIE_ONLY:
	case p4v1.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE:
		config.P4Info = there.GetP4Info()
	case p4v1.GetForwardingPipelineConfigRequest_DEVICE_CONFIG_AND_COOKIE:
		config.P4DeviceConfig = there.GetP4DeviceConfig()
	default:
		return nil, status.Errorf(codes.InvalidArgument, "response_type: %s", request.GetResponseType())
	}
	return &p4v1.GetForwardingPipelineConfigResponse{Config: config}, nil
}
