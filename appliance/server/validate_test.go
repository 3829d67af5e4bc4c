package server_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

// TestFields: each field that is wrong is named, with what to write instead.
func TestFields(t *testing.T) {
	r := start(t, nil)
	conn := r.overSocket(t)
	create := func(change func(*v1.JobSpec)) *v1.CreateJobRequest {
		spec := &v1.JobSpec{Name: "a", Workers: 2}
		change(spec)
		return &v1.CreateJobRequest{Spec: spec, DryRun: true}
	}
	join := func(change func(*v1.JoinRequest)) *v1.JoinRequest {
		r := &v1.JoinRequest{Job: "a", Address: "10.0.0.7"}
		change(r)
		return r
	}
	long := strings.Repeat("a", 64)
	for _, test := range []struct {
		name, method string
		request      proto.Message
		code         codes.Code
		words        []string
	}{
		{"no spec", v1.JobService_CreateJob_FullMethodName, &v1.CreateJobRequest{}, codes.InvalidArgument, []string{"spec: is missing"}},
		{"no name", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.Name = "" }), codes.InvalidArgument, []string{"spec.name", "name a job"}},
		{"name", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.Name = "A" }), codes.InvalidArgument, []string{"spec.name", `"A"`, "small letters"}},
		{"long name", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.Name = long }), codes.InvalidArgument, []string{"spec.name", "1 to 63"}},
		{"no workers", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.Workers = 0 }), codes.InvalidArgument, []string{"spec.workers", "1 to 64"}},
		{"workers", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.Workers = 65 }), codes.InvalidArgument, []string{"spec.workers: 65", "1 to 64"}},
		{"elements", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.Elements = 33 }), codes.InvalidArgument, []string{"spec.elements: 33", "multiple of 32 from 32 to 832"}},
		{"many elements", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.Elements = 864 }), codes.InvalidArgument, []string{"spec.elements"}},
		{"window", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.Window = 1<<20 + 1 }), codes.InvalidArgument, []string{"spec.window"}},
		{"priority", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.Priority = 128 }), codes.InvalidArgument, []string{"spec.priority", "127"}},
		{"tor", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.Tor = 9 }), codes.InvalidArgument, []string{"spec.tor: 9"}},
		{"publication", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.Publication = -1 }), codes.InvalidArgument, []string{"spec.publication: -1"}},
		{"tor slots", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.TorSlots = 48 }), codes.InvalidArgument, []string{"spec.tor_slots: 48", "power of two"}},
		{"no duration", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.Grace = &durationpb.Duration{Seconds: 1, Nanos: -1} }), codes.InvalidArgument, []string{"spec.grace"}},
		{"negative", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.Silence = durationpb.New(-1) }), codes.InvalidArgument, []string{"spec.silence", "above 0"}},
		{"too long", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.Grace = &durationpb.Duration{Seconds: 315576000000} }), codes.InvalidArgument, []string{"spec.grace", "720h"}},
		{"crossed", v1.JobService_CreateJob_FullMethodName, create(func(s *v1.JobSpec) { s.MinRto, s.MaxRto = durationpb.New(2e9), durationpb.New(1e9) }), codes.InvalidArgument, []string{"spec.min_rto", "above max_rto"}},
		{"delete", v1.JobService_DeleteJob_FullMethodName, &v1.DeleteJobRequest{}, codes.InvalidArgument, []string{"name: is empty"}},
		{"watch", v1.JobService_WatchJobs_FullMethodName, &v1.WatchJobsRequest{Name: "-"}, codes.InvalidArgument, []string{"name: \"-\""}},
		{"slots", v1.NodeService_ListSlots_FullMethodName, &v1.ListSlotsRequest{Job: "a", Limit: 1 << 30}, codes.InvalidArgument, []string{"limit", "10000"}},
		{"events", v1.NodeService_StreamEvents_FullMethodName, &v1.StreamEventsRequest{Job: "a\x1b[2J"}, codes.InvalidArgument, []string{`"a\x1b[2J"`}},
		{"rank", v1.WorkerService_Join_FullMethodName, join(func(r *v1.JoinRequest) { r.Rank = 64 }), codes.OutOfRange, []string{"rank: 64", "0 to 63"}},
		{"resume", v1.WorkerService_Join_FullMethodName, join(func(r *v1.JoinRequest) { r.Resume = &v1.Resume{} }), codes.InvalidArgument, []string{"resume.generation", "leave resume out"}},
		{"long description", v1.WorkerService_Join_FullMethodName, join(func(r *v1.JoinRequest) { r.Description = strings.Repeat("x", 257) }), codes.InvalidArgument, []string{"description", "257"}},
		{"description for a terminal", v1.WorkerService_Join_FullMethodName, join(func(r *v1.JoinRequest) { r.Description = "host\x1b[2J" }), codes.InvalidArgument, []string{"description", "byte 4"}},
		{"no part", v1.WorkerService_Leave_FullMethodName, &v1.LeaveRequest{Job: "a"}, codes.InvalidArgument, []string{"part: is missing"}},
		{"part", v1.WorkerService_Leave_FullMethodName, &v1.LeaveRequest{Job: "a", Part: &v1.Resume{}}, codes.InvalidArgument, []string{"part.generation"}},
		{"health", healthpb.Health_Check_FullMethodName, &healthpb.HealthCheckRequest{Service: "x"}, codes.NotFound, []string{`"x"`, "spillway.v1.JobService"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := call(within(t), conn, test.method, test.request)
			got := refusal.Of(err)
			if got == nil || got.Code != test.code || got.Reason == "" || got.Reason == refusal.Internal {
				t.Fatalf("%v, want %s", err, test.code)
			}
			for _, word := range test.words {
				if !strings.Contains(got.Text, word) {
					t.Errorf("%q does not say %q", got.Text, word)
				}
			}
		})
	}
}
