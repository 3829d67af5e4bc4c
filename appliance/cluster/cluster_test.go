package cluster

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	peers "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/certs"
	"spillway/appliance/cluster/etcd"
	"spillway/appliance/cluster/peer"
)

// appliance is a part in a cluster without a data plane.
type appliance struct {
	*Cluster
	server *grpc.Server
	terms  *peer.Terms
	stop   context.CancelFunc
	done   chan error

	mu      sync.Mutex // guards what follows
	streams map[string][]context.CancelFunc
	cut     map[string]bool // who is not served
	healthy bool
	changed chan struct{}
	term    *Term           // that it leads in; nil: it does not
	up      map[string]bool // as it was told
	begun   bool
}

// Begin implements Follower, as all that follow.
func (a *appliance) Begin(up []Led) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.up, a.begun = map[string]bool{}, true
	for _, led := range up {
		a.up[led.Name] = true
	}
	return nil
}

func (a *appliance) Up(led Led) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.up[led.Name] = true
}

func (a *appliance) Down(name, _ string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.up, name)
}

func (a *appliance) End() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun = false
}

func (a *appliance) lead(ctx context.Context, term *Term) error {
	a.mu.Lock()
	a.term = term
	a.mu.Unlock()
	err := term.Follow(ctx, a)
	a.mu.Lock()
	a.term = nil
	a.mu.Unlock()
	return err
}

func (a *appliance) leads() *Term {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.begun {
		return nil
	}
	return a.term
}

func (a *appliance) sees(names ...string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range names {
		if !a.up[name] {
			return false
		}
	}
	return len(a.up) == len(names)
}

func (a *appliance) health() (bool, string, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.healthy, "its interface eth0 is down", a.changed
}

func (a *appliance) setHealth(healthy bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.healthy = healthy
	close(a.changed)
	a.changed = make(chan struct{})
}

// cutOff ends what an appliance calls here, and lets it call no more.
func (a *appliance) cutOff(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cut[name] = true
	for _, cancel := range a.streams[name] {
		cancel()
	}
}

// intercept is where calls are cut off.
func (a *appliance) intercept(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	from, _ := peers.FromContext(stream.Context())
	who, err := certs.IdentityOf(from.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	a.mu.Lock()
	cut := a.cut[who.Node]
	a.streams[who.Node] = append(a.streams[who.Node], cancel)
	a.mu.Unlock()
	if cut {
		return status.Error(codes.Unavailable, "cut off")
	}
	return handler(service, &cuttable{stream, ctx})
}

// cuttable is a stream that ends when its caller is cut off.
type cuttable struct {
	grpc.ServerStream
	ctx context.Context
}

func (c *cuttable) Context() context.Context { return c.ctx }

// begin has an appliance take its part.
func begin(t *testing.T, l *lab, q *quorum, name string) *appliance {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, authorities := l.issue(t, name)
	identity, err := peer.LoadIdentity(certificate, key, authorities)
	if err != nil {
		t.Fatal(err)
	}
	own, err := certs.ServerTLS(certificate, key, authorities)
	if err != nil {
		t.Fatal(err)
	}
	a := &appliance{healthy: true, changed: make(chan struct{}), done: make(chan error, 1), terms: peer.NewTerms(), streams: map[string][]context.CancelFunc{}, cut: map[string]bool{}}
	a.server = grpc.NewServer(grpc.Creds(credentials.NewTLS(own)), grpc.StreamInterceptor(a.intercept))
	v1.RegisterPeerServiceServer(a.server, peer.NewService(peer.Config{Name: name, Terms: a.terms, Health: a.health}))
	go func() { _ = a.server.Serve(listener) }() // until it is stopped
	a.Cluster = New(Config{
		Name: "test", Self: Member{Name: name, Peers: listener.Addr().String(), Workers: name + ":9690"}, Etcd: etcd.Config{Endpoints: q.endpoints},
		Identity: identity, Terms: a.terms, Health: a.health, Lead: a.lead,
	})
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	go func() { a.done <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-a.done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("appliance %s: %v", name, err)
		}
		a.server.Stop()
	})
	return a
}

// leaderOf waits until one of them leads and sees the others.
func leaderOf(t *testing.T, all map[string]*appliance, among ...string) string {
	t.Helper()
	var leader string
	within(t, "a leader that sees all", func() bool {
		for _, name := range among {
			if a := all[name]; a.leads() != nil && a.sees(among...) {
				leader = name
				return true
			}
		}
		return false
	})
	return leader
}

// TestCluster: one leads and sees the others; one that dies is missed within a second; a leader that is missed is deposed, and can change nothing, although it
// lives; one that workers do not reach lets another lead.
func TestCluster(t *testing.T) {
	q, l := embedded(t), newLab(t)
	all, names := map[string]*appliance{}, []string{"a", "b", "c"}
	for _, name := range names {
		all[name] = begin(t, l, q, name)
	}
	first := leaderOf(t, all, names...)
	term := all[first].leads()
	if err := term.Storage.Put(record("train", 1)); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		within(t, name+" to know the leader", func() bool {
			s := all[name].Status()
			return s.Leader.Name == first && s.Leader.Term == term.Number && s.Leader.Workers == first+":9690" && s.Leads == (name == first) && len(s.Members) == 3
		})
	}

	// Workers do not reach the leader any more: it hands over, and is lost.
	all[first].setHealth(false)
	others := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == first })
	second := leaderOf(t, all, others...)
	if all[first].leads() != nil || all[second].leads().Number <= term.Number {
		t.Errorf("after %s in term %d, %s leads in term %d", first, term.Number, second, all[second].leads().Number)
	}
	if err := term.Storage.Put(record("train", 2)); !errors.Is(err, ErrDeposed) && !errors.Is(err, context.Canceled) {
		t.Errorf("a write of the term before: %v", err)
	}
	all[first].setHealth(true)
	if got := leaderOf(t, all, names...); got != second {
		t.Errorf("%s leads, and not %s, because %s is well again", got, second, first)
	}

	// The leader is cut off from the others, and not from etcd: it is deposed while it lives.
	term = all[second].leads()
	cut := time.Now()
	all[second].server.Stop()
	for _, name := range names {
		all[name].cutOff(second)
	}
	var third string
	within(t, "another leader", func() bool {
		for _, name := range names {
			if at := all[name].leads(); name != second && at != nil && at.Number > term.Number {
				third = name
				return true
			}
		}
		return false
	})
	t.Logf("%s leads %v after %s was cut off", third, time.Since(cut), second)
	if err := term.Storage.Put(record("train", 3)); !errors.Is(err, ErrDeposed) && !errors.Is(err, context.Canceled) {
		t.Errorf("a write of the leader that was deposed: %v", err)
	}
	if jobs, err := all[third].leads().Storage.Jobs(); err != nil || len(jobs) != 1 || jobs[0].Generation != 1 {
		t.Errorf("jobs: %v, %v", jobs, err)
	}
}

// TestSameName: a second appliance of a name has no part.
func TestSameName(t *testing.T) {
	q, l := embedded(t), newLab(t)
	one := begin(t, l, q, "a")
	within(t, "the first to lead", func() bool { return one.leads() != nil })
	two := begin(t, &lab{t.TempDir(), l.authority}, q, "a")
	within(t, "the second to say what is wrong", func() bool {
		s := two.Status()
		return s.Trouble == "another appliance, at "+one.config.Self.Peers+", is called a: give each a name of its own (name)"
	})
	if one.leads() == nil {
		t.Error("the first does not lead any more")
	}
}

// TestTermOfEtcd: an appliance that has started, and was called by nobody, takes no orders of those who led before.
func TestTermOfEtcd(t *testing.T) {
	c := New(Config{Name: "test", Self: Member{Name: "a"}, Terms: peer.NewTerms()})
	c.view.set(nil, nil, Leadership{Member: Member{Name: "b"}, Term: 9})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.guard(ctx, nil) }()
	within(t, "the term to be known", func() bool { term, _ := c.config.Terms.Highest(); return term == 9 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := c.config.Terms.Admit(8); err == nil {
		t.Error("it takes orders of the term before")
	}
}
