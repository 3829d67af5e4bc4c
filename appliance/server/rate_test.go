package server

import (
	"fmt"
	"testing"
	"time"
)

// TestRatesForget: peers that have not called for a while cost nothing, and a peer does not gain by being forgotten.
func TestRatesForget(t *testing.T) {
	r := newRates(Limits{CallsPerSecond: 1, Burst: 20})
	now := time.Now()
	for n := range 1000 {
		r.allow(fmt.Sprint(n), now)
	}
	for range 20 {
		r.allow("busy", now)
	}
	now = now.Add(sweepEvery + time.Second)
	calls := 0
	for r.allow("busy", now) {
		calls++
	}
	if calls != 11 {
		t.Errorf("%d calls after 11 s at 1 a second, want 11", calls)
	}
	if len(r.peers) != 1 {
		t.Errorf("%d peers are remembered, want the busy one", len(r.peers))
	}
}
