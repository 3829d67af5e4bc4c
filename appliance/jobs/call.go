package jobs

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "spillway/appliance/api/spillway/v1"
)

// call is a worker's Join while it lasts. It holds what the worker has not been told yet: not a queue of messages, but the last word on each subject, so
// that a worker that does not read costs as much as one that does. All of it but what is fixed at its beginning is under Manager.mu.
type call struct {
	job         *job
	rank        uint32
	address     netip.Addr
	paths       map[string]Path // from the nodes where the job has a place, by name
	description string
	since       time.Time
	// Of a call for an elastic job: that it takes any rank, preferably asked; the part that it had before, as it says, and as which rank if that is so,
	// else -1. While it waits, rank is its seat.
	anyRank bool
	asked   uint32
	part    *v1.Resume
	before  int
	// wake has a token when there is something to tell.
	wake chan struct{}

	// waiting: the worker should hear how it stands. params are to be sent; after them there is nothing to wait for.
	waiting bool
	params  *v1.Parameters
	// news is the last word on each other rank, draining and tor what is to be said of the job and of the ToR.
	news     map[uint32]news
	draining bool
	tor      string
	// deaths and resize are the last word on who is dead, and on who waits for the next generation.
	deaths, resize *v1.Notice
	// ended: nothing more comes but what is above, and then the call returns err.
	ended bool
	err   error
}

// news is about another rank. Who that is, in words, is kept as it was: the call may be told after the generation is over.
type news struct {
	kind v1.NoticeKind
	who  string
}

// poke wakes the call's goroutine.
func (c *call) poke() {
	select {
	case c.wake <- struct{}{}:
	default: // it is to wake anyway
	}
}

// end lets the call return.
func (c *call) end(err error) {
	if c.ended {
		return
	}
	c.ended, c.err = true, err
	c.poke()
}

// begin tells the worker its parameters.
func (c *call) begin(params *v1.Parameters) {
	c.waiting, c.params = false, params
	c.poke()
}

// tell has a notice about another rank.
func (c *call) tell(kind v1.NoticeKind, rank uint32) {
	if c.news == nil {
		c.news = map[uint32]news{}
	}
	c.news[rank] = news{kind, c.job.who(rank)}
	c.poke()
}

// take is what is to be sent now, in order, and whether the call is over then.
func (c *call) take(now time.Time) (updates []*v1.JoinResponse, ended bool, err error) {
	if c.waiting && !c.ended {
		updates = append(updates, &v1.JoinResponse{Update: &v1.JoinResponse_Waiting{Waiting: &v1.Waiting{
			Missing: c.job.missing(), Workers: c.job.record.Spec.Workers, Since: timestamppb.New(c.since), Step: c.job.progress(),
		}}})
	}
	if c.params != nil {
		updates = append(updates, &v1.JoinResponse{Update: &v1.JoinResponse_Parameters{Parameters: c.params}})
	}
	notice := func(kind v1.NoticeKind, ranks []uint32, format string, args ...any) {
		updates = append(updates, &v1.JoinResponse{Update: &v1.JoinResponse_Notice{Notice: &v1.Notice{Kind: kind, Ranks: ranks, Text: fmt.Sprintf(format, args...)}}})
	}
	if c.draining {
		notice(v1.NoticeKind_NOTICE_KIND_DRAINING, nil, "job %s is draining: finish, and leave", c.job.name)
	}
	if c.tor != "" {
		notice(v1.NoticeKind_NOTICE_KIND_SWITCH, nil, "%s", c.tor)
	}
	about := func(kind v1.NoticeKind) []uint32 {
		return c.job.ranks(func(rank uint32) bool { return c.news[rank].kind == kind })
	}
	for _, rank := range about(v1.NoticeKind_NOTICE_KIND_LOST) {
		// The worker adds when this came, if it has to explain for whom it waits.
		notice(v1.NoticeKind_NOTICE_KIND_LOST, []uint32{rank}, "%s lost its connection", c.news[rank].who)
	}
	if ranks := about(v1.NoticeKind_NOTICE_KIND_RESUMED); len(ranks) > 0 {
		notice(v1.NoticeKind_NOTICE_KIND_RESUMED, ranks, "%s", these(ranks, "has resumed", "have resumed"))
	}
	if ranks := about(v1.NoticeKind_NOTICE_KIND_LEFT); len(ranks) > 0 {
		notice(v1.NoticeKind_NOTICE_KIND_LEFT, ranks, "%s", these(ranks, "has left in good order", "have left in good order"))
	}
	for _, n := range []*v1.Notice{c.deaths, c.resize} {
		if n != nil {
			updates = append(updates, &v1.JoinResponse{Update: &v1.JoinResponse_Notice{Notice: n}})
		}
	}
	c.waiting, c.params, c.draining, c.tor, c.news, c.deaths, c.resize = false, nil, false, "", nil, nil, nil
	return updates, c.ended, c.err
}

// take is call.take. It lets go of the lock also if there is a bug: the end of the call takes it again, and would hang instead of saying what is wrong.
func (m *Manager) take(c *call) (updates []*v1.JoinResponse, ended bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return c.take(m.config.Now())
}

// serve sends what there is to say until the call is over. A send that blocks holds up nobody else.
func (m *Manager) serve(ctx context.Context, c *call, send func(*v1.JoinResponse) error) error {
	heartbeat := time.NewTicker(m.config.Heartbeat)
	defer heartbeat.Stop()
	for {
		updates, ended, err := m.take(c)
		for _, update := range updates {
			if err := send(update); err != nil {
				return err
			}
		}
		if ended {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.wake:
		case <-heartbeat.C:
			m.mu.Lock()
			c.waiting = c.job.waiting[c.rank] == c
			m.mu.Unlock()
		}
	}
}
