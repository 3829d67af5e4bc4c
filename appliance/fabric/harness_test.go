package fabric_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/events"
	"spillway/appliance/fabric"
	"spillway/appliance/jobs"
	"spillway/p4/client"
	"spillway/p4/pipeline"
)

// traffic is what a fabric asked the ToR to do, as its client saw it.
type traffic struct {
	mu     sync.Mutex
	pushes int
	// writes are batches that the ToR answered, errors counted in.
	writes [][]*p4v1.Update
	reads  int // of tables
}

func (tr *traffic) options() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			tr.mu.Lock()
			switch r := req.(type) {
			case *p4v1.WriteRequest:
				tr.writes = append(tr.writes, r.GetUpdates())
			case *p4v1.SetForwardingPipelineConfigRequest:
				tr.pushes++
			}
			tr.mu.Unlock()
			return invoke(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(
			ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			s, err := stream(ctx, desc, cc, method, opts...)
			return &readCounter{s, tr}, err
		}),
	}
}

// readCounter counts the reads of tables among what is sent.
type readCounter struct {
	grpc.ClientStream
	traffic *traffic
}

func (s *readCounter) SendMsg(m any) error {
	if r, ok := m.(*p4v1.ReadRequest); ok {
		s.traffic.mu.Lock()
		for _, e := range r.GetEntities() {
			if e.GetTableEntry() != nil && !e.GetTableEntry().GetIsDefaultAction() {
				s.traffic.reads++
			}
		}
		s.traffic.mu.Unlock()
	}
	return s.ClientStream.SendMsg(m)
}

// reset forgets, and count says how many pushes, batches, updates of tables and groups, and reads of tables there were since.
func (tr *traffic) reset() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.pushes, tr.writes, tr.reads = 0, nil, 0
}

type tally struct{ pushes, batches, updates, reads int }

func (tr *traffic) count() tally {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tally{tr.pushes, len(tr.writes), len(tr.described()), tr.reads}
}

// described are the updates of tables and groups in words, in their order; tr.mu is held.
func (tr *traffic) described() []string {
	var all []string
	for _, batch := range tr.writes {
		for _, u := range batch {
			if item, err := pipeline.NewItem(pipeline.Software(), u.GetEntity()); err == nil {
				all = append(all, fmt.Sprintf("%s %s", u.GetType(), item.Key))
			}
		}
	}
	return all
}

func (tr *traffic) updates() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.described()
}

// journal is the events of a fabric.
type journal struct{ *events.Log }

// all are those that happened so far.
func (j *journal) all() []*v1.Event {
	var all []*v1.Event
	// Without following, and with a send that takes all, it cannot fail.
	_ = j.Stream(context.Background(), &v1.StreamEventsRequest{}, func(e *v1.Event) error {
		all = append(all, e)
		return nil
	})
	return all
}

// wait waits for the nth event of a kind and returns its text.
func (j *journal) wait(t testing.TB, kind string, nth int) string {
	t.Helper()
	var text string
	enough := errors.New("this is it")
	err := j.Stream(deadline(t), &v1.StreamEventsRequest{Follow: true}, func(e *v1.Event) error {
		if e.GetKind() == kind {
			if nth--; nth == 0 {
				text = e.GetText()
				return enough
			}
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatalf("there are %d events %s too few, only %s", nth, kind, j)
	}
	return text
}

func (j *journal) of(kind string) int {
	n := 0
	for _, e := range j.all() {
		if e.GetKind() == kind {
			n++
		}
	}
	return n
}

func (j *journal) String() string {
	var b strings.Builder
	for _, e := range j.all() {
		fmt.Fprintf(&b, "\n%s: %s", e.GetKind(), e.GetText())
	}
	return b.String()
}

var _ jobs.Switch = (*fabric.Fabric)(nil)

// subject is a fabric that runs until the test ends, or until it is stopped.
type subject struct {
	*fabric.Fabric
	t       testing.TB
	events  *journal
	traffic *traffic
	stop    func()
}

// run starts a fabric for a target; change makes its configuration another.
func run(t testing.TB, target string, change func(*fabric.Config)) *subject {
	t.Helper()
	s := prepare(t, target, change)
	s.begin()
	return s
}

// prepare makes a fabric that does not run yet.
func prepare(t testing.TB, target string, change func(*fabric.Config)) *subject {
	t.Helper()
	program, err := fabric.Program(fabric.KindSoftware)
	if err != nil {
		t.Fatal(err)
	}
	s := &subject{t: t, events: &journal{events.New(0)}, traffic: &traffic{}}
	config := fabric.Config{
		Target: target, Device: device, Program: program, Hosts: hosts(), Flood: flood,
		Check: time.Hour, Dial: s.traffic.options(), Events: s.events.Log,
	}
	if change != nil {
		change(&config)
	}
	if s.Fabric, err = fabric.New(config); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *subject) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
	s.stop = stopped
	s.t.Cleanup(stopped)
}

// wait waits for a state.
func (s *subject) wait(state v1.SwitchState) {
	s.t.Helper()
	ctx := deadline(s.t)
	for {
		changed := s.Changed()
		now, reason := s.State()
		if now == state {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			s.t.Fatalf("the state is %s (%s), not %s; events: %s", now, reason, state, s.events)
		}
	}
}

// settled waits until a job is in the ToR.
func (s *subject) settled(id uint16, generation uint8) {
	s.t.Helper()
	if err := s.Await(deadline(s.t), id, generation); err != nil {
		s.t.Fatalf("%v; events: %s", err, s.events)
	}
}

const (
	away    = v1.SwitchState_SWITCH_STATE_AWAY
	backup  = v1.SwitchState_SWITCH_STATE_BACKUP
	syncing = v1.SwitchState_SWITCH_STATE_SYNCING
	inSync  = v1.SwitchState_SWITCH_STATE_IN_SYNC
)

// has wants exactly the entries of hosts and jobs in the ToR.
func (r *tor) has(jobs ...pipeline.Job) {
	r.t.Helper()
	if diff := cmp.Diff(entries(r.t, jobs...), r.content()); diff != "" {
		r.t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// election is the id that the fabric is primary with.
func (s *subject) election() client.ElectionID {
	s.t.Helper()
	d, err := s.Describe(deadline(s.t), false)
	if err != nil {
		s.t.Fatal(err)
	}
	var id client.ElectionID
	if _, err := fmt.Sscan(d.GetElectionId(), &id.Low); err != nil {
		s.t.Fatal(err)
	}
	return id
}

// sorted is a copy in order.
func sorted(of []string) []string {
	out := slices.Clone(of)
	slices.Sort(out)
	return out
}
