package server

import (
	"context"
	"slices"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Write makes the updates of a batch, in their order. Each is made whole or not at all.
func (s *Server) Write(_ context.Context, request *p4v1.WriteRequest) (*p4v1.WriteResponse, error) {
	if err := s.checkDevice(request.GetDeviceId()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.arbiter.checkPrimary(request.GetRole(), request.GetElectionId()); err != nil {
		return nil, err
	}
	p, err := s.current()
	if err != nil {
		return nil, err
	}
	if n := len(request.GetUpdates()); n > maxBatch {
		return nil, status.Errorf(codes.ResourceExhausted, "updates: %d in one batch, the most is %d", n, maxBatch)
	}
	var refusals []*refusal
	switch request.GetAtomicity() {
	case p4v1.WriteRequest_CONTINUE_ON_ERROR:
		refusals = p.state.writeEach(request.GetUpdates())
	case p4v1.WriteRequest_ROLLBACK_ON_ERROR:
		refusals = p.state.writeAll(request.GetUpdates())
	case p4v1.WriteRequest_DATAPLANE_ATOMIC:
		return nil, status.Error(codes.Unimplemented, "atomicity: packets may see a part of a batch")
	default:
		return nil, status.Errorf(codes.InvalidArgument, "atomicity: %s", request.GetAtomicity())
	}
	if err := batchStatus("updates", refusals); err != nil {
		s.log.Debug("write", "role", request.GetRole(), "error", err)
		return nil, err
	}
	return &p4v1.WriteResponse{}, nil
}

// writeEach makes what can be made.
func (s *state) writeEach(updates []*p4v1.Update) []*refusal {
	refusals := make([]*refusal, len(updates))
	for n, u := range updates {
		if _, err := s.update(u); err != nil {
			refusals[n] = asRefusal(err)
		}
	}
	return refusals
}

// writeAll makes all updates, or none: what was made before the one that cannot be is taken back.
func (s *state) writeAll(updates []*p4v1.Update) []*refusal {
	refusals := make([]*refusal, len(updates))
	undos := make([]func() error, 0, len(updates))
	for n, u := range updates {
		undo, err := s.update(u)
		if err == nil {
			undos = append(undos, undo)
			continue
		}
		for other := range updates {
			refusals[other] = refuse(codes.Aborted, "", "updates", "rolled back, for update %d failed", n)
		}
		refusals[n] = asRefusal(err)
		for made, undo := range slices.Backward(undos) {
			if err := undo(); err != nil {
				refusals[made] = refuse(codes.Internal, "", "updates", "could not be rolled back: %v", err)
			}
		}
		break
	}
	return refusals
}

// Read sends what the requests of a batch ask for, as it is at one moment.
func (s *Server) Read(request *p4v1.ReadRequest, stream p4v1.P4Runtime_ReadServer) error {
	if err := s.checkDevice(request.GetDeviceId()); err != nil {
		return err
	}
	if n := len(request.GetEntities()); n > maxBatch {
		return status.Errorf(codes.ResourceExhausted, "entities: %d in one batch, the most is %d", n, maxBatch)
	}
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-stream.Context().Done():
		return status.FromContextError(stream.Context().Err()).Err()
	}
	found, refusals, err := s.collect(request.GetEntities())
	if err != nil {
		return err
	}
	for some := range slices.Chunk(found, maxEntitiesSent) {
		if err := stream.Send(&p4v1.ReadResponse{Entities: some}); err != nil {
			return err
		}
	}
	return batchStatus("requests", refusals)
}

// collect reads while nothing can be written. What it returns is not changed by later writes.
func (s *Server) collect(requests []*p4v1.Entity) (found []*p4v1.Entity, refusals []*refusal, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, err := s.current()
	if err != nil {
		return nil, nil, err
	}
	refusals = make([]*refusal, len(requests))
	for n, request := range requests {
		before := len(found)
		err := p.state.read(request, func(e *p4v1.Entity) error {
			if len(found) >= maxFound {
				return refuse(codes.ResourceExhausted, "", "entities", "more than %d were found", maxFound)
			}
			found = append(found, e)
			return nil
		})
		if err != nil {
			found, refusals[n] = found[:before], asRefusal(err)
		}
	}
	return found, refusals, nil
}

// read gives the entities that one request asks for.
func (s *state) read(request *p4v1.Entity, found func(*p4v1.Entity) error) error {
	switch e := request.GetEntity().(type) {
	case *p4v1.Entity_TableEntry:
		return s.readTables(e.TableEntry, found)
	case *p4v1.Entity_DirectCounterEntry:
		return s.readDirectCounters(e.DirectCounterEntry, found)
	case *p4v1.Entity_CounterEntry:
		return s.readCounters(e.CounterEntry, found)
	case *p4v1.Entity_RegisterEntry:
		return s.readRegisters(e.RegisterEntry, found)
	case *p4v1.Entity_PacketReplicationEngineEntry:
		return s.readReplication(e.PacketReplicationEngineEntry, found)
	}
	return s.unknownEntity(request)
}
