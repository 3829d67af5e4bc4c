package engine

// window is the congestion window: additive increase, multiplicative decrease on ECN marks only (RFC 3168). Loss alone does not
// shrink it: at most W packets of a worker are in flight whatever happens, and what a rack loses is mostly not congestion.
type window struct {
	size    float64 // chunks, in [1, limit]
	limit   float64 // W
	lastCut int64
	cut     bool // lastCut is set
}

// onResult counts one RESULT, with or without a congestion mark, and reports whether the window was halved: at most once a round trip.
func (w *window) onResult(now int64, marked bool, roundTrip int64) (halved bool) {
	if !marked {
		w.size = min(w.limit, w.size+1/w.size)
		return false
	}
	if w.cut && now-w.lastCut < roundTrip {
		return false
	}
	w.size = max(1, w.size/2)
	w.lastCut, w.cut = now, true
	return true
}

// chunks is the window used.
func (w *window) chunks() uint64 { return uint64(w.size) }
