package server_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
)

// TestReflection: tools like grpcurl find the services and what their messages are.
func TestReflection(t *testing.T) {
	r := start(t, nil)
	stream, err := reflectionpb.NewServerReflectionClient(r.overSocket(t)).ServerReflectionInfo(within(t))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(request *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
		if err := stream.Send(request); err != nil {
			t.Fatal(err)
		}
		response, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	var names []string
	for _, service := range ask(list).GetListServicesResponse().GetService() {
		names = append(names, service.GetName())
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{
		"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
		"spillway.v1.ClusterService", "spillway.v1.JobService", "spillway.v1.NodeService", "spillway.v1.WorkerService",
	}, names); diff != "" {
		t.Error(diff)
	}
	file := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "spillway.v1.JobService"}})
	if len(file.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("no descriptor: %v", file)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

// TestHealth: each service serves, and so does the whole.
func TestHealth(t *testing.T) {
	r := start(t, nil)
	client := healthpb.NewHealthClient(r.overTCP(t, r.issue(t, worker("a"))))
	for _, service := range []string{"", "spillway.v1.ClusterService", "spillway.v1.JobService", "spillway.v1.NodeService", "spillway.v1.WorkerService"} {
		if got, err := client.Check(within(t), &healthpb.HealthCheckRequest{Service: service}); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", service, got, err)
		}
	}
}
