package peer

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"spillway/appliance/jobs"
	"spillway/appliance/refusal"
	"spillway/xdp"
)

// Terms are what an appliance knows of leaders: the highest term that it has heard of, and since when that leader is silent. Terms only grow.
type Terms struct {
	// orders is held for reading by each order while it is carried out, and for writing to take note of a higher term; taken before mu.
	orders  sync.RWMutex
	mu      sync.Mutex
	highest uint64
	own     uint64    // the term in which this appliance leads; 0: it does not
	beats   int       // streams of the highest term that are there
	heard   time.Time // when its last heartbeat came
	changed chan struct{}
}

// NewTerms knows of no leader.
func NewTerms() *Terms { return &Terms{changed: make(chan struct{})} }

// Admit takes note of a term, and refuses one that is not the highest. It waits for the orders of lower terms that are being carried out: what the
// leader of a higher one sees and does is never changed by those before.
func (t *Terms) Admit(term uint64) error {
	defer t.above(term)()
	t.mu.Lock()
	defer t.mu.Unlock()
	if term < t.highest {
		return oldTerm(term, t.highest)
	}
	t.raise(term)
	return nil
}

// above waits for the orders that are being carried out if a term is higher than what was heard of, and lets none begin until it is called.
func (t *Terms) above(term uint64) (done func()) {
	t.mu.Lock()
	higher := term > t.highest
	t.mu.Unlock()
	if !higher {
		return func() {}
	}
	t.orders.Lock()
	return t.orders.Unlock
}

// order carries out an order of a term, unless that is not the highest.
func (t *Terms) order(term uint64, do func() error) error {
	if err := t.Admit(term); err != nil {
		return err
	}
	t.orders.RLock()
	defer t.orders.RUnlock()
	if highest, _ := t.Highest(); term < highest {
		return oldTerm(term, highest)
	}
	return do()
}

func oldTerm(term, highest uint64) error {
	return refusal.New(codes.FailedPrecondition, refusal.OldTerm, "an order of term %d: another appliance leads since, in term %d", term, highest).
		With("term", highest)
}

// raise notes a term; the lock is held.
func (t *Terms) raise(term uint64) {
	if term > t.highest {
		t.highest, t.beats, t.heard = term, 0, time.Time{}
		t.change()
	}
}

func (t *Terms) change() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// Lead says that this appliance leads in a term, or with 0 that it does not any more.
func (t *Terms) Lead(term uint64) error {
	if term != 0 {
		if err := t.Admit(term); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.own = term
	t.change()
	return nil
}

// Highest is the highest term, and whether it is this appliance's own.
func (t *Terms) Highest() (term uint64, leads bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.highest, t.own != 0 && t.own == t.highest
}

// Pulse is how the leader of a term is heard.
type Pulse struct {
	// Beating says that its stream is there, Heard when its last heartbeat came; the zero time: none did.
	Beating bool
	Heard   time.Time
	// Changed is closed when the stream comes or goes, or another term is heard of.
	Changed <-chan struct{}
}

// Pulse is how the leader of a term is heard; that of an older term is not.
func (t *Terms) Pulse(term uint64) Pulse {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := Pulse{Changed: t.changed}
	if term == t.highest {
		p.Beating, p.Heard = t.beats > 0, t.heard
	}
	return p
}

// begin notes that a leader's stream is there; the function notes that it is gone.
func (t *Terms) begin(term uint64) (end func(), err error) {
	defer t.above(term)()
	t.mu.Lock()
	defer t.mu.Unlock()
	if term < t.highest {
		return nil, oldTerm(term, t.highest)
	}
	t.raise(term)
	t.beats++
	t.change()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if term == t.highest {
			t.beats--
			t.change()
		}
	}, nil
}

// beat notes a heartbeat.
func (t *Terms) beat(term uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if term != t.highest {
		return oldTerm(term, t.highest)
	}
	t.heard = time.Now()
	return nil
}

// Held is this host's aggregator as the leader of a term has it: once another leads, it takes no more orders of this one.
func (t *Terms) Held(term uint64, of jobs.Aggregator) jobs.Aggregator { return held{t, term, of} }

type held struct {
	terms *Terms
	term  uint64
	jobs.Aggregator
}

func (h held) AddJob(ctx context.Context, job xdp.Job) error {
	return h.terms.order(h.term, func() error { return h.Aggregator.AddJob(ctx, job) })
}

func (h held) RemoveJob(ctx context.Context, id uint16) error {
	return h.terms.order(h.term, func() error { return h.Aggregator.RemoveJob(ctx, id) })
}
