package peer

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/certs"
	"spillway/appliance/jobs"
	"spillway/appliance/refusal"
	"spillway/xdp"
)

// memory is an aggregator that only remembers.
type memory struct{ jobs map[uint16]xdp.Job }

func (m *memory) AddJob(_ context.Context, job xdp.Job) error {
	if _, there := m.jobs[job.ID]; there {
		return xdp.ErrJobExists
	}
	m.jobs[job.ID] = job
	return nil
}

func (m *memory) RemoveJob(_ context.Context, id uint16) error {
	if _, there := m.jobs[id]; !there {
		return xdp.ErrNoJob
	}
	delete(m.jobs, id)
	return nil
}

func (m *memory) Jobs(context.Context) (all []xdp.Job, err error) {
	for _, job := range m.jobs {
		all = append(all, job)
	}
	return all, nil
}

func (m *memory) To(_ context.Context, addr netip.Addr) (jobs.Path, error) {
	if addr == netip.MustParseAddr("10.0.0.9") {
		return jobs.Path{}, refusal.New(9, refusal.Unreachable, "no route leads to %s", addr)
	}
	return jobs.Path{Ifindex: 3, Interface: "eth0", Home: netip.MustParseAddr("10.0.0.1"), MTU: 1500, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 7}}, nil
}

// plane is one that packets of no job came to.
type plane struct{ Plane }

func (plane) UnknownJobCounters() (map[string]uint64, error) {
	return map[string]uint64{"bad_version": 3, "unknown_job": 5}, nil
}

// serve is the service of an appliance called a, and a client of it that is the appliance b and takes who answers for the appliance called as.
func serve(t *testing.T, as string) (*Terms, *memory, *Client) {
	t.Helper()
	authority, err := certs.NewAuthority("appliances", 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		pair, err := authority.Issue(certs.Request{Name: name, Identity: certs.Identity{Node: name}, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}})
		if err == nil {
			err = pair.Write(dir, name, false)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	own, err := certs.ServerTLS(dir+"/a.crt", dir+"/a.key", dir+"/ca.crt")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := LoadIdentity(dir+"/b.crt", dir+"/b.key", dir+"/ca.crt")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	terms, m := NewTerms(), &memory{map[uint16]xdp.Job{}}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(own)))
	v1.RegisterPeerServiceServer(server, NewService(Config{Name: "a", Terms: terms, Aggregator: m, Plane: plane{}, Paths: m,
		Health: func() (bool, string, <-chan struct{}) { return true, "", nil }}))
	go func() { _ = server.Serve(listener) }() // until it is stopped
	client, err := Dial(as, listener.Addr().String(), identity)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
	})
	return terms, m, client
}

// TestUnknown: the counters of packets of no job are those of the appliance that is asked.
func TestUnknown(t *testing.T) {
	_, _, client := serve(t, "a")
	counters, err := client.UnknownJobCounters(t.Context())
	if want, _ := (plane{}).UnknownJobCounters(); err != nil || cmp.Diff(want, counters) != "" {
		t.Errorf("%v, %v, want %v", counters, err, want)
	}
}

// TestOrders: what a leader orders is done as it was meant, what fails is what package jobs decides on.
func TestOrders(t *testing.T) {
	_, m, client := serve(t, "a")
	place := uint32(64)
	job := xdp.Job{
		ID: 9, Generation: 200, Cookie: 1 << 31, Elements: 256, Window: 127, Workers: 2, Home: netip.MustParseAddrPort("10.0.0.1:9696"), HomePorts: 32,
		Group: netip.MustParseAddr("239.77.0.1"), WorkerPort: 9800, Policy: xdp.Policy{Quorum: 1, After: time.Millisecond, MaxLag: 7}, Resumed: true, Place: &place,
		Members: []xdp.Member{{Addr: netip.MustParseAddr("10.0.0.7"), Bits: 1, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 7}, Ifindex: 3}, {Addr: netip.MustParseAddr("10.0.0.253"), Bits: 3}},
	}
	leader := client.Leader(5)
	if err := leader.AddJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	same := cmp.Options{cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
		cmp.Comparer(func(a, b net.HardwareAddr) bool { return a.String() == b.String() })}
	if diff := cmp.Diff(job, m.jobs[9], same); diff != "" {
		t.Error(diff)
	}
	if all, err := leader.Jobs(t.Context()); err != nil || cmp.Diff([]xdp.Job{job}, all, same) != "" {
		t.Errorf("jobs: %v, %v", all, err)
	}
	if err := leader.AddJob(t.Context(), job); !errors.Is(err, xdp.ErrJobExists) {
		t.Errorf("the same once more: %v", err)
	}
	if err := leader.RemoveJob(t.Context(), 8); !errors.Is(err, xdp.ErrNoJob) {
		t.Errorf("none of the id: %v", err)
	}
	if err := leader.RemoveJob(t.Context(), 9); err != nil || len(m.jobs) != 0 {
		t.Errorf("remove: %v", err)
	}
	path, err := leader.To(t.Context(), netip.MustParseAddr("10.0.0.7"))
	if want, _ := m.To(t.Context(), netip.MustParseAddr("10.0.0.7")); err != nil || cmp.Diff(want, path, same) != "" {
		t.Errorf("path: %v, %v", path, err)
	}
	if _, err := leader.To(t.Context(), netip.MustParseAddr("10.0.0.9")); refusal.Of(err) == nil || refusal.Of(err).Reason != refusal.Unreachable {
		t.Errorf("no path: %v", err)
	}
}

// TestTerms: once a higher term was heard of, lower ones are refused, also those of the appliance itself.
func TestTerms(t *testing.T) {
	terms, m, client := serve(t, "a")
	if err := client.Leader(5).AddJob(t.Context(), xdp.Job{ID: 1, Home: netip.MustParseAddrPort("10.0.0.1:9696")}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Leader(6).Jobs(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := client.Leader(5).RemoveJob(t.Context(), 1)
	if refused := refusal.Of(err); !errors.Is(err, jobs.ErrNodeAway) || refused == nil || refused.Reason != refusal.OldTerm || len(m.jobs) != 1 {
		t.Errorf("an order of the term before: %v", err)
	}
	own := terms.Held(5, m)
	if err := own.RemoveJob(t.Context(), 1); refusal.Of(err) == nil || len(m.jobs) != 1 {
		t.Errorf("its own order of the term before: %v", err)
	}
	if err := terms.Held(6, m).RemoveJob(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if err := terms.Lead(4); err == nil {
		t.Error("it leads in a term that is over")
	}
	err = client.Beat(t.Context(), 5, "b", time.Millisecond, time.Second, func(bool, string) { t.Error("an answer to a heartbeat of the term before") })
	if refusal.Of(err) == nil {
		t.Errorf("a heartbeat of the term before: %v", err)
	}
}

// slow is an aggregator whose AddJob says that it has begun, and waits until it may go on.
type slow struct {
	*memory
	begun, goOn chan struct{}
}

func (s slow) AddJob(ctx context.Context, job xdp.Job) error {
	s.begun <- struct{}{}
	<-s.goOn
	return s.memory.AddJob(ctx, job)
}

// TestOrderUnderWay: an order that is being carried out is over when the next leader's term is heard of.
func TestOrderUnderWay(t *testing.T) {
	terms, m := NewTerms(), slow{&memory{map[uint16]xdp.Job{}}, make(chan struct{}), make(chan struct{})}
	added, admitted := make(chan error, 1), make(chan error, 1)
	go func() { added <- terms.Held(5, m).AddJob(context.Background(), xdp.Job{ID: 1}) }()
	<-m.begun
	go func() { admitted <- terms.Admit(6) }()
	for terms.orders.TryRLock() { // until the other waits
		terms.orders.RUnlock()
		select {
		case err := <-admitted:
			t.Fatalf("term 6 was heard of while an order of term 5 was carried out: %v", err)
		default:
		}
	}
	if highest, _ := terms.Highest(); highest != 5 {
		t.Errorf("term %d is known", highest)
	}
	close(m.goOn)
	if err := errors.Join(<-added, <-admitted); err != nil {
		t.Error(err)
	}
	if err := terms.Held(5, m).RemoveJob(t.Context(), 1); refusal.Of(err) == nil || len(m.jobs) != 1 {
		t.Errorf("an order of the term before: %v, %d jobs", err, len(m.jobs))
	}
}

// TestBeat: a heartbeat is answered and heard, and its end shows.
func TestBeat(t *testing.T) {
	terms, _, client := serve(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	answers := 0
	err := client.Beat(ctx, 7, "b", time.Millisecond, 10*time.Second, func(healthy bool, _ string) {
		if answers++; answers == 3 && healthy {
			if p := terms.Pulse(7); !p.Beating || p.Heard.IsZero() {
				t.Errorf("heard as %+v", p)
			}
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for p := terms.Pulse(7); p.Beating; p = terms.Pulse(7) {
		select {
		case <-p.Changed:
		case <-time.After(10 * time.Second):
			t.Fatal("the end of the heartbeat does not show")
		}
	}
	if terms.Pulse(6).Beating {
		t.Error("the leader of the term before is heard")
	}
}

// TestIdentity: who answers must be the appliance that is called.
func TestIdentity(t *testing.T) {
	_, _, client := serve(t, "c")
	if _, err := client.Greet(t.Context()); !errors.Is(err, jobs.ErrNodeAway) {
		t.Errorf("a in the place of c: %v", err)
	}
}

// FuzzJob: whatever another appliance sends, it is a job or an error.
func FuzzJob(f *testing.F) {
	f.Add(uint32(1), uint32(2), "10.0.0.1:9696", "239.77.0.1", "10.0.0.7", uint32(9800))
	f.Add(uint32(1<<16), uint32(1<<8), "", "x", "::", uint32(1<<16))
	f.Fuzz(func(t *testing.T, id, generation uint32, home, group, member string, port uint32) {
		m := &v1.InstalledJob{Id: id, Generation: generation, Home: home, Group: group, WorkerPort: port, Members: []*v1.InstalledMember{{Address: member}}}
		j, err := job(m)
		if err != nil {
			return
		}
		again, err := job(installed(&j))
		if err != nil || again.ID != j.ID || again.Generation != j.Generation || again.Home != j.Home || again.Group != j.Group || again.Members[0].Addr != j.Members[0].Addr {
			t.Errorf("%+v became %+v, %v", j, again, err)
		}
	})
}
