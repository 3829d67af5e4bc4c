package fabric

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/events"
	"spillway/p4/client"
	"spillway/p4/p4info"
	"spillway/p4/pipeline"
)

// Config is what a Fabric must be told.
type Config struct {
	// Target is a gRPC target: host:port, or unix:PATH. Device is the P4Runtime device id, not 0.
	Target string
	Device uint64
	// Election is the id that the first session asks with; the zero one is 1. Each appliance that programs the ToR needs one of its own. The
	// Low half is counted up by sessions, so a preference among appliances belongs into the High half.
	Election client.ElectionID
	// Program is the pipeline; see Program.
	Program client.Pipeline
	// Hosts are the machines that the ToR forwards to, Flood the multicast group that broadcasts go to.
	Hosts []pipeline.Host
	Flood uint16
	// Check is how often all of the ToR is compared with what it should be; 0 is DefaultCheck.
	Check time.Duration
	// Dial are added to the dial options; credentials among them replace the default, which is none.
	Dial []grpc.DialOption
	// Events and Log may be nil.
	Events *events.Log
	Log    *slog.Logger
}

// DefaultCheck is how often all of the ToR is compared with what it should be.
const DefaultCheck = 10 * time.Second

// Fabric keeps a ToR as it should be. Its methods may be used by several goroutines at once; Run's is the only one that writes to the ToR.
// Memory: some 1 kB for each entry of the ToR.
type Fabric struct {
	config Config
	info   *p4info.Info
	log    *slog.Logger
	// poke holds an element when something is wanted that may not be there.
	poke chan struct{}
	// reading holds an element while slots are read.
	reading chan struct{}
	running atomic.Bool

	mu sync.Mutex // guards what follows; never held while the ToR is talked to
	standing
	hosts    []pipeline.Item // what HostEntries makes of the hosts
	places   map[netip.Addr]pipeline.Host
	session  *client.Client // nil: there is none
	election client.ElectionID
	limits   *pipeline.Limits
	target   target
	totals   totals

	jobs  map[uint16]*job
	added uint64 // counts jobs
	// have is what the ToR has as far as is known: as it was read, and what it acknowledged since; nil before anything was.
	have     map[pipeline.Key]pipeline.Item
	accounts map[uint8]*account
	// moved is closed and replaced when anything changes that Await waits for.
	moved chan struct{}
}

// totals count since the daemon began.
type totals struct{ sessions, pushes, repairs uint64 }

// New is a Fabric that wants the hosts and no jobs; Run makes it so.
func New(config Config) (*Fabric, error) {
	if config.Target == "" || config.Device == 0 {
		return nil, fmt.Errorf("ToR: target %q, device %d: both must be given", config.Target, config.Device)
	}
	if config.Program.Info == nil {
		return nil, errors.New("ToR: there is no P4 program")
	}
	if config.Check == 0 {
		config.Check = DefaultCheck
	}
	if config.Election == (client.ElectionID{}) {
		config.Election.Low = 1
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	f := &Fabric{
		config: config, info: config.Program.Info, log: config.Log.With("tor", config.Target), election: config.Election,
		poke: make(chan struct{}, 1), reading: make(chan struct{}, 1),
		jobs: map[uint16]*job{}, accounts: map[uint8]*account{0: {begun: true}}, moved: make(chan struct{}),
		standing: standing{
			state: v1.SwitchState_SWITCH_STATE_AWAY, reason: "no session was opened yet", since: time.Now(), changed: make(chan struct{}), connecting: true,
		},
	}
	if err := f.setHosts(config.Hosts); err != nil {
		return nil, err
	}
	return f, nil
}

// Limits is what the ToR can hold: what it said last, also while it is away; false before it was ever asked.
func (f *Fabric) Limits() (pipeline.Limits, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.limits == nil {
		return pipeline.Limits{}, false
	}
	return *f.limits, true
}

// move wakes those that wait in Await; f.mu is held.
func (f *Fabric) move() {
	close(f.moved)
	f.moved = make(chan struct{})
}

func (f *Fabric) event(level v1.EventLevel, kind, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	switch level {
	case v1.EventLevel_EVENT_LEVEL_INFO:
		f.log.Info(text, "event", kind)
	default:
		f.log.Warn(text, "event", kind)
	}
	if f.config.Events != nil {
		f.config.Events.Add(level, kind, "", nil, "%s", text)
	}
}
