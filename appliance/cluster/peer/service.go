package peer

import (
	"context"
	"errors"
	"net/netip"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/jobs"
	"spillway/appliance/refusal"
	"spillway/xdp"
)

// Config is what a Service serves.
type Config struct {
	Name, Version string
	Terms         *Terms
	// Aggregator, Plane and Paths are this host's.
	Aggregator jobs.Aggregator
	Plane      Plane
	Paths      jobs.Paths
	// Health says whether workers can reach the data plane, and why not; the channel is closed when that changes.
	Health func() (healthy bool, reason string, changed <-chan struct{})
}

// Service is an appliance as the others of its cluster see it.
type Service struct {
	v1.UnsafePeerServiceServer
	config Config
}

// NewService is the service of this appliance.
func NewService(config Config) *Service { return &Service{config: config} }

// Greet says who this is.
func (s *Service) Greet(context.Context, *v1.GreetRequest) (*v1.GreetResponse, error) {
	term, leads := s.config.Terms.Highest()
	return &v1.GreetResponse{Name: s.config.Name, Version: s.config.Version, Term: term, Leads: leads}, nil
}

// Beat answers a leader's heartbeats until it or the call ends.
func (s *Service) Beat(stream grpc.BidiStreamingServer[v1.BeatRequest, v1.BeatResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	term := first.GetTerm()
	end, err := s.config.Terms.begin(term)
	if err != nil {
		return err
	}
	defer end()
	// Heartbeats come in a goroutine of their own, which ends with the call.
	beats, ended := make(chan struct{}, 1), make(chan error, 1)
	beats <- struct{}{}
	go func() {
		for {
			request, err := stream.Recv()
			if err == nil && request.GetTerm() != term {
				err = refusal.New(codes.InvalidArgument, refusal.BadRequest, "term: a heartbeat of %d in a stream of %d", request.GetTerm(), term)
			}
			if err != nil {
				ended <- err
				return
			}
			select {
			case beats <- struct{}{}:
			default: // one is answered anyway
			}
		}
	}()
	for {
		healthy, reason, changed := s.config.Health()
		select {
		case err := <-ended:
			return err
		case <-stream.Context().Done():
			return context.Cause(stream.Context())
		case <-changed:
			healthy, reason, _ = s.config.Health()
		case <-beats:
			if err := s.config.Terms.beat(term); err != nil {
				return err
			}
		}
		if err := stream.Send(&v1.BeatResponse{Healthy: healthy, Reason: reason}); err != nil {
			return err
		}
	}
}

// AddJob is an order.
func (s *Service) AddJob(ctx context.Context, r *v1.AddJobRequest) (*v1.AddJobResponse, error) {
	if err := s.config.Terms.Admit(r.GetTerm()); err != nil {
		return nil, err
	}
	j, err := job(r.GetJob())
	if err != nil {
		return nil, refusal.New(codes.InvalidArgument, refusal.BadRequest, "job: %w", err)
	}
	if err := s.config.Terms.order(r.GetTerm(), func() error { return s.config.Aggregator.AddJob(ctx, j) }); err != nil {
		return nil, refused(err)
	}
	return &v1.AddJobResponse{}, nil
}

// RemoveJob is an order.
func (s *Service) RemoveJob(ctx context.Context, r *v1.RemoveJobRequest) (*v1.RemoveJobResponse, error) {
	if err := s.config.Terms.Admit(r.GetTerm()); err != nil {
		return nil, err
	}
	id, err := narrow[uint16]("id", r.GetId())
	if err != nil {
		return nil, refusal.New(codes.InvalidArgument, refusal.BadRequest, "%w", err)
	}
	if err := s.config.Terms.order(r.GetTerm(), func() error { return s.config.Aggregator.RemoveJob(ctx, id) }); err != nil {
		return nil, refused(err)
	}
	return &v1.RemoveJobResponse{}, nil
}

// ListInstalled says what is in the aggregator.
func (s *Service) ListInstalled(ctx context.Context, r *v1.ListInstalledRequest) (*v1.ListInstalledResponse, error) {
	if err := s.config.Terms.Admit(r.GetTerm()); err != nil {
		return nil, err
	}
	all, err := s.config.Aggregator.Jobs(ctx)
	if err != nil {
		return nil, refused(err)
	}
	out := &v1.ListInstalledResponse{}
	for i := range all {
		out.Jobs = append(out.Jobs, installed(&all[i]))
	}
	return out, nil
}

// FindPath says which way leads to an address.
func (s *Service) FindPath(ctx context.Context, r *v1.FindPathRequest) (*v1.FindPathResponse, error) {
	if err := s.config.Terms.Admit(r.GetTerm()); err != nil {
		return nil, err
	}
	addr, err := netip.ParseAddr(r.GetAddress())
	if err != nil {
		return nil, refusal.New(codes.InvalidArgument, refusal.BadRequest, "address: %w", err)
	}
	path, err := s.config.Paths.To(ctx, addr)
	if err != nil {
		return nil, refused(err)
	}
	return &v1.FindPathResponse{Ifindex: uint32(path.Ifindex), Interface: path.Interface, Home: path.Home.String(), Mtu: uint32(path.MTU), Mac: path.MAC}, nil
}

// ReadJob reads what there is of a job.
func (s *Service) ReadJob(_ context.Context, r *v1.ReadJobRequest) (*v1.ReadJobResponse, error) {
	out, err := readJob(s.config.Plane, r)
	if err != nil {
		return nil, refused(err)
	}
	return out, nil
}

// ReadUnknown reads the counters of packets of no job.
func (s *Service) ReadUnknown(context.Context, *v1.ReadUnknownRequest) (*v1.ReadUnknownResponse, error) {
	counters, err := s.config.Plane.UnknownJobCounters()
	if err != nil {
		return nil, refused(err)
	}
	return &v1.ReadUnknownResponse{Counters: counters}, nil
}

// refused is an error of the aggregator as the caller can tell it apart.
func refused(err error) error {
	var own *refusal.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, xdp.ErrJobExists):
		return refusal.New(codes.AlreadyExists, refusal.JobExists, "%w", err)
	case errors.Is(err, xdp.ErrNoJob):
		return refusal.New(codes.NotFound, refusal.NoSuchJob, "%w", err)
	}
	return refusal.New(codes.Internal, refusal.DataPlane, "%w", err)
}
