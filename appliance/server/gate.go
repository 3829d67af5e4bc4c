package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"spillway/appliance/refusal"
)

// gate is what every call of every service passes: it finds out who calls, whether they may, how often and for how long; it catches panics,
// and sees to it that what comes back is a refusal.
//
// gRPC's interceptors would come too late for that: a request is decoded before they are asked, and what cannot be decoded is answered in gRPC's
// words. So the gate takes the place of each method's handler, when the service is registered.
type gate struct {
	limits Limits
	socket string
	trust  *atomic.Pointer[trust]
	// peers is the trust of the other appliances' door, and leader says who leads the cluster; nil: this appliance stands alone.
	peers  *atomic.Pointer[trust]
	leader func() (*grpc.ClientConn, error)
	rates  *rates
	log    *slog.Logger
	// lines bounds what callers can write into the log by being refused, and busyLines by calling too often.
	lines, busyLines *rate.Limiter

	// leaving says that health is not what it was, and closed refuses new calls.
	leaving, closed atomic.Bool
	// ends is done when the calls that are there must end, and watches when those of the health service must.
	ends, watches      context.Context
	endAll, endWatches context.CancelCauseFunc
	// sends are sends and receives that their calls no longer wait for.
	sends sync.WaitGroup

	mu     sync.Mutex // over crowds
	crowds map[string]int
}

func newGate(config Config, trust, peers *atomic.Pointer[trust]) *gate {
	g := &gate{
		limits: config.Limits, socket: config.Socket, trust: trust, peers: peers, leader: config.Leader, rates: newRates(config.Limits), log: config.Log,
		lines: rate.NewLimiter(20, 100), busyLines: rate.NewLimiter(1, 1), crowds: map[string]int{},
	}
	g.ends, g.endAll = context.WithCancelCause(context.Background())
	g.watches, g.endWatches = context.WithCancelCause(context.Background())
	return g
}

// registrar registers services with the gate in front of each method.
type registrar struct {
	*grpc.Server
	gate *gate
}

// RegisterService is grpc.ServiceRegistrar.
func (r registrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	gated := *desc
	gated.Methods, gated.Streams = nil, nil
	for _, method := range desc.Methods {
		name := "/" + desc.ServiceName + "/" + method.MethodName
		handler := func(service any, stream grpc.ServerStream) error {
			response, err := method.Handler(service, stream.Context(), stream.RecvMsg, nil)
			if err != nil {
				return err
			}
			return stream.SendMsg(response)
		}
		gated.Streams = append(gated.Streams, grpc.StreamDesc{StreamName: method.MethodName, Handler: r.gate.through(name, true, handler)})
	}
	for _, method := range desc.Streams {
		name := "/" + desc.ServiceName + "/" + method.StreamName
		method.Handler = r.gate.through(name, false, method.Handler)
		gated.Streams = append(gated.Streams, method)
	}
	r.Server.RegisterService(&gated, service)
}

// unknown is called for a method that is not registered.
func (g *gate) unknown(service any, stream grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(stream)
	return g.through(name, true, func(any, grpc.ServerStream) error { return noSuchMethod(name) })(service, stream)
}

func noSuchMethod(name string) *refusal.Error {
	return refusal.New(codes.Unimplemented, refusal.NoSuchMethod, "this appliance has no method %q; the caller is perhaps of another version: compare spillctl version with spillctl status", clip(name))
}

// through puts the gate in front of a handler. Unary calls have a deadline.
func (g *gate) through(method string, unary bool, handler grpc.StreamHandler) grpc.StreamHandler {
	rule, known := table[method]
	if !known {
		rule.who = anyone // to be told so
	}
	return func(service any, stream grpc.ServerStream) (err error) {
		begun := time.Now()
		who, ok := callerOf(stream.Context())
		if !ok {
			return refusal.New(codes.Internal, refusal.Internal, "%w; tell the makers of Spillway", errNobody)
		}
		who.connection.calls()
		defer func() { g.note(stream.Context(), who, method, begun, err) }()
		if refused := g.admit(who, method, rule, begun); refused != nil {
			return refused
		}
		if !known {
			return noSuchMethod(method)
		}
		handler, refused := g.forwarded(who, method, rule, handler)
		if refused != nil {
			return refused
		}
		leave, refused := g.enter(who)
		if refused != nil {
			return refused
		}
		defer leave()

		ends := g.ends
		if rule.health {
			ends = g.watches
		}
		ctx, cancel := context.WithCancelCause(stream.Context())
		defer cancel(nil)
		defer context.AfterFunc(ends, func() { cancel(context.Cause(ends)) })()
		if unary {
			var done context.CancelFunc
			if ctx, done = g.bounded(ctx, method); done != nil {
				defer done()
			}
		}
		call := &call{ServerStream: stream, ctx: ctx, cancel: cancel, gate: g, caller: who, method: method, rule: rule}
		return g.refuse(ctx, method, unary, call.guarded(func() error { return handler(service, call) }))
	}
}

// admit holds a call against what is known before its request is read.
func (g *gate) admit(who *caller, method string, rule rule, now time.Time) *refusal.Error {
	if surplus := who.connection.surplus; surplus != "" {
		who.connection.closeIn(linger)
		return refusal.New(codes.ResourceExhausted, refusal.TooMany, "%s", surplus)
	}
	trust := g.trust.Load()
	if who.way == overPeers { // whose calls are as many as it takes
		trust = g.peers.Load()
	} else if !g.rates.allow(who.account, now) {
		return refusal.New(codes.ResourceExhausted, refusal.TooMany, "more than %g calls a second from %s; call less often, or raise api.limits.calls_per_second",
			g.limits.CallsPerSecond, who.account).With("calls_per_second", g.limits.CallsPerSecond)
	}
	if refused := who.current(trust, now); refused != nil {
		return refused
	}
	if refused := rule.who.admits(who, method, g.socket); refused != nil {
		return refused
	}
	if g.closed.Load() && !rule.health {
		return shuttingDown()
	}
	return nil
}

func shuttingDown() *refusal.Error {
	return refusal.New(codes.Unavailable, refusal.ShuttingDown, "spillwayd is going away; jobs and sums stay: call again when it is back")
}

// enter counts a call that is there, until it leaves.
func (g *gate) enter(who *caller) (leave func(), _ *refusal.Error) {
	crowd := who.crowd()
	g.mu.Lock()
	defer g.mu.Unlock()
	if there := g.crowds[crowd]; there >= g.limits.StreamsPerIdentity {
		return nil, refusal.New(codes.ResourceExhausted, refusal.TooMany, "%d calls of %s are there at once, more are not served; end some, or give callers certificates of their own", there, crowd).
			With("calls", there)
	}
	g.crowds[crowd]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.crowds[crowd]--; g.crowds[crowd] == 0 {
			delete(g.crowds, crowd)
		}
	}, nil
}

// patience is how many times the usual deadline a caller may ask for.
const patience = 6

// bounded gives a call a deadline that has none, or one too far away.
func (g *gate) bounded(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	bound := g.limits.Unary
	if deadline, ok := ctx.Deadline(); ok {
		if time.Until(deadline) <= patience*bound {
			return ctx, nil
		}
		bound *= patience
	}
	return context.WithTimeoutCause(ctx, bound, refusal.New(codes.DeadlineExceeded, refusal.TimeOver,
		"%s took longer than %v; something that it waits for is stuck: spillctl doctor, and the log of spillwayd", short(method), bound))
}

// panicked writes down a panic, and is what the caller hears of it.
func (g *gate) panicked(call *call, panicked any) *refusal.Error {
	g.log.Error("panic", "method", short(call.method), "peer", call.caller.peer, "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
	return refusal.New(codes.Internal, refusal.Internal, "%s ran into a bug; the log of spillwayd has what is needed to find it", short(call.method))
}

// refuse makes a refusal of whatever a handler returned.
func (g *gate) refuse(ctx context.Context, method string, unary bool, err error) error {
	if err == nil && unary {
		return nil
	}
	refused := refusal.Of(err)
	if refused != nil && refused.Reason != "" {
		return refused
	}
	// Why the gate ended the call says more than what the handler made of it, which may be nothing: a stream that is ended has not failed.
	if ended := (*refusal.Error)(nil); errors.As(context.Cause(ctx), &ended) {
		return ended
	}
	if err == nil {
		return nil
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return refusal.New(codes.DeadlineExceeded, refusal.TimeOver, "%s did not end before the caller's deadline; give it longer: %w", short(method), err)
	case errors.Is(err, context.Canceled), refused != nil && refused.Code == codes.Canceled:
		return refusal.New(codes.Canceled, refusal.Cancelled, "the caller ended the call: %w", err)
	case refused != nil:
		return refusal.New(refused.Code, reasonOf(refused.Code), "%s: %s", short(method), refused.Text)
	}
	return refusal.New(codes.Internal, refusal.Internal, "%s failed: %w; the log of spillwayd may say more", short(method), err)
}

// reasonOf is a reason for a code that came from a library.
func reasonOf(code codes.Code) refusal.Reason {
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.OutOfRange:
		return refusal.BadRequest
	case codes.ResourceExhausted:
		return refusal.TooMany
	case codes.Unimplemented:
		return refusal.NoSuchMethod
	case codes.DeadlineExceeded:
		return refusal.TimeOver
	case codes.Unavailable:
		return refusal.ShuttingDown
	}
	return refusal.Internal
}

// note writes a call into the log: a refusal at info, anything else at debug.
func (g *gate) note(ctx context.Context, who *caller, method string, begun time.Time, err error) {
	refused := refusal.Of(err)
	level, code, reason, text := slog.LevelDebug, codes.OK, refusal.Reason(""), ""
	if refused != nil {
		level, code, reason, text = slog.LevelInfo, refused.Code, refused.Reason, refused.Text
		switch {
		case reason == refusal.Internal:
			level = slog.LevelError
		case reason == refusal.Cancelled, reason == refusal.ShuttingDown:
			level = slog.LevelDebug
		case reason == refusal.TooMany && !g.busyLines.Allow(), reason != refusal.TooMany && !g.lines.Allow():
			level = slog.LevelDebug
		}
	}
	if !g.log.Enabled(ctx, level) {
		return
	}
	attributes := []slog.Attr{
		slog.String("method", short(method)), slog.String("peer", who.peer), slog.String("way", who.way.String()), slog.String("identity", who.identity.String()),
		slog.Duration("took", time.Since(begun)), slog.String("code", code.String()),
	}
	if refused != nil {
		attributes = append(attributes, slog.String("reason", string(reason)), slog.String("text", text))
	}
	if agent := metadata.ValueFromIncomingContext(ctx, "user-agent"); len(agent) > 0 {
		attributes = append(attributes, slog.String("agent", clip(agent[0])))
	}
	message := "call"
	if level > slog.LevelDebug {
		message = "call refused"
	}
	g.log.LogAttrs(ctx, level, message, attributes...)
}

// callerOf is who calls. The handshake put it there; a call cannot.
func callerOf(ctx context.Context) (*caller, bool) {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return nil, false
	}
	who, ok := from.AuthInfo.(*caller)
	return who, ok
}

// short is a method's name for people: JobService/CreateJob.
func short(method string) string {
	return clip(method[strings.LastIndexByte(method[:max(0, strings.LastIndexByte(method, '/'))], '.')+1:])
}

// clip makes what a caller wrote fit for a text.
func clip(text string) string {
	const most = 80
	text = strings.ToValidUTF8(text, "?")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
