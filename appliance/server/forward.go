package server

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"spillway/appliance/refusal"
)

// forwarded is the handler that a call goes to: this appliance's, or one that passes it on to the leader. The request is held against the table here in any case.
func (g *gate) forwarded(who *caller, method string, rule rule, own grpc.StreamHandler) (grpc.StreamHandler, *refusal.Error) {
	if g.leader == nil || !rule.leads {
		return own, nil
	}
	leader, err := g.leader()
	switch {
	case err != nil:
		if refused := refusal.Of(err); refused != nil && refused.Reason != "" {
			return nil, refused
		}
		return nil, refusal.New(codes.Unavailable, refusal.NotLeader, "%w", err)
	case leader == nil:
		return own, nil
	case who.way == overPeers: // which has passed it on already
		return nil, refusal.New(codes.Unavailable, refusal.NotLeader, "another appliance leads the cluster now; call again")
	}
	return func(_ any, stream grpc.ServerStream) error { return pass(method, leader, stream) }, nil
}

// pass passes a call with one request on.
func pass(method string, to *grpc.ClientConn, stream grpc.ServerStream) error {
	request, response, err := messagesOf(method)
	if err != nil {
		return err
	}
	asked := request.New().Interface()
	if err := stream.RecvMsg(asked); err != nil {
		return err
	}
	onward, err := to.NewStream(stream.Context(), &grpc.StreamDesc{ServerStreams: true}, method, grpc.MaxCallRecvMsgSize(largestAnswer))
	if err == nil {
		err = onward.SendMsg(asked)
	}
	if err == nil {
		err = onward.CloseSend()
	}
	if err != nil && !errors.Is(err, io.EOF) { // the end says why
		return leaderSays(err)
	}
	for {
		answer := response.New().Interface()
		if err := onward.RecvMsg(answer); err != nil {
			return leaderSays(err)
		}
		if err := stream.SendMsg(answer); err != nil {
			return err
		}
	}
}

// largestAnswer is above what all slots of a Tofino's memory take.
const largestAnswer = 64 << 20

// leaderSays is the end of a call that was passed on, in the leader's words where there are any.
func leaderSays(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	refused := refusal.Of(err)
	if refused != nil && refused.Reason == "" && refused.Code == codes.Unavailable {
		return refusal.New(codes.Unavailable, refusal.NotLeader, "the appliance that leads the cluster does not answer; call again: another is elected when it is gone (%s)", refused.Text)
	}
	if refused != nil {
		return refused
	}
	return err
}

// messagesOf are the types of a method's messages.
func messagesOf(method string) (request, response protoreflect.MessageType, err error) {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	of, ok := found.(protoreflect.MethodDescriptor)
	if err != nil || !ok {
		return nil, nil, fmt.Errorf("%s is no method that is known: %w", method, err)
	}
	if request, err = protoregistry.GlobalTypes.FindMessageByName(of.Input().FullName()); err != nil {
		return nil, nil, fmt.Errorf("the request of %s: %w", method, err)
	}
	if response, err = protoregistry.GlobalTypes.FindMessageByName(of.Output().FullName()); err != nil {
		return nil, nil, fmt.Errorf("the response of %s: %w", method, err)
	}
	return request, response, nil
}
