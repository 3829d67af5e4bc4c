package worker

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"spillway/appliance/refusal"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(level slog.Level) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, "level="+level.String()+" ") && strings.Contains(line, "no call to the appliance") {
			n++
		}
	}
	return n
}

// TestOutageIsOneWarning: however often and for whatever reasons the call is refused, there is one warning until it stands again.
func TestOutageIsOneWarning(t *testing.T) {
	a, l := newAppliance(t, ""), newLoopback(t, 1, 0)
	log := &lines{}
	_, c := joinOne(t, a, l.of(0), WithLogger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	for outage := 1; outage <= 2; outage++ {
		for _, reason := range []refusal.Reason{refusal.ShuttingDown, refusal.NotLeader, refusal.ShuttingDown, refusal.NotLeader} {
			c.end <- refusal.New(codes.Unavailable, reason, "not now")
			c = a.next(t)
		}
		if warned, besides := log.count(slog.LevelWarn), log.count(slog.LevelDebug); warned != outage || besides != 3*outage {
			t.Errorf("after %d outages: %d warnings, %d at debug", outage, warned, besides)
		}
		c.parameters(t, l.of(0))
	}
}
