package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/ledger"
	"spillway/appliance/refusal"
	"spillway/p4/pipeline"
)

// Manager has all jobs of an appliance. Its methods may be called from several goroutines at once.
type Manager struct {
	config Config
	store  Storage
	// ctx ends when the Manager is closed; what it does on its own then gives up and undoes what it began.
	ctx    context.Context
	cancel context.CancelFunc
	// started is since when workers could call.
	started time.Time
	// running are the operations that use the store: Close waits for them.
	running sync.WaitGroup
	// draining is held while the nodes that are drained change; it is taken before mu.
	draining sync.Mutex

	mu       sync.Mutex // over what follows, and over all jobs, calls and watchers; nothing else is locked while it is held
	closed   bool
	ledger   *ledger.Ledger
	jobs     map[string]*job
	limits   pipeline.Limits // of the ToR, as far as they were ever known
	nodes    map[string]*node
	drained  []string // nodes that an operator wants nothing homed at, also such as are not known
	starting int      // nodes that are looked at for the first time: until then nothing moves
	torState string   // what is to be said of a ToR that is not as it should be
	watchers map[*watcher]bool
}

// New brings the jobs that are written down back: what of them is missing in the aggregator and in the ToR is put there again, and what is in the
// aggregator without being in the store is taken out. Members of running generations are lost until they resume. It
// closes the storage when it fails.
func New(config Config) (_ *Manager, err error) {
	config = config.withDefaults()
	m := &Manager{config: config, store: config.Storage, jobs: map[string]*job{}, nodes: map[string]*node{}, watchers: map[*watcher]bool{}}
	m.started = m.config.Now()
	m.ctx, m.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			m.cancel()
			if m.store != nil {
				_ = m.store.Close() // the error that is returned says what is wrong
			}
		}
	}()
	if err := config.validate(); err != nil {
		return nil, err
	}
	if m.ledger, err = ledger.New(config.Ledger); err != nil {
		return nil, err
	}
	if err := m.restore(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lookRound()
	return m, nil
}

// Close ends all calls: the workers may resume when the next process is there. Jobs stay in the store and in the data plane. It waits for what is under way,
// but not for calls whose reader does not read: those are their server's.
func (m *Manager) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	for _, j := range m.jobs {
		for rank := range j.waiting {
			m.endWaiting(j, uint32(rank), shuttingDown())
		}
		for rank := range j.members {
			if c := j.members[rank].call; c != nil {
				c.end(shuttingDown())
			}
		}
	}
	for w := range m.watchers {
		w.end(shuttingDown())
	}
	m.mu.Unlock()
	m.cancel()
	m.running.Wait()
	return m.store.Close()
}

// begin counts an operation that uses the store; who gets true calls running.Done when it is over.
func (m *Manager) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.running.Add(1)
	return true
}

func shuttingDown() error {
	return refusal.New(codes.Unavailable, refusal.ShuttingDown, "spillwayd is going away: jobs stay as they are; call again when it is back")
}

// find returns the job of a name. The lock is held.
func (m *Manager) find(name string) (*job, error) {
	j := m.jobs[name]
	if j == nil || j.hidden {
		return nil, noSuchJob(name)
	}
	return j, nil
}

func noSuchJob(name string) error {
	return refusal.New(codes.NotFound, refusal.NoSuchJob, "there is no job %q: spillctl jobs lists those that there are, spillctl job create makes one", shorten(name)).
		With("job", shorten(name))
}

// Get returns a job.
func (m *Manager) Get(name string) (*v1.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, err := m.find(name)
	if err != nil {
		return nil, err
	}
	return m.view(j), nil
}

// List returns all jobs, by name.
func (m *Manager) List() []*v1.Job {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*v1.Job
	for _, j := range m.sorted() {
		all = append(all, m.view(j))
	}
	return all
}

// view is a job as the API shows it. The lock is held.
func (m *Manager) view(j *job) *v1.Job {
	view := j.view()
	view.Standby = m.standby(j)
	return view
}

// sorted are the jobs that can be seen, by name. The lock is held.
func (m *Manager) sorted() []*job {
	var all []*job
	for _, j := range m.jobs {
		if !j.hidden {
			all = append(all, j)
		}
	}
	slices.SortFunc(all, func(a, b *job) int { return strings.Compare(a.name, b.name) })
	return all
}

// Info ties the numbers of the data plane to a job.
type Info struct {
	Job *v1.Job
	// ID is the number that packets carry, and also the job's index in the counters of the ToR and its multicast group there.
	ID uint16
	// Generation is as packets carry it. Installed says that it is in the aggregator of this host.
	Generation uint8
	Installed  bool
}

// Job returns the job with an id.
func (m *Manager) Job(id uint16) (Info, bool) {
	for _, info := range m.All() {
		if info.ID == id {
			return info, true
		}
	}
	return Info{}, false
}

// All returns all jobs, by name.
func (m *Manager) All() []Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Info
	for _, j := range m.sorted() {
		all = append(all, Info{Job: m.view(j), ID: j.id, Generation: uint8(j.record.Generation), Installed: j.record.Running != nil && j.record.Running.At(m.config.Self) != nil})
	}
	return all
}

// Capacity is what can be given to jobs, and what is.
func (m *Manager) Capacity() *v1.Capacity {
	m.learnLimits()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ledger.Capacity(m.names(func(n *node) bool { return n.there })...)
}

// changed is called after every change of a job: it remembers since when the state is what it is, and tells those who wait and those who watch. The lock is held.
func (m *Manager) changed(j *job) {
	now := m.config.Now()
	if state := j.stateNow(); state != j.state {
		j.state, j.since = state, now
	}
	for _, c := range j.waiting {
		if c != nil {
			c.waiting = true
			c.poke()
		}
	}
	for w := range m.watchers {
		w.note(j)
	}
}

// event says what happened, to people.
func (m *Manager) event(level v1.EventLevel, kind string, j *job, ranks []uint32, format string, args ...any) {
	m.report(level, kind, j.name, ranks, fmt.Sprintf(format, args...), "job", j.name, "id", j.id)
}

// report says what happened, to those who read events and to those who read the log.
func (m *Manager) report(level v1.EventLevel, kind, job string, ranks []uint32, text string, about ...any) {
	if m.config.Events != nil {
		m.config.Events.Add(level, kind, job, ranks, "%s", text)
	}
	attributes := append([]any{"kind", kind}, about...)
	if len(ranks) > 0 {
		attributes = append(attributes, "ranks", list(ranks))
	}
	switch level {
	case levelError:
		m.config.Log.Error(text, attributes...)
	case levelWarning:
		m.config.Log.Warn(text, attributes...)
	default:
		m.config.Log.Info(text, attributes...)
	}
}

// The levels of events.
const (
	levelInfo    = v1.EventLevel_EVENT_LEVEL_INFO
	levelWarning = v1.EventLevel_EVENT_LEVEL_WARNING
	levelError   = v1.EventLevel_EVENT_LEVEL_ERROR
)

// sweepInterval is how often Run looks for jobs that nobody uses.
const sweepInterval = time.Second

// Run deletes the jobs that were without a worker for their grace, until ctx ends, which is no error.
func (m *Manager) Run(ctx context.Context) error {
	ticker, elapsing := time.NewTicker(sweepInterval), time.NewTicker(elapseInterval)
	defer ticker.Stop()
	defer elapsing.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			m.sweep(ctx)
			m.revisit()
			m.rewrite(ctx)
		case <-elapsing.C:
			m.elapse()
		}
	}
}
