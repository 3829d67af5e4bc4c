package worker

import (
	"slices"
	"strings"
	"sync"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/wire"
)

// absence is what the appliance last said of ranks that no longer take part. The session writes it, errors read it.
type absence struct {
	mu   sync.Mutex
	said [wire.MaxChildren]*departure
}

// departure is one notice, which may be about several ranks.
type departure struct {
	text string
	at   time.Time
}

// take notes a notice of ranks that have gone, or have come back.
func (a *absence) take(notice *v1.Notice, now time.Time) {
	var d *departure
	ranks := ranksOf(notice.GetRanks())
	switch notice.GetKind() {
	case v1.NoticeKind_NOTICE_KIND_LOST, v1.NoticeKind_NOTICE_KIND_LEFT:
		d = &departure{text: strings.TrimRight(notice.GetText(), ". "), at: now}
		if d.text == "" && notice.GetKind() == v1.NoticeKind_NOTICE_KIND_LOST {
			d.text = describeRanks(ranks) + " lost the connection to the appliance"
		} else if d.text == "" {
			d.text = describeRanks(ranks) + " left the job"
		}
	case v1.NoticeKind_NOTICE_KIND_RESIZE:
		if len(ranks) == 0 { // those that wait are new
			return
		}
		d = &departure{text: strings.TrimRight(notice.GetText(), ". "), at: now}
	case v1.NoticeKind_NOTICE_KIND_RESUMED:
	default:
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, rank := range ranks {
		a.said[rank] = d
	}
}

// of is what was said of some of these ranks, the longest ago first.
func (a *absence) of(ranks []int) (gone []Gone) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	by := map[*departure]int{}
	for _, rank := range ranks {
		d := a.said[rank]
		if d == nil {
			continue
		}
		at, known := by[d]
		if !known {
			at = len(gone)
			by[d] = at
			gone = append(gone, Gone{Text: d.text, Since: d.at, For: now.Sub(d.at)})
		}
		gone[at].Ranks = append(gone[at].Ranks, rank)
	}
	slices.SortStableFunc(gone, func(a, b Gone) int { return a.Since.Compare(b.Since) })
	return gone
}
