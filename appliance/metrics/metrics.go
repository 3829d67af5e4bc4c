package metrics

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	v1 "spillway/appliance/api/spillway/v1"
)

// Metrics are those of an appliance.
type Metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	waits    prometheus.Histogram
}

// New registers all of them, with those of the process and of the Go runtime.
func New(source Source) *Metrics {
	m := &Metrics{
		registry: prometheus.NewPedanticRegistry(),
		calls:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: callsName, Help: callsHelp}, callsLabels),
		waits:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: waitsName, Help: waitsHelp, Buckets: waitsBuckets}),
	}
	m.registry.MustRegister(&collector{source, newSet()}, m.calls, m.waits,
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	return m
}

// Calls counts calls: it is a stats.Handler for the API's server, which sees the refused ones too.
func (m *Metrics) Calls() stats.Handler { return callCounter{m.calls} }

type callCounter struct{ calls *prometheus.CounterVec }

type methodKey struct{}

// TagRPC implements stats.Handler.
func (callCounter) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, methodKey{}, info.FullMethodName)
}

// HandleRPC implements stats.Handler.
func (c callCounter) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if end, ok := s.(*stats.End); ok {
		method, _ := ctx.Value(methodKey{}).(string)
		c.calls.WithLabelValues(known(method), status.Code(end.Error).String()).Inc()
	}
}

// TagConn implements stats.Handler.
func (callCounter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (callCounter) HandleConn(context.Context, stats.ConnStats) {}

// known is the method's name if it is one of the API's; whatever else callers make up is one label, or they could make any number.
func known(method string) string {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	for _, of := range []grpc.ServiceDesc{v1.JobService_ServiceDesc, v1.NodeService_ServiceDesc, v1.WorkerService_ServiceDesc, health.Health_ServiceDesc} {
		if of.ServiceName != service {
			continue
		}
		for _, m := range of.Methods {
			if m.MethodName == name {
				return service + "/" + name
			}
		}
		for _, s := range of.Streams {
			if s.StreamName == name {
				return service + "/" + name
			}
		}
	}
	return "other"
}

// Joining is what a worker's Join does.
type Joining func(ctx context.Context, request *v1.JoinRequest, send func(*v1.JoinResponse) error) error

// Timed is join, with the time counted from the call to the parameters.
func (m *Metrics) Timed(join Joining) Joining {
	return func(ctx context.Context, request *v1.JoinRequest, send func(*v1.JoinResponse) error) error {
		begun := time.Now()
		return join(ctx, request, func(response *v1.JoinResponse) error {
			if response.GetParameters() != nil && request.GetResume() == nil {
				m.waits.Observe(time.Since(begun).Seconds())
			}
			return send(response)
		})
	}
}
