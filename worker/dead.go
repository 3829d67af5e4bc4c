package worker

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

// DeadRanksError says that ranks no longer take part, and will not: their calls to the appliance broke and were not made again within the job's
// lost_after, or, in an elastic job, they have left it or gone on to its next generation. It breaks the job at this worker; in an elastic job Rejoin is
// what comes next.
type DeadRanksError struct {
	// Ranks are all that are dead, ascending, and Descriptions who each of them was, in the appliance's words: its address, and what it said of itself
	// when it joined, which is host and process for this library.
	Ranks        []int
	Descriptions []string
	// Since is when the first of them was heard of last, by this host's clock.
	Since time.Time
	// Text is what the appliance said, if it did.
	Text string
}

func (e *DeadRanksError) Error() string {
	text := e.Text
	if text == "" {
		text = describeRanks(e.Ranks) + " no longer takes part"
		if len(e.Ranks) > 1 {
			text = describeRanks(e.Ranks) + " no longer take part"
		}
	}
	return fmt.Sprintf("%s (since %s)", text, e.Since.Format(time.RFC3339Nano))
}

// deaths is what a session heard of ranks that are dead. Only the session's goroutine has it.
type deaths struct {
	known map[int]string // descriptions, by rank
	since time.Time
}

// dead takes in that ranks are dead, and breaks the job at this worker, unless enough of a quorum are left.
func (s *session) dead(n *v1.Notice, now time.Time) {
	if s.deaths.known == nil {
		s.deaths.known = map[int]string{}
	}
	since := now
	if ago := n.GetAgo(); ago.IsValid() && ago.AsDuration() > 0 {
		since = now.Add(-ago.AsDuration())
	}
	if len(s.deaths.known) == 0 || since.Before(s.deaths.since) {
		s.deaths.since = since
	}
	descriptions := n.GetDescriptions()
	for i, rank := range n.GetRanks() {
		for _, rank := range ranksOf([]uint32{rank}) {
			s.deaths.known[rank] = ""
			if i < len(descriptions) {
				s.deaths.known[rank] = descriptions[i]
			}
		}
	}
	if s.worker == nil || len(s.deaths.known) == 0 {
		return
	}
	if p := s.worker.Params(); p.Policy.Quorum > 0 && p.Policy.Quorum < p.Workers && p.Workers-len(s.deaths.known) >= p.Policy.Quorum {
		s.log.LogAttrs(s.ctx, slog.LevelWarn, "the job goes on without dead ranks: a quorum is left", slog.Int("quorum", p.Policy.Quorum),
			slog.Int("left", p.Workers-len(s.deaths.known)))
		return
	}
	e := &DeadRanksError{Since: s.deaths.since, Text: strings.TrimRight(n.GetText(), ". ")}
	for rank := range s.deaths.known {
		e.Ranks = append(e.Ranks, rank)
	}
	slices.Sort(e.Ranks)
	for _, rank := range e.Ranks {
		e.Descriptions = append(e.Descriptions, s.deaths.known[rank])
	}
	// An error means that the worker has stopped by itself.
	_ = s.worker.post(request{fail: e})
}

// alive takes in that ranks are back.
func (s *session) alive(ranks []int) {
	for _, rank := range ranks {
		delete(s.deaths.known, rank)
	}
}
