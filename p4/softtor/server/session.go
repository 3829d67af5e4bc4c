package server

import (
	"context"
	"errors"
	"io"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxUntold is how many messages wait for a controller that does not read them.
const maxUntold = 64

// session is a controller's stream channel. role and election are the arbiter's.
type session struct {
	role     *role
	election *p4v1.Uint128

	untold chan *p4v1.StreamMessageResponse
	// end makes the stream end with a status.
	end context.CancelCauseFunc
}

// tell sends a message, later. A controller that leaves too many unread loses its session.
func (s *session) tell(m *p4v1.StreamMessageResponse) {
	select {
	case s.untold <- m:
	default:
		s.end(status.Errorf(codes.ResourceExhausted, "%d messages were not read", maxUntold))
	}
}

// errStreamEnded is how a stream ends that the controller ended.
var errStreamEnded = errors.New("the controller ended the stream")

// StreamChannel holds a controller's session.
func (s *Server) StreamChannel(stream p4v1.P4Runtime_StreamChannelServer) error {
	ctx, end := context.WithCancelCause(stream.Context())
	defer end(nil)
	ses := &session{untold: make(chan *p4v1.StreamMessageResponse, maxUntold), end: end}
	if err := s.arbiter.enter(ses); err != nil {
		return err
	}
	defer s.arbiter.leave(ses)

	received := make(chan *p4v1.StreamMessageRequest)
	s.watching.Go(func() { // until the stream ends, which it does when this method returns
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				err = errStreamEnded
			}
			if err != nil {
				end(err)
				return
			}
			select {
			case received <- m:
			case <-ctx.Done():
				return
			}
		}
	})
	for {
		select {
		case m := <-received:
			if err := s.message(ses, m); err != nil {
				return err
			}
		case m := <-ses.untold:
			if err := stream.Send(m); err != nil {
				return err
			}
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, errStreamEnded) {
				return err
			}
			return nil
		}
	}
}

// message handles one of a controller. Only arbitration errors end the stream; others are reported on it.
func (s *Server) message(ses *session, m *p4v1.StreamMessageRequest) error {
	if update := m.GetArbitration(); update != nil {
		return s.arbiter.update(ses, update)
	}
	if ses.role == nil {
		return status.Error(codes.FailedPrecondition, "the first message of a stream channel must be a MasterArbitrationUpdate")
	}
	report := &p4v1.StreamError{CanonicalCode: int32(codes.InvalidArgument), Space: errorSpace}
	switch m.GetUpdate().(type) {
	case *p4v1.StreamMessageRequest_Packet:
		report.Message = "packet: the pipeline has no packet-out"
		report.Details = &p4v1.StreamError_PacketOut{PacketOut: &p4v1.PacketOutError{}}
	case *p4v1.StreamMessageRequest_DigestAck:
		report.Message = "digest_ack: the pipeline has no digests"
		report.Details = &p4v1.StreamError_DigestListAck{DigestListAck: &p4v1.DigestListAckError{}}
	default:
		report.Message = "a message of a kind that is not known"
		report.Details = &p4v1.StreamError_Other{Other: &p4v1.StreamOtherError{}}
	}
	ses.tell(&p4v1.StreamMessageResponse{Update: &p4v1.StreamMessageResponse_Error{Error: report}})
	return nil
}
