package server

import (
	"cmp"
	"log/slog"
	"sync"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What an arbiter bears.
const (
	maxSessions     = 64 // of all roles, with those that have not asked for one yet
	maxRoleSessions = 16
	maxRoles        = 16
)

// arbiter keeps who is primary (P4Runtime, "Client Arbitration and Controller Replication").
type arbiter struct {
	device uint64
	log    *slog.Logger
	// finish waits for the writes that have begun.
	finish func()

	turn sync.Mutex // one change at a time; taken before the lock in finish, and before mu
	mu   sync.Mutex // guards what follows
	// closed is why there can be no more sessions.
	closed   error
	sessions map[*session]struct{}
	roles    map[string]*role
}

// role has been asked for at some time. It stays, for its highest election id must be remembered.
type role struct {
	name    string
	live    map[*session]struct{}
	primary *session
	highest *p4v1.Uint128 // of all primaries, nil before the first
}

func newArbiter(device uint64, log *slog.Logger, finish func()) *arbiter {
	return &arbiter{
		device: device, log: log, finish: finish,
		sessions: map[*session]struct{}{},
		roles:    map[string]*role{"": {live: map[*session]struct{}{}}},
	}
}

func compare(a, b *p4v1.Uint128) int {
	return cmp.Or(cmp.Compare(a.GetHigh(), b.GetHigh()), cmp.Compare(a.GetLow(), b.GetLow()))
}

// enter admits a session that has not asked for a role yet.
func (a *arbiter) enter(s *session) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed != nil {
		return a.closed
	}
	if len(a.sessions) >= maxSessions {
		return status.Errorf(codes.ResourceExhausted, "%d stream channels are open", len(a.sessions))
	}
	a.sessions[s] = struct{}{}
	return nil
}

// leave forgets a session; if it was primary, its role is without one.
func (a *arbiter) leave(s *session) {
	a.turn.Lock()
	defer a.turn.Unlock()
	a.mu.Lock()
	delete(a.sessions, s)
	r := s.role
	wasPrimary := false
	if r != nil {
		delete(r.live, s)
		if wasPrimary = r.primary == s; wasPrimary {
			r.primary = nil
			a.log.Info("primary left", "role", r.name, "election_id", s.election)
			for other := range r.live {
				a.advise(other)
			}
		}
	}
	a.mu.Unlock()
	if wasPrimary {
		a.finish()
	}
}

// close ends all sessions, with the given status.
func (a *arbiter) close(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = why
	for s := range a.sessions {
		s.end(why)
	}
}

// update handles a MasterArbitrationUpdate. Its error ends the stream.
func (a *arbiter) update(s *session, m *p4v1.MasterArbitrationUpdate) error {
	a.turn.Lock()
	defer a.turn.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	r, err := a.admit(s, m)
	if err != nil {
		return err
	}
	s.election = m.GetElectionId()
	wasPrimary := r.primary == s
	switch {
	case s.election != nil && (r.highest == nil || compare(s.election, r.highest) >= 0):
		a.promote(r, s)
	case wasPrimary:
		r.primary = nil
		a.log.Info("primary stepped down", "role", r.name, "election_id", s.election)
		a.mu.Unlock()
		a.finish()
		a.mu.Lock()
		for other := range r.live {
			a.advise(other)
		}
	default:
		a.advise(s)
	}
	return nil
}

// admit checks an update, and makes the session one of the role that it asks for.
func (a *arbiter) admit(s *session, m *p4v1.MasterArbitrationUpdate) (*role, error) {
	name := m.GetRole().GetName()
	if s.role == nil && m.GetDeviceId() != a.device {
		return nil, status.Errorf(codes.NotFound, "device_id: there is no device %d, this is %d", m.GetDeviceId(), a.device)
	}
	if s.role != nil && m.GetDeviceId() != a.device {
		return nil, status.Errorf(codes.FailedPrecondition, "device_id: this stream is device %d's, not %d's", a.device, m.GetDeviceId())
	}
	if s.role != nil && name != s.role.name {
		return nil, status.Errorf(codes.FailedPrecondition, "role: this stream is role %q's, not %q's", s.role.name, name)
	}
	if m.GetRole().GetConfig() != nil {
		return nil, status.Error(codes.InvalidArgument, "role.config: there is no scheme for it here; a role without one may do everything")
	}
	r := a.roles[name]
	if r != nil && m.GetElectionId() != nil {
		for other := range r.live {
			if other != s && other.election != nil && compare(other.election, m.GetElectionId()) == 0 {
				return nil, status.Errorf(codes.InvalidArgument, "election_id: %v is another controller's", m.GetElectionId())
			}
		}
	}
	if s.role != nil {
		return r, nil
	}
	if r == nil {
		if len(a.roles) >= maxRoles {
			return nil, status.Errorf(codes.ResourceExhausted, "role: there are %d already", len(a.roles))
		}
		r = &role{name: name, live: map[*session]struct{}{}}
		a.roles[name] = r
	}
	if len(r.live) >= maxRoleSessions {
		return nil, status.Errorf(codes.ResourceExhausted, "role %q has %d stream channels already", name, len(r.live))
	}
	s.role = r
	r.live[s] = struct{}{}
	return r, nil
}

// promote makes a session primary, or lets it stay so: the old one stops, the others are told, writes that have begun are
// finished, and only then the new one may write and is told. The caller holds turn and mu; mu is released meanwhile.
func (a *arbiter) promote(r *role, s *session) {
	hadPrimary := r.primary != nil
	r.primary, r.highest = nil, s.election
	for other := range r.live {
		if other != s {
			a.adviseOf(other, codes.AlreadyExists)
		}
	}
	if hadPrimary {
		a.mu.Unlock()
		a.finish()
		a.mu.Lock()
	}
	r.primary = s
	a.log.Info("primary", "role", r.name, "election_id", s.election)
	a.advise(s)
}

// advise tells a session who is primary now. The caller holds mu.
func (a *arbiter) advise(s *session) {
	switch s.role.primary {
	case s:
		a.adviseOf(s, codes.OK)
	case nil:
		a.adviseOf(s, codes.NotFound)
	default:
		a.adviseOf(s, codes.AlreadyExists)
	}
}

var advice = map[codes.Code]string{
	codes.OK:            "you are primary",
	codes.NotFound:      "there is no primary",
	codes.AlreadyExists: "another controller is primary",
}

func (a *arbiter) adviseOf(s *session, code codes.Code) {
	m := &p4v1.MasterArbitrationUpdate{
		DeviceId: a.device, ElectionId: s.role.highest,
		Status: &spb.Status{Code: int32(code), Message: advice[code]},
	}
	if s.role.name != "" {
		m.Role = &p4v1.Role{Name: s.role.name}
	}
	s.tell(&p4v1.StreamMessageResponse{Update: &p4v1.StreamMessageResponse_Arbitration{Arbitration: m}})
}

// checkPrimary wants the election id of the role's primary.
func (a *arbiter) checkPrimary(name string, election *p4v1.Uint128) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, ok := a.roles[name]
	switch {
	case !ok:
		return status.Errorf(codes.NotFound, "role: there is no role %q", name)
	case r.primary == nil:
		return status.Errorf(codes.PermissionDenied, "election_id: role %q has no primary", name)
	case election == nil:
		return status.Error(codes.PermissionDenied, "election_id: there is none, so this is not the primary")
	case compare(r.primary.election, election) != 0:
		return status.Errorf(codes.PermissionDenied, "election_id: %v is not the primary's", election)
	}
	return nil
}
