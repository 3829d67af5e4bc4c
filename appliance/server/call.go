package server

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"spillway/appliance/refusal"
)

// call is the stream of one call, which bounds how long it waits for the other side, and holds each request against the table.
//
// gRPC's own send and receive end only with the call, so they run in goroutines that the call stops waiting for; they end when the
// handler has returned, which cancels the stream, and Serve waits for them.
type call struct {
	grpc.ServerStream
	ctx    context.Context
	cancel context.CancelCauseFunc
	gate   *gate
	caller *caller
	method string
	rule   rule
	heard  bool
}

// Context ends with the caller's, with the call's deadline, or when the server goes away; its cause says which.
func (c *call) Context() context.Context { return c.ctx }

// RecvMsg receives a request that is well-formed and allowed.
func (c *call) RecvMsg(into any) error {
	message, ok := into.(proto.Message)
	if !ok {
		return refusal.New(codes.Internal, refusal.Internal, "%s receives a %T, which is no message", short(c.method), into)
	}
	received, err := c.receive()
	if err != nil {
		return err
	}
	if len(received) > c.gate.limits.Message {
		return refusal.New(codes.ResourceExhausted, refusal.TooMany, "the request has %d bytes, more than %d; ask for less, or raise api.limits.message", len(received), c.gate.limits.Message).
			With("bytes", len(received)).With("most", c.gate.limits.Message)
	}
	if err := proto.Unmarshal(received, message); err != nil {
		return refusal.New(codes.InvalidArgument, refusal.BadRequest, "the request is no %s; the caller is perhaps of another version: %w", message.ProtoReflect().Descriptor().FullName(), err)
	}
	if c.rule.request == nil {
		return nil
	}
	if refused := c.rule.request(c.caller, message); refused != nil {
		return refused
	}
	return nil
}

// receive waits for the first message as long as a unary call may take, and for further ones as long as the call.
func (c *call) receive() ([]byte, error) {
	type result struct {
		frame frame
		err   error
	}
	done := make(chan result, 1)
	c.gate.sends.Go(func() {
		var received result
		received.err = c.guarded(func() error { return c.ServerStream.RecvMsg(&received.frame) })
		done <- received
	})
	var late <-chan time.Time
	if !c.heard {
		timer := time.NewTimer(c.gate.limits.Unary)
		defer timer.Stop()
		late = timer.C
	}
	c.heard = true
	select {
	case received := <-done:
		return received.frame.bytes, received.err
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	case <-late:
		return nil, refusal.New(codes.DeadlineExceeded, refusal.TimeOver, "no request came within %v of the call; send it at once", c.gate.limits.Unary)
	}
}

// SendMsg sends a response, and ends the call when its reader stands still.
func (c *call) SendMsg(message any) error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	c.gate.sends.Go(func() { done <- c.guarded(func() error { return c.ServerStream.SendMsg(message) }) })
	timer := time.NewTimer(c.gate.limits.Send)
	defer timer.Stop()
	select {
	case err := <-done:
		if err == nil && c.gate.leaving.Load() && isNotServing(message) {
			// The watcher has heard what it waits for.
			c.cancel(shuttingDown())
		}
		return err
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-timer.C:
		slow := refusal.New(codes.ResourceExhausted, refusal.SlowReader, "nothing of this call was read for %v, and more waits than is kept; read faster, or ask for less", c.gate.limits.Send)
		c.cancel(slow)
		// What waits for this reader is kept by gRPC until the connection ends, so it should end, with time to read why.
		c.caller.connection.closeIn(c.gate.limits.Send)
		return slow
	}
}

// guarded makes a panic an error.
func (c *call) guarded(f func() error) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = c.gate.panicked(c, panicked)
		}
	}()
	return f()
}

func isNotServing(message any) bool {
	health, ok := message.(*grpc_health_v1.HealthCheckResponse)
	return ok && health.GetStatus() == grpc_health_v1.HealthCheckResponse_NOT_SERVING
}
