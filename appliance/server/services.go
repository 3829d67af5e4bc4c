package server

import (
	"context"

	"google.golang.org/grpc"

	v1 "spillway/appliance/api/spillway/v1"
)

// The services translate between the API's messages and those who do the work. What reaches them has passed the gate: it is well-formed,
// and its caller may ask for it.

type jobService struct {
	v1.UnsafeJobServiceServer
	jobs Jobs
}

type clusterService struct {
	v1.UnsafeClusterServiceServer
	cluster Cluster
}

func (s clusterService) ListNodes(ctx context.Context, _ *v1.ListNodesRequest) (*v1.ListNodesResponse, error) {
	return s.cluster.ListNodes(ctx)
}

func (s clusterService) DrainNode(ctx context.Context, r *v1.DrainNodeRequest) (*v1.DrainNodeResponse, error) {
	return s.cluster.DrainNode(ctx, r.GetName())
}

func (s clusterService) UndrainNode(ctx context.Context, r *v1.UndrainNodeRequest) (*v1.UndrainNodeResponse, error) {
	return s.cluster.UndrainNode(ctx, r.GetName())
}

func (s clusterService) ForgetNode(ctx context.Context, r *v1.ForgetNodeRequest) (*v1.ForgetNodeResponse, error) {
	return s.cluster.ForgetNode(ctx, r.GetName())
}

func (s jobService) CreateJob(ctx context.Context, r *v1.CreateJobRequest) (*v1.CreateJobResponse, error) {
	job, err := s.jobs.Create(ctx, r.GetSpec(), r.GetDryRun())
	if err != nil {
		return nil, err
	}
	return &v1.CreateJobResponse{Job: job}, nil
}

func (s jobService) DeleteJob(ctx context.Context, r *v1.DeleteJobRequest) (*v1.DeleteJobResponse, error) {
	job, err := s.jobs.Delete(ctx, r.GetName(), r.GetForce())
	if err != nil {
		return nil, err
	}
	return &v1.DeleteJobResponse{Job: job}, nil
}

func (s jobService) DrainJob(ctx context.Context, r *v1.DrainJobRequest) (*v1.DrainJobResponse, error) {
	job, err := s.jobs.Drain(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	return &v1.DrainJobResponse{Job: job}, nil
}

func (s jobService) GetJob(_ context.Context, r *v1.GetJobRequest) (*v1.GetJobResponse, error) {
	job, err := s.jobs.Get(r.GetName())
	if err != nil {
		return nil, err
	}
	return &v1.GetJobResponse{Job: job}, nil
}

func (s jobService) ListJobs(context.Context, *v1.ListJobsRequest) (*v1.ListJobsResponse, error) {
	return &v1.ListJobsResponse{Jobs: s.jobs.List()}, nil
}

func (s jobService) WatchJobs(r *v1.WatchJobsRequest, stream grpc.ServerStreamingServer[v1.WatchJobsResponse]) error {
	return s.jobs.Watch(stream.Context(), r.GetName(), stream.Send)
}

type workerService struct {
	v1.UnsafeWorkerServiceServer
	jobs Jobs
}

func (s workerService) Join(r *v1.JoinRequest, stream grpc.ServerStreamingServer[v1.JoinResponse]) error {
	return s.jobs.Join(stream.Context(), r, stream.Send)
}

func (s workerService) Leave(ctx context.Context, r *v1.LeaveRequest) (*v1.LeaveResponse, error) {
	if err := s.jobs.Leave(ctx, r); err != nil {
		return nil, err
	}
	return &v1.LeaveResponse{}, nil
}

type nodeService struct {
	v1.UnsafeNodeServiceServer
	node   Node
	events Events
}

func (s nodeService) GetNode(ctx context.Context, _ *v1.GetNodeRequest) (*v1.GetNodeResponse, error) {
	return s.node.Node(ctx)
}

func (s nodeService) ListWorkers(ctx context.Context, r *v1.ListWorkersRequest) (*v1.ListWorkersResponse, error) {
	return s.node.Workers(ctx, r.GetJob())
}

func (s nodeService) ListSlots(ctx context.Context, r *v1.ListSlotsRequest) (*v1.ListSlotsResponse, error) {
	return s.node.Slots(ctx, r)
}

func (s nodeService) ListLevels(ctx context.Context, r *v1.ListLevelsRequest) (*v1.ListLevelsResponse, error) {
	return s.node.Levels(ctx, r.GetJob())
}

func (s nodeService) ListCounters(ctx context.Context, r *v1.ListCountersRequest) (*v1.ListCountersResponse, error) {
	return s.node.Counters(ctx, r.GetJob())
}

func (s nodeService) GetSwitch(ctx context.Context, r *v1.GetSwitchRequest) (*v1.GetSwitchResponse, error) {
	return s.node.Switch(ctx, r.GetSlots())
}

func (s nodeService) Diagnose(ctx context.Context, r *v1.DiagnoseRequest) (*v1.DiagnoseResponse, error) {
	return s.node.Diagnose(ctx, r.GetJob())
}

func (s nodeService) StreamEvents(r *v1.StreamEventsRequest, stream grpc.ServerStreamingServer[v1.StreamEventsResponse]) error {
	return s.events.Stream(stream.Context(), r, func(event *v1.Event) error {
		return stream.Send(&v1.StreamEventsResponse{Event: event})
	})
}
