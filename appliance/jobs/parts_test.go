package jobs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"spillway/appliance/refusal"
	"spillway/appliance/store"
	"spillway/p4/pipeline"
	"spillway/xdp"
)

// steps counts the calls of the parts, by name, and has chosen ones fail.
type steps struct {
	mu    sync.Mutex
	calls map[string]int
	fail  map[string]int // the n-th call from now on, from 1; 0: none
	// next is what happens during the next call.
	next map[string]func()
}

func newSteps() *steps {
	return &steps{calls: map[string]int{}, fail: map[string]int{}, next: map[string]func(){}}
}

var errInjected = errors.New("injected")

// step counts a call, and fails it if it is to.
func (s *steps) step(name string) error {
	s.mu.Lock()
	if next := s.next[name]; next != nil {
		delete(s.next, name)
		s.mu.Unlock()
		next()
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	s.calls[name]++
	if s.fail[name] == 0 {
		return nil
	}
	if s.fail[name]--; s.fail[name] == 0 {
		return fmt.Errorf("%w: %s", errInjected, name)
	}
	return nil
}

func (s *steps) during(name string, next func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[name] = next
}

func (s *steps) failNext(name string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[name] = n
}

// kernel is the aggregator with failures.
type kernel struct {
	Aggregator
	*steps
}

func (k kernel) AddJob(ctx context.Context, job xdp.Job) error {
	if err := k.step("add"); err != nil {
		return err
	}
	return k.Aggregator.AddJob(ctx, job)
}

func (k kernel) RemoveJob(ctx context.Context, id uint16) error {
	if err := k.step("remove"); err != nil {
		return err
	}
	return k.Aggregator.RemoveJob(ctx, id)
}

// disk is the store with failures.
type disk struct {
	*store.Store
	*steps
}

func (d disk) Put(job store.Job) error {
	if err := d.step("put"); err != nil {
		return err
	}
	return d.Store.Put(job)
}

func (d disk) PutDrained(nodes []string) error {
	if err := d.step("drained"); err != nil {
		return err
	}
	return d.Store.PutDrained(nodes)
}

func (d disk) Delete(name string) error {
	if err := d.step("delete"); err != nil {
		return err
	}
	return d.Store.Delete(name)
}

// torStub stands in for the ToR where failures are to be injected; rack_test.go has a real one.
type torStub struct {
	*steps
	mu     sync.Mutex
	jobs   map[uint16]pipeline.Job
	limits pipeline.Limits
	hosts  int // how many workers it knows
	// strange is a home that it does not know.
	strange netip.Addr
	hold    chan struct{} // Await waits for it to be closed; nil: it does not wait
}

func (s *torStub) SetJob(job pipeline.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[job.ID] = job
}

func (s *torStub) RemoveJob(id uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.jobs, id)
}

func (s *torStub) Await(ctx context.Context, id uint16, generation uint8) error {
	if err := s.step("await"); err != nil {
		return refusal.New(codes.Unavailable, refusal.SwitchAway, "there is no session with the ToR: %w", err)
	}
	s.mu.Lock()
	hold := s.hold
	job, ok := s.jobs[id]
	s.mu.Unlock()
	if !ok || job.Generation != generation {
		return fmt.Errorf("generation %d of job %d is awaited, and was not set", generation, id)
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return refusal.New(codes.Unavailable, refusal.SwitchAway, "the ToR does not answer: %w", ctx.Err())
		}
	}
	return nil
}

func (s *torStub) Limits() (pipeline.Limits, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits, s.limits.Slots > 0
}

func (s *torStub) Host(addr netip.Addr) (pipeline.Host, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if addr == s.strange {
		return pipeline.Host{}, false
	}
	for i := range nodeNames {
		if addr == homeOf(i) {
			return pipeline.Host{Addr: addr, MAC: pipeline.MAC(homeMAC), Port: uint16(100 + i)}, true
		}
	}
	for rank := range s.hosts {
		if addr == workerAddr(rank) {
			return pipeline.Host{Addr: addr, MAC: pipeline.MAC(workerMAC(rank)), Port: uint16(rank + 1)}, true
		}
	}
	return pipeline.Host{}, false
}

func (s *torStub) has() map[uint16]pipeline.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[uint16]pipeline.Job{}
	for id, job := range s.jobs {
		all[id] = job
	}
	return all
}

// oneInterface leads to 10.77.0.0/24 by eth0, and to 10.78.0.0/24 by eth1.
type oneInterface struct{}

func (oneInterface) To(_ context.Context, addr netip.Addr) (Path, error) {
	a := addr.As4()
	switch {
	case a[0] == 10 && a[1] == 77 && a[2] == 0:
		return Path{Ifindex: 3, Interface: "eth0", Home: homeAddr, MTU: 1500, MAC: net.HardwareAddr{2, 0, a[0], a[1], a[2], a[3]}}, nil
	case a[0] == 10 && a[1] == 78:
		return Path{Ifindex: 4, Interface: "eth1", Home: netip.MustParseAddr("10.78.0.254"), MTU: 1500, MAC: net.HardwareAddr{2, 0, a[0], a[1], a[2], a[3]}}, nil
	case a[0] == 10 && a[1] == 80:
		return Path{Ifindex: 3, Interface: "eth0", Home: homeAddr, MTU: 1500}, nil
	case a[0] == 10 && a[1] == 79:
		return Path{Ifindex: 3, Interface: "eth0", Home: homeAddr, MTU: 576, MAC: net.HardwareAddr{2, 0, a[0], a[1], a[2], a[3]}}, nil
	}
	return Path{}, fmt.Errorf("no route to %s from eth0 or eth1", addr)
}

// clock is what grace goes by in tests.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
