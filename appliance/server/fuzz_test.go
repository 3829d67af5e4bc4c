package server_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

// The fuzz targets send random bytes as requests over the Unix socket, whose callers may do everything. Whatever they are, the answer is a response, or a
// refusal that has a reason and a text and is no bug's.

// fuzzed calls a method and fails on an answer that should not be. The response is nil when there was a refusal.
func fuzzed(t *testing.T, ctx context.Context, r *rig, method string, request []byte) []byte {
	t.Helper()
	conn := r.overSocket(t)
	response, err := call(ctx, conn, method, request)
	if err == nil {
		return response
	}
	refused := refusal.Of(err)
	if refused == nil || refused.Reason == "" || refused.Reason == refusal.Internal || refused.Text == "" {
		t.Fatalf("%s of %x: %v\nlog:\n%s", method, request, err, r.log)
	}
	return nil
}

func marshalled(t testing.TB, message proto.Message) []byte {
	t.Helper()
	bytes, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// FuzzCreateJob: a job that is admitted can be deleted, and then nothing is given away.
func FuzzCreateJob(f *testing.F) {
	r := start(f, nil)
	for _, spec := range []*v1.JobSpec{
		nil,
		{Name: "a", Workers: 2},
		{Name: "a", Workers: 64, Elements: 832, Window: 31, Priority: 127, Publication: v1.Publication_PUBLICATION_UNICAST},
		{Name: "a", Workers: 1, Tor: v1.TorUse_TOR_USE_SHARED, TorSlots: 64},
		{Name: "a", Workers: 1, MinRto: durationpb.New(1e6), MaxRto: durationpb.New(1e9), Silence: durationpb.New(1e9), Grace: durationpb.New(1e12)},
	} {
		f.Add(marshalled(f, &v1.CreateJobRequest{Spec: spec}))
	}
	before := r.jobs.Capacity()
	f.Fuzz(func(t *testing.T, request []byte) {
		response := fuzzed(t, within(t), r, v1.JobService_CreateJob_FullMethodName, request)
		var created v1.CreateJobResponse
		if err := proto.Unmarshal(response, &created); err != nil {
			t.Fatal(err)
		}
		if name := created.GetJob().GetSpec().GetName(); name != "" && len(r.jobs.List()) > 0 {
			if fuzzed(t, within(t), r, v1.JobService_DeleteJob_FullMethodName, marshalled(t, &v1.DeleteJobRequest{Name: name})) == nil {
				t.Fatalf("job %q was made of %x and cannot be deleted", name, request)
			}
		}
		if after := r.jobs.Capacity(); !proto.Equal(before, after) {
			t.Fatalf("%x leaves behind %v, before was %v", request, after, before)
		}
	})
}

// FuzzJoin: whoever joined is gone again when the call has ended.
func FuzzJoin(f *testing.F) {
	r := start(f, nil)
	r.create(f, "a", 3)
	for _, request := range []*v1.JoinRequest{
		{},
		{Job: "a", Rank: 1, Address: "10.0.0.7", Description: "host 1"},
		{Job: "a", Rank: 3, Address: "10.0.0.7"},
		{Job: "b", Address: "10.0.0.7"},
		{Job: "a", Rank: 2, Address: "10.0.0.7", Resume: &v1.Resume{Generation: 1, Cookie: 7}},
		{Job: "a", Address: "::1"},
	} {
		f.Add(marshalled(f, request))
	}
	f.Fuzz(func(t *testing.T, request []byte) {
		fuzzed(t, within(t), r, v1.WorkerService_Join_FullMethodName, request)
		eventually(t, "nobody is in the job", func() bool {
			job, err := r.jobs.Get("a")
			return err == nil && len(job.GetMissing()) == 3
		})
	})
}

// FuzzLeave: nobody has joined, so nobody can leave, and it is no bug.
func FuzzLeave(f *testing.F) {
	r := start(f, nil)
	r.create(f, "a", 3)
	f.Add(marshalled(f, &v1.LeaveRequest{Job: "a", Rank: 1, Part: &v1.Resume{Generation: 1, Cookie: 7}}))
	f.Add(marshalled(f, &v1.LeaveRequest{Job: "b", Rank: 63}))
	f.Fuzz(func(t *testing.T, request []byte) {
		fuzzed(t, within(t), r, v1.WorkerService_Leave_FullMethodName, request)
	})
}

// FuzzMethods sends anything to any method that changes nothing for good, health and reflection among them.
func FuzzMethods(f *testing.F) {
	r := start(f, nil)
	methods := slices.DeleteFunc(methods(r), func(method string) bool { return method == v1.JobService_CreateJob_FullMethodName })
	for n, method := range methods {
		f.Add(uint8(n), marshalled(f, requests[method]))
	}
	f.Add(uint8(0), []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, method uint8, request []byte) {
		name := methods[int(method)%len(methods)]
		if name == v1.NodeService_StreamEvents_FullMethodName {
			request = answered(t, request)
		}
		fuzzed(t, within(t), r, name, request)
	})
}

// answered is a request for events that ends: who follows a log in which nothing happens hears nothing, and that is no fault.
func answered(t *testing.T, request []byte) []byte {
	var events v1.StreamEventsRequest
	if proto.Unmarshal(request, &events) != nil || !events.GetFollow() {
		return request
	}
	events.Follow = false
	return marshalled(t, &events)
}
