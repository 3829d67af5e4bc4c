package engine

import (
	"errors"
	"fmt"
	"math/bits"
)

// Engine is one worker of one job.
type Engine struct {
	cfg  Config
	own  uint64 // this rank's bit
	full uint64 // everybody's

	// Positions are seqs that do not wrap: the low 32 bits of a position are its seq. They start at 2^32 + FirstSeq.
	base   uint64  // the oldest without a RESULT
	next   uint64  // the first not opened; base <= next <= base + W
	end    uint64  // after the last submitted
	chunks []chunk // by position modulo the length, a power of two >= W

	results  results
	suspects []order  // sent, without a RESULT, the longest not asked about first: by class
	ready    queue    // opened earlier, and their exponent became known
	resends  queue    // asked for by the home
	answers  queue    // RESULTs that the home asked for
	deferred queue    // asked for by the home, and left to a lower rank for a round trip
	ahead    []uint64 // asked for by the home before they were sent, by position modulo the length

	trip       roundTrip // by way of the home
	torTrip    roundTrip // of what the ToR summed
	answerTrip roundTrip // of PROBEs that the home answered with PENDING
	window     window

	lastProgress int64 // of the last new RESULT, or of the Submit that ended idleness
	doublings    int   // of the timer, since the last progress
	unanswered   int   // firings of the timers since the home was last heard
	overdue      int   // probes of the oldest chunk because its RESULT was overdue

	// What was last asked about before these times is suspect (see learn): lines by the home, the second for the chunks for the ToR, the third, the last time
	// that a timer of the oldest chunk fired, for as many chunks as there is credit.
	lines                 []lines
	torLine, recoveryLine int64
	credit                int

	oldest, opening, newest *Collective // in flight, in the order of issue; opening is the one that next is in, nil if all are open
	finished, lastFinished  *Collective // not yet returned by Completed
	spareExponents          [][]int32   // of finished collectives
	spareKnown              [][]bool

	greetings []greeting // by home
	resumedAt int64      // when the generation began

	broken error
	stats  Stats
}

// spares is how many finished collectives leave their memory for later ones.
const spares = 8

// New makes an engine at the beginning of a generation.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	size := uint32(1) << bits.Len(uint(cfg.Window-1))
	start := 1<<32 + uint64(cfg.FirstSeq)
	e := &Engine{
		cfg:  cfg,
		base: start, next: start, end: start,
		chunks:     make([]chunk, size),
		results:    newResults(cfg.ring(), cfg.Elements),
		suspects:   noSuspects(cfg.Shards),
		lines:      make([]lines, cfg.Shards),
		greetings:  make([]greeting, cfg.Shards),
		ready:      newQueue(size),
		resends:    newQueue(2 * size),
		answers:    newQueue(cfg.ring()),
		trip:       roundTrip{minRTO: cfg.MinRTO, maxRTO: cfg.MaxRTO},
		torTrip:    roundTrip{minRTO: cfg.MinRTO, maxRTO: cfg.MaxRTO},
		answerTrip: roundTrip{minRTO: cfg.MinRTO, maxRTO: cfg.MaxRTO},
		window:     window{size: float64(cfg.Window), limit: float64(cfg.Window)},
	}
	e.own, e.full = cfg.bits()
	if cfg.Tor != nil {
		e.makeRoomForTor()
	}
	return e, nil
}

// makeRoomForTor is for what only jobs with a ToR need.
func (e *Engine) makeRoomForTor() {
	e.deferred, e.ahead = newQueue(uint32(len(e.chunks))), make([]uint64, e.cfg.ring())
}

// Submit issues a collective after those issued before it. An error means that it was not issued: the buffer or the operation is
// not one the protocol has, or the job is broken (ErrBroken).
func (e *Engine) Submit(now int64, c *Collective) error {
	if e.broken != nil {
		return e.broken
	}
	if err := c.prepare(e.end, &e.cfg); err != nil {
		return err
	}
	if c.scaled() {
		c.exponents = reuse(&e.spareExponents, c.exponents, c.chunks)
		c.known = reuse(&e.spareKnown, c.known, c.groups+1)
		clear(c.known)
	}
	c.own, c.everybody = e.own, e.full
	if e.cfg.releases() {
		c.contributors = make([]uint64, c.chunks)
		if c.scaled() {
			c.agreed = make([]uint64, c.groups+1)
		}
	}
	e.end = c.end
	if e.oldest == nil {
		e.oldest, e.lastProgress, e.doublings, e.unanswered = c, now, 0, 0
	} else {
		e.newest.following = c
	}
	e.newest = c
	if e.opening == nil {
		e.opening = c
	}
	return nil
}

// Completed is the next finished collective in the order of issue, nil if there is none.
func (e *Engine) Completed() *Collective {
	c := e.finished
	if c == nil {
		return nil
	}
	e.finished, c.following = c.following, nil
	if e.finished == nil {
		e.lastFinished = nil
	}
	return c
}

// Idle reports whether no collective is in flight.
func (e *Engine) Idle() bool { return e.oldest == nil }

// Broken is why the job is broken at this worker, nil if it is not. ErrBroken is in its chain.
func (e *Engine) Broken() error { return e.broken }

// Abort breaks the job at this worker: everything in flight fails with err and ErrBroken, and no buffer is touched any more. Does
// nothing if the job is broken already.
func (e *Engine) Abort(err error) {
	if e.broken != nil {
		return
	}
	e.broken = err
	if !errors.Is(err, ErrBroken) {
		e.broken = &brokenError{err}
	}
	for e.oldest != nil {
		e.oldest.err = e.broken
		e.finishOldest()
	}
	// Nothing is outstanding any more. RESULTs are kept: the others may still need them.
	e.base, e.next, e.opening = e.end, e.end, nil
	e.suspects = noSuspects(e.cfg.Shards)
	e.ready.reset()
	e.resends.reset()
	e.deferred.reset()
	clear(e.chunks)
}

// finishOldest moves the oldest collective to the finished ones.
func (e *Engine) finishOldest() {
	c := e.oldest
	e.oldest, c.following = c.following, nil
	if e.oldest == nil {
		e.newest = nil
	}
	if e.lastFinished == nil {
		e.finished = c
	} else {
		e.lastFinished.following = c
	}
	e.lastFinished = c
	keep(&e.spareExponents, c.exponents)
	keep(&e.spareKnown, c.known)
	c.exponents, c.known = nil, nil
	e.stats.Collectives++
}

func (e *Engine) chunk(position uint64) *chunk {
	return &e.chunks[position&uint64(len(e.chunks)-1)]
}

func (e *Engine) place(position uint64) int32 { return int32(position & uint64(len(e.chunks)-1)) }

// reuse makes own n long, from the spares or anew if it is too short.
func reuse[T any](spare *[][]T, own []T, n int) []T {
	if cap(own) >= n {
		return own[:n]
	}
	for i, s := range *spare {
		if cap(s) >= n {
			last := len(*spare) - 1
			(*spare)[i] = (*spare)[last]
			*spare = (*spare)[:last]
			return s[:n]
		}
	}
	return make([]T, n)
}

// keep leaves memory for reuse; the oldest gives way.
func keep[T any](spare *[][]T, s []T) {
	switch {
	case cap(s) == 0:
	case len(*spare) < spares:
		*spare = append(*spare, s)
	default:
		copy(*spare, (*spare)[1:])
		(*spare)[spares-1] = s
	}
}
