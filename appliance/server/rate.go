package server

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// rates bounds the calls of each peer.
type rates struct {
	perSecond rate.Limit
	burst     int

	mu    sync.Mutex // over what follows
	peers map[string]*rate.Limiter
	swept time.Time
}

// sweepEvery is how often peers are forgotten that have not called for so long that they may call as if they never had.
const sweepEvery = 10 * time.Second

func newRates(limits Limits) *rates {
	return &rates{perSecond: rate.Limit(limits.CallsPerSecond), burst: limits.Burst, peers: map[string]*rate.Limiter{}}
}

// allow says whether a peer may call now.
func (r *rates) allow(peer string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.swept) > sweepEvery {
		for name, limiter := range r.peers {
			if limiter.TokensAt(now) >= float64(r.burst) {
				delete(r.peers, name)
			}
		}
		r.swept = now
	}
	limiter := r.peers[peer]
	if limiter == nil {
		limiter = rate.NewLimiter(r.perSecond, r.burst)
		r.peers[peer] = limiter
	}
	return limiter.AllowN(now, 1)
}
