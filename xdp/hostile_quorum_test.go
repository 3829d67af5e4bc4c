package xdp

import (
	"math/bits"

	"spillway/wire"
)

// behind is what packets have told of how far the workers of the attacked job with a quorum are, in other words than the program's
// (docs/protocol.md, section 7, "Lag").
type behind struct {
	sent  [3]uint32 // newest seq of each rank
	heard [3]bool
	full  uint32 // newest seq published with everybody in it
	any   bool
	// first is the first seq that was told, and the others lie from least to most beside it.
	first       uint32
	least, most int64
	told        bool
}

// hear takes note of an admitted packet.
func (b *behind) hear(h *wire.Header) {
	if !b.told {
		b.first, b.told = h.Seq, true
	}
	distance := int64(int32(h.Seq - b.first))
	b.least, b.most = min(b.least, distance), max(b.most, distance)
	if h.Type == wire.Result {
		return
	}
	for rank := range b.sent {
		if h.Bitmap>>rank&1 != 0 && (!b.heard[rank] || wire.SeqBefore(b.sent[rank], h.Seq)) {
			b.sent[rank], b.heard[rank] = h.Seq, true
		}
	}
}

// torn reports whether seqs were told that lie half of all seqs apart. Which of them is the newer one nobody can say, and so not who is behind: members are
// trusted not to do that to their own job (docs/decisions/0032).
func (b *behind) torn() bool { return b.most-b.least >= 1<<31-1<<10 }

// has reports whether everybody is known to have the RESULT of a chunk: who sends m has all up to m - W.
func (b *behind) has(seq uint32, window int) bool {
	if b.any && !wire.SeqBefore(b.full-uint32(window), seq) {
		return true
	}
	for rank := range b.sent {
		if !b.heard[rank] || wire.SeqBefore(b.sent[rank]-uint32(window), seq) {
			return false
		}
	}
	return true
}

// quorum checks what a job with a quorum promises besides: a chunk that somebody may need keeps its slot, and what is released has K ranks at least and is final.
func (at *attack) quorum(h *wire.Header, job *Job, was, is slotContent, counted map[string]uint64) {
	at.Helper()
	tenant := tenantOf(job.ID, job.Generation)
	at.behind.hear(h)
	ordered := !at.behind.torn()
	if ordered && was.Tenant == tenant && is.Seq != was.Seq && !at.behind.has(h.Seq-attackedRing, job.Window) {
		at.Fatalf("chunk %d took the slot of %d, and %+v", h.Seq, was.Seq, at.behind)
	}
	if ordered && counted["lagging"] != 0 && at.behind.has(h.Seq-attackedRing, job.Window) {
		at.Fatalf("chunk %d must wait, and %+v", h.Seq, at.behind)
	}
	if counted["released"] != 0 && (bits.OnesCount64(is.Bitmap) < job.Policy.Quorum || is.Complete == 0 || is.Flags&uint8(wire.Partial) == 0) {
		at.Fatalf("released is %+v", is)
	}
	if is.Tenant == tenant && is.Complete != 0 && is.Bitmap == wire.FullBitmap(job.Workers) && counted["published"] != 0 &&
		(!at.behind.any || wire.SeqBefore(at.behind.full, is.Seq)) {
		at.behind.full, at.behind.any = is.Seq, true
	}
}
