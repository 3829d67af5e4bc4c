package daemon

import (
	"context"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/doctor"
	"spillway/appliance/metrics"
	"spillway/appliance/observe"
	"spillway/appliance/refusal"
)

// seat is where the reign is looked for: by the API, the metrics and the daemon itself. It is empty while another appliance leads.
type seat struct {
	daemon *daemon
	joined func(metrics.Joining) metrics.Joining // measures how long workers wait; nil: nothing does
	now    atomic.Pointer[reign]
}

// taken is the reign, or a refusal that says who leads.
func (s *seat) taken() (*reign, error) {
	if r := s.now.Load(); r != nil {
		return r, nil
	}
	return nil, s.refusal()
}

// refusal says who leads.
func (s *seat) refusal() error {
	if s.daemon.cluster == nil {
		return refusal.New(codes.Unavailable, refusal.ShuttingDown, "spillwayd is starting: call again")
	}
	status := s.daemon.cluster.Status()
	if leader := status.Leader; leader.Term != 0 && leader.Name != s.daemon.config.NodeName() {
		return refusal.New(codes.Unavailable, refusal.NotLeader, "appliance %s leads the cluster: call %s", leader.Name, leader.Workers).With("leader", leader.Workers)
	}
	if status.Trouble != "" {
		return refusal.New(codes.Unavailable, refusal.NotLeader, "no appliance is known to lead the cluster: %s", status.Trouble)
	}
	return refusal.New(codes.Unavailable, refusal.NotLeader, "no appliance leads the cluster right now: one is being elected; call again")
}

// leader is the connection to the appliance that leads; nil and no error: this one.
func (s *seat) leader() (*grpc.ClientConn, error) {
	if s.now.Load() != nil {
		return nil, nil
	}
	if conn := s.daemon.cluster.LeaderConn(); conn != nil {
		return conn, nil
	}
	return nil, s.refusal()
}

// Create implements server.Jobs, as all that follow.
func (s *seat) Create(ctx context.Context, spec *v1.JobSpec, dryRun bool) (*v1.Job, error) {
	r, err := s.taken()
	if err != nil {
		return nil, err
	}
	return r.jobs.Create(ctx, spec, dryRun)
}

// Delete deletes a job.
func (s *seat) Delete(ctx context.Context, name string, force bool) (*v1.Job, error) {
	r, err := s.taken()
	if err != nil {
		return nil, err
	}
	return r.jobs.Delete(ctx, name, force)
}

// Drain drains a job.
func (s *seat) Drain(ctx context.Context, name string) (*v1.Job, error) {
	r, err := s.taken()
	if err != nil {
		return nil, err
	}
	return r.jobs.Drain(ctx, name)
}

// Get returns a job.
func (s *seat) Get(name string) (*v1.Job, error) {
	r, err := s.taken()
	if err != nil {
		return nil, err
	}
	return r.jobs.Get(name)
}

// List returns the jobs; none while another appliance leads.
func (s *seat) List() []*v1.Job {
	if r := s.now.Load(); r != nil {
		return r.jobs.List()
	}
	return nil
}

// Watch follows jobs.
func (s *seat) Watch(ctx context.Context, name string, send func(*v1.WatchJobsResponse) error) error {
	r, err := s.taken()
	if err != nil {
		return err
	}
	return r.jobs.Watch(ctx, name, send)
}

// Join is a worker's call.
func (s *seat) Join(ctx context.Context, request *v1.JoinRequest, send func(*v1.JoinResponse) error) error {
	r, err := s.taken()
	if err != nil {
		return err
	}
	join := metrics.Joining(r.jobs.Join)
	if s.joined != nil {
		join = s.joined(join)
	}
	return join(ctx, request, send)
}

// Leave is a worker's end.
func (s *seat) Leave(ctx context.Context, request *v1.LeaveRequest) error {
	r, err := s.taken()
	if err != nil {
		return err
	}
	return r.jobs.Leave(ctx, request)
}

// Workers are a job's.
func (s *seat) Workers(name string) ([]*v1.Worker, error) {
	r, err := s.taken()
	if err != nil {
		return nil, err
	}
	return r.jobs.Workers(name)
}

// Capacity is what can be given to jobs; nil while another appliance leads.
func (s *seat) Capacity() *v1.Capacity {
	if r := s.now.Load(); r != nil {
		return r.jobs.Capacity()
	}
	return nil
}

// observer is the one that sees all jobs, or this appliance alone while another leads.
func (s *seat) observer() *observe.Observer {
	if r := s.now.Load(); r != nil {
		return r.observer
	}
	return s.daemon.local
}

// Snapshot implements metrics.Source.
func (s *seat) Snapshot(ctx context.Context) *observe.Snapshot { return s.observer().Snapshot(ctx) }

// ListNodes implements server.Cluster.
func (s *seat) ListNodes(context.Context) (*v1.ListNodesResponse, error) {
	r, err := s.taken()
	if err != nil {
		return nil, err
	}
	return &v1.ListNodesResponse{Nodes: s.nodes(r)}, nil
}

// DrainNode moves all jobs away from an appliance.
func (s *seat) DrainNode(ctx context.Context, name string) (*v1.DrainNodeResponse, error) {
	r, err := s.taken()
	if err != nil {
		return nil, err
	}
	moved, err := r.jobs.DrainNode(ctx, name)
	if err != nil {
		return nil, err
	}
	return &v1.DrainNodeResponse{Node: s.node(r, name), Moved: moved}, nil
}

// UndrainNode lets an appliance be given jobs again.
func (s *seat) UndrainNode(_ context.Context, name string) (*v1.UndrainNodeResponse, error) {
	r, err := s.taken()
	if err != nil {
		return nil, err
	}
	if err := r.jobs.UndrainNode(name); err != nil {
		return nil, err
	}
	return &v1.UndrainNodeResponse{Node: s.node(r, name)}, nil
}

// ForgetNode strikes out an appliance that is gone for good.
func (s *seat) ForgetNode(_ context.Context, name string) (*v1.ForgetNodeResponse, error) {
	r, err := s.taken()
	if err != nil {
		return nil, err
	}
	if err := r.jobs.ForgetNode(name); err != nil {
		return nil, err
	}
	return &v1.ForgetNodeResponse{}, nil
}

// nodes are the appliances as jobs see them, with what the cluster knows besides.
func (s *seat) nodes(r *reign) []*v1.ClusterNode {
	all := r.jobs.Nodes()
	if s.daemon.cluster == nil {
		for _, n := range all {
			n.Leader, n.Version = true, s.daemon.options.Version
		}
		return all
	}
	return s.daemon.cluster.Describe(all)
}

func (s *seat) node(r *reign, name string) *v1.ClusterNode {
	for _, n := range s.nodes(r) {
		if n.GetName() == name {
			return n
		}
	}
	return nil
}

// view implements server.Node by whichever observer there is.
type view struct{ *seat }

// Node says what the appliance is and has.
func (v view) Node(ctx context.Context) (*v1.GetNodeResponse, error) { return v.observer().Node(ctx) }

// Workers says what is known of a job's workers.
func (v view) Workers(ctx context.Context, job string) (*v1.ListWorkersResponse, error) {
	return v.observer().Workers(ctx, job)
}

// Slots says which chunks of a job are being summed.
func (v view) Slots(ctx context.Context, request *v1.ListSlotsRequest) (*v1.ListSlotsResponse, error) {
	return v.observer().Slots(ctx, request)
}

// Levels says what each level summed.
func (v view) Levels(ctx context.Context, job string) (*v1.ListLevelsResponse, error) {
	return v.observer().Levels(ctx, job)
}

// Counters returns every counter.
func (v view) Counters(ctx context.Context, job string) (*v1.ListCountersResponse, error) {
	return v.observer().Counters(ctx, job)
}

// Switch says what is known of the ToR.
func (v view) Switch(ctx context.Context, slots bool) (*v1.GetSwitchResponse, error) {
	return v.observer().Switch(ctx, slots)
}

// Diagnose looks for reasons why nothing moves. While another appliance leads, what it finds of jobs and of the ToR is added to what is found here.
func (v view) Diagnose(ctx context.Context, job string) (*v1.DiagnoseResponse, error) {
	if r := v.now.Load(); r != nil {
		return r.observer.Diagnose(ctx, job)
	}
	found, err := v.daemon.local.Diagnose(ctx, "")
	if err != nil {
		return nil, err
	}
	conn := v.daemon.cluster.LeaderConn()
	if conn == nil {
		return found, nil // it says that nobody leads
	}
	of, err := v1.NewNodeServiceClient(conn).Diagnose(ctx, &v1.DiagnoseRequest{Job: job})
	if refused := refusal.Of(err); refused != nil && refused.Reason != "" {
		return nil, refused
	}
	if err != nil {
		found.Findings = append(found.Findings, &v1.Finding{
			Check: "cluster", Level: v1.FindingLevel_FINDING_LEVEL_WARNING, Text: fmt.Sprintf("the leader does not say how its jobs are: %v", err), Remedy: "ask again: when it is gone, another is elected",
		})
		return found, nil
	}
	for _, f := range of.GetFindings() {
		if f.GetJob() != "" || f.GetCheck() == "switch" || f.GetCheck() == "cluster" && f.GetLevel() > v1.FindingLevel_FINDING_LEVEL_OK {
			found.Findings = append(found.Findings, f)
		}
	}
	return found, nil
}

// standing is how the appliance stands with the others.
func (s *seat) standing() *doctor.Cluster {
	status := s.daemon.cluster.Status()
	c := &doctor.Cluster{
		Name: s.daemon.config.Cluster.Name, Leader: status.Leader.Name, Leads: status.Leads, Since: status.Leader.Since, Trouble: status.Trouble,
		Versions: status.Versions, Write: status.Write,
	}
	if r := s.now.Load(); r != nil {
		c.Nodes = s.nodes(r)
	}
	return c
}
