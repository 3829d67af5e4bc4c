package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	if err := errors.Join(closePlanes(), aggregator.Close()); err != nil {
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

// rig is a Manager over the real aggregator and the real store.
type rig struct {
	*steps
	t      testing.TB
	m      *Manager
	tor    *torStub
	clock  *clock
	events *events.Log
	config Config
	// path is that of the state file.
	path string
	// planes are the aggregators of other nodes.
	planes []*xdp.Aggregator
}

// newRig is one without a ToR, unless tor is set.
func newRig(t testing.TB, tor bool, change ...func(*Config)) *rig {
	t.Helper()
	return newRigOf(t, newSteps(), tor, change...)
}

func newRigOf(t testing.TB, parts *steps, tor bool, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{
		t: t, steps: parts, events: events.New(0),
		path: filepath.Join(t.TempDir(), "state.db"), clock: &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
	r.config = Config{
		Ledger:    ledger.Config{Groups: netip.MustParsePrefix("239.77.0.0/16"), FirstWorkerPort: 9800, LastWorkerPort: 10055, SharedSlots: 64},
		Nodes:     []Node{{MTU: 1500, Aggregator: kernel{Local(aggregator), r.steps}, Paths: oneInterface{}}},
		Now:       r.clock.Now,
		Events:    r.events,
		Heartbeat: time.Hour, // what changes is told without it
		Patience:  patience,
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
	opened, err := store.Open(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.config.Storage = disk{opened, r.steps}
	if r.m, err = New(r.config); err != nil {
		r.t.Fatal(err)
	}
}

// open makes a manager of another configuration over the same state file.
func (r *rig) open(config Config) (*Manager, error) {
	opened, err := store.Open(r.path)
	if err != nil {
		return nil, err
	}
	config.Storage = opened
	return New(config)
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
	for n, plane := range append([]*xdp.Aggregator{aggregator}, r.planes...) {
		for _, job := range plane.Jobs() {
			s.Maps = append(s.Maps, fmt.Sprintf("%d at aggregator %d generation %d cookie %d at %d", job.ID, n, job.Generation, job.Cookie, *job.Place))
		}
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
