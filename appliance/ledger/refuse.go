package ledger

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/xdp"
)

// shortage collects what is lacking.
type shortage struct {
	texts  []string
	values [][2]any // key, value
}

// add says that of a resource so much was asked for and so much is free.
func (s *shortage) add(resource string, asked, free uint64, format string, args ...any) {
	s.texts = append(s.texts, fmt.Sprintf(format, args...))
	s.values = append(s.values, [2]any{"asked_" + resource, asked}, [2]any{"free_" + resource, free})
}

// refusal is nil when nothing is lacking.
func (s *shortage) refusal(job string) error {
	if len(s.texts) == 0 {
		return nil
	}
	refused := refusal.New(codes.ResourceExhausted, refusal.NoRoom, "job %q does not fit: %s; delete a job that is not needed, or ask for less",
		job, strings.Join(s.texts, "; ")).With("job", job)
	for _, v := range s.values {
		refused = refused.With(v[0].(string), v[1])
	}
	return refused
}

// withinQuota refuses a job that is larger than any may be, and one too many.
func (l *Ledger) withinQuota(request Request) error {
	class, _ := xdp.ClassOf(int(request.Elements))
	torSlots := request.TorSlots
	if request.Tor != v1.TorUse_TOR_USE_PRIVATE {
		torSlots = 0 // the shared region is nobody's
	}
	var texts []string
	refused := refusal.New(codes.ResourceExhausted, refusal.OverQuota, "").With("job", request.Name)
	for _, q := range []struct {
		key, what    string
		asked, quota uint64
	}{
		{"workers", "workers", uint64(request.Workers), uint64(l.config.Quota.Workers)},
		{"window", "chunks in flight", uint64(request.Window), uint64(l.config.Quota.Window)},
		{"memory", "bytes of the aggregator", uint64(max(request.Shards, 1)) * uint64(request.ring()) * xdp.SlotBytes(class), l.config.Quota.Memory},
		{"tor_slots", "slots of the ToR", uint64(torSlots), uint64(l.config.Quota.TorSlots)},
	} {
		if q.quota > 0 && q.asked > q.quota {
			texts = append(texts, fmt.Sprintf("%d %s are asked for, and a job may have %d", q.asked, q.what, q.quota))
			refused = refused.With("asked_"+q.key, q.asked).With("quota_"+q.key, q.quota)
		}
	}
	if most := l.config.Quota.Jobs; most > 0 && len(l.held) >= int(most) {
		texts = append(texts, fmt.Sprintf("there may be %d jobs, and there are %d", most, len(l.held)))
		refused = refused.With("asked_jobs", len(l.held)+1).With("quota_jobs", most)
	}
	if len(texts) == 0 {
		return nil
	}
	refused.Text = fmt.Sprintf("job %q is over its quota: %s; ask for less, or raise jobs.quota in the configuration", request.Name, strings.Join(texts, "; "))
	return refused
}
