package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/events"
	"spillway/appliance/ledger"
	"spillway/appliance/refusal"
	"spillway/appliance/store"
	"spillway/p4/pipeline"
	"spillway/xdp"
)

// aggregator is the compiled program with its maps, loaded once: the verifier takes a while.
var aggregator *xdp.Aggregator

// TestMain lets this program be the ToR that a test starts.
func TestMain(m *testing.M) {
	if os.Getenv(role) == roleTor {
		if err := beTor(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	var err error
	if aggregator, err = xdp.Load(xdp.Config{FirstPort: pipeline.FirstPort, Ports: 2 * pipeline.Ports}); err != nil {
		fmt.Fprintf(os.Stderr, "%+v\n", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := aggregator.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

var (
	homeAddr = netip.MustParseAddr("10.77.0.254")
	torAddr  = netip.MustParseAddr("10.77.0.253")
	homeMAC  = net.HardwareAddr{2, 0, 10, 77, 0, 254}
)

func workerAddr(rank int) netip.Addr      { return netip.AddrFrom4([4]byte{10, 77, 0, byte(rank + 1)}) }
func workerMAC(rank int) net.HardwareAddr { return net.HardwareAddr{2, 0, 10, 77, 0, byte(rank + 1)} }

// steps counts the calls of the parts, by name, and has chosen ones fail.
type steps struct {
	mu    sync.Mutex
	calls map[string]int
	fail  map[string]int // the n-th call from now on, from 1; 0: none
}

var errInjected = errors.New("injected")

// step counts a call, and fails it if it is to.
func (s *steps) step(name string) error {
	s.mu.Lock()
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

func (s *steps) failNext(name string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[name] = n
}

// kernel is the aggregator with failures.
type kernel struct {
	*xdp.Aggregator
	*steps
}

func (k kernel) AddJob(job xdp.Job) error {
	if err := k.step("add"); err != nil {
		return err
	}
	return k.Aggregator.AddJob(job)
}

func (k kernel) RemoveJob(id uint16) error {
	if err := k.step("remove"); err != nil {
		return err
	}
	return k.Aggregator.RemoveJob(id)
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
	hosts  int           // how many workers it knows
	hold   chan struct{} // Await waits for it to be closed; nil: it does not wait
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
	if addr == homeAddr {
		return pipeline.Host{Addr: addr, MAC: pipeline.MAC(homeMAC), Port: 100}, true
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

func (oneInterface) To(addr netip.Addr) (Path, error) {
	a := addr.As4()
	switch {
	case a[0] == 10 && a[1] == 77 && a[2] == 0:
		return Path{Ifindex: 3, Interface: "eth0", Home: homeAddr, MTU: 1500, MAC: net.HardwareAddr{2, 0, a[0], a[1], a[2], a[3]}}, nil
	case a[0] == 10 && a[1] == 78:
		return Path{Ifindex: 4, Interface: "eth1", Home: netip.MustParseAddr("10.78.0.254"), MTU: 1500, MAC: net.HardwareAddr{2, 0, a[0], a[1], a[2], a[3]}}, nil
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

// rig is a Manager over the real aggregator and the real store.
type rig struct {
	*steps
	t      testing.TB
	m      *Manager
	tor    *torStub
	clock  *clock
	events *events.Log
	config Config
}

// newRig is one without a ToR, unless tor is set.
func newRig(t testing.TB, tor bool, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{
		t: t, steps: &steps{calls: map[string]int{}, fail: map[string]int{}}, events: events.New(0),
		clock: &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
	r.config = Config{
		Ledger:     ledger.Config{Groups: netip.MustParsePrefix("239.77.0.0/16"), FirstWorkerPort: 9800, LastWorkerPort: 10055, SharedSlots: 64},
		State:      filepath.Join(t.TempDir(), "state.db"),
		MTU:        1500,
		Aggregator: kernel{aggregator, r.steps},
		Paths:      oneInterface{},
		Now:        r.clock.Now,
		Events:     r.events,
		Heartbeat:  time.Hour, // what changes is told without it
		Patience:   patience,
	}
	if tor {
		r.tor = &torStub{steps: r.steps, jobs: map[uint16]pipeline.Job{}, limits: pipeline.Limits{Slots: 4096, Elements: 256}, hosts: 64}
		r.config.Switch, r.config.TorAddress = r.tor, torAddr
		r.config.Defaults.Tor = v1.TorUse_TOR_USE_PRIVATE
	}
	for _, c := range change {
		c(&r.config)
	}
	r.start()
	t.Cleanup(func() {
		r.stop()
		for _, job := range aggregator.Jobs() {
			if err := aggregator.RemoveJob(job.ID); err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

func (r *rig) start() {
	r.t.Helper()
	opened, err := store.Open(r.config.State)
	if err != nil {
		r.t.Fatal(err)
	}
	if r.m, err = open(r.config, disk{opened, r.steps}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) stop() {
	r.t.Helper()
	if err := r.m.Close(); err != nil {
		r.t.Error(err)
	}
}

// restart is the daemon going away and coming back: same store, same maps.
func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

// reboot is the host going away and coming back: same store, fresh maps, and a ToR that was told nothing yet.
func (r *rig) reboot() {
	r.t.Helper()
	r.stop()
	for _, job := range aggregator.Jobs() {
		if err := aggregator.RemoveJob(job.ID); err != nil {
			r.t.Fatal(err)
		}
	}
	if r.tor != nil {
		r.tor.mu.Lock()
		clear(r.tor.jobs)
		r.tor.mu.Unlock()
	}
	r.start()
}

func (r *rig) spec(name string, workers int) *v1.JobSpec {
	return &v1.JobSpec{Name: name, Workers: uint32(workers), Window: 7}
}

func (r *rig) create(name string, workers int) *v1.Job {
	r.t.Helper()
	job, err := r.m.Create(r.t.Context(), r.spec(name, workers), false)
	if err != nil {
		r.t.Fatal(err)
	}
	return job
}

func (r *rig) get(name string) *v1.Job {
	r.t.Helper()
	job, err := r.m.Get(name)
	if err != nil {
		r.t.Fatal(err)
	}
	return job
}

// state is everything that a failure must leave as it was: the account, the maps, the ToR, and the store.
type state struct {
	Account string
	Maps    []string
	Tor     []string
	Store   []string
}

func (r *rig) state() state {
	r.t.Helper()
	s := state{Account: prototext.Format(r.m.Capacity())}
	for _, job := range aggregator.Jobs() {
		s.Maps = append(s.Maps, fmt.Sprintf("%d generation %d cookie %d at %d", job.ID, job.Generation, job.Cookie, *job.Place))
	}
	if r.tor != nil {
		for id, job := range r.tor.has() {
			s.Tor = append(s.Tor, fmt.Sprintf("%d generation %d", id, job.Generation))
		}
		slices.Sort(s.Tor)
	}
	records, err := r.m.store.Jobs()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, record := range records {
		record.Since = time.Time{}
		text, err := json.Marshal(record)
		if err != nil {
			r.t.Fatal(err)
		}
		s.Store = append(s.Store, string(text))
	}
	return s
}

// unchanged fails the test when something is not as it was.
func (r *rig) unchanged(before state, what string) {
	r.t.Helper()
	if diff := cmp.Diff(before, r.state()); diff != "" {
		r.t.Errorf("%s left something behind: %s", what, diff)
	}
}

// until waits for a condition.
func (r *rig) until(what string, condition func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// worker is a Join that runs.
type worker struct {
	r       *rig
	rank    int
	updates chan *v1.JoinResponse
	done    chan error
	cancel  context.CancelFunc
	params  *v1.Parameters
}

// join begins one. What it is told must be read, but for the first 1000 updates.
func (r *rig) join(job string, rank int, change ...func(*v1.JoinRequest)) *worker {
	r.t.Helper()
	request := &v1.JoinRequest{Job: job, Rank: uint32(rank), Address: workerAddr(rank).String(), Description: fmt.Sprintf("process of rank %d", rank)}
	for _, c := range change {
		c(request)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &worker{r: r, rank: rank, updates: make(chan *v1.JoinResponse, 1000), done: make(chan error, 1), cancel: cancel}
	m := r.m
	go func() {
		w.done <- m.Join(ctx, request, func(u *v1.JoinResponse) error {
			select {
			case w.updates <- u:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	r.t.Cleanup(cancel)
	return w
}

// resume begins a Join for the part that a worker had.
func (w *worker) resume(change ...func(*v1.JoinRequest)) *worker {
	w.r.t.Helper()
	return w.r.join(w.job(), w.rank, append([]func(*v1.JoinRequest){func(request *v1.JoinRequest) {
		request.Resume = &v1.Resume{Generation: w.params.Generation, Cookie: w.params.Cookie}
	}}, change...)...)
}

// job is the name of the worker's job, by its id.
func (w *worker) job() string {
	info, ok := w.r.m.Job(uint16(w.params.JobId))
	if !ok {
		w.r.t.Fatalf("there is no job %d", w.params.JobId)
	}
	return info.Job.Spec.Name
}

// next is the next update for which the condition holds.
func (w *worker) next(what string, condition func(*v1.JoinResponse) bool) *v1.JoinResponse {
	w.r.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case u := <-w.updates:
			if condition(u) {
				return u
			}
		case err := <-w.done:
			w.done <- err
			select {
			case u := <-w.updates: // what came before the end
				if condition(u) {
					return u
				}
				continue
			default:
			}
			w.r.t.Fatalf("rank %d waits for %s, and its call ended: %v", w.rank, what, err)
		case <-deadline:
			w.r.t.Fatalf("rank %d: %s did not come within %v", w.rank, what, patience)
		}
	}
}

// begun waits for the parameters.
func (w *worker) begun() *v1.Parameters {
	w.r.t.Helper()
	w.params = w.next("parameters", func(u *v1.JoinResponse) bool { return u.GetParameters() != nil }).GetParameters()
	return w.params
}

// waits waits until the worker is told that it waits for just these ranks.
func (w *worker) waits(missing ...uint32) *v1.Waiting {
	w.r.t.Helper()
	return w.next(fmt.Sprintf("to wait for %v", missing), func(u *v1.JoinResponse) bool {
		return u.GetWaiting() != nil && slices.Equal(u.GetWaiting().Missing, missing)
	}).GetWaiting()
}

// notice waits for a notice of a kind about just these ranks.
func (w *worker) notice(kind v1.NoticeKind, ranks ...uint32) string {
	w.r.t.Helper()
	return w.next(fmt.Sprintf("%v about %v", kind, ranks), func(u *v1.JoinResponse) bool {
		return u.GetNotice().GetKind() == kind && slices.Equal(u.GetNotice().GetRanks(), ranks)
	}).GetNotice().GetText()
}

// end waits for the end of the call.
func (w *worker) end() error {
	w.r.t.Helper()
	select {
	case err := <-w.done:
		return err
	case <-time.After(patience):
		w.r.t.Fatalf("the call of rank %d did not end within %v", w.rank, patience)
		return nil
	}
}

// vanish ends the call without a word.
func (w *worker) vanish() {
	w.r.t.Helper()
	w.cancel()
	if err := w.end(); !errors.Is(err, context.Canceled) {
		w.r.t.Errorf("rank %d vanished: %v", w.rank, err)
	}
}

func (w *worker) leave() {
	w.r.t.Helper()
	request := &v1.LeaveRequest{Job: w.job(), Rank: uint32(w.rank), Part: &v1.Resume{Generation: w.params.Generation, Cookie: w.params.Cookie}}
	if err := w.r.m.Leave(w.r.t.Context(), request); err != nil {
		w.r.t.Fatalf("rank %d leaves: %v", w.rank, err)
	}
	if err := w.end(); err != nil {
		w.r.t.Errorf("the call of rank %d, which left, ended with %v", w.rank, err)
	}
}

// run creates a job and has all its ranks join.
func (r *rig) run(name string, workers int) []*worker {
	r.t.Helper()
	r.create(name, workers)
	return r.joinAll(name, workers)
}

func (r *rig) joinAll(name string, workers int) (all []*worker) {
	r.t.Helper()
	for rank := range workers {
		all = append(all, r.join(name, rank))
	}
	for _, w := range all {
		w.begun()
	}
	return all
}

// refused checks that an error is a refusal with this code and reason, whose text has these parts.
func refused(t testing.TB, err error, code codes.Code, reason refusal.Reason, parts ...string) {
	t.Helper()
	got := refusal.Of(err)
	if got == nil || got.Code != code || got.Reason != reason {
		t.Fatalf("want %v %s, got %v (%+v)", code, reason, err, got)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the text lacks %q: %v", part, err)
		}
	}
}
