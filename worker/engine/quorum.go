package engine

import (
	"fmt"
	"math/bits"

	"spillway/wire"
)

// Policy is what the job does about stragglers (docs/protocol.md section 7). With Quorum 0, or that of all workers, it waits for them. Otherwise
// a chunk's sum that has waited for After and has Quorum contributors may be released without the others, and is final: such a RESULT is no error.
type Policy struct {
	Quorum int   // K
	After  int64 // D, nanoseconds
	MaxLag int   // by how many chunks more than a window the slowest rank may be behind
}

func (p *Policy) validate(workers int) error {
	switch {
	case p.Quorum < 0 || p.Quorum > workers:
		return fmt.Errorf("quorum %d is not between 0 and the %d workers", p.Quorum, workers)
	case p.Quorum == 0 || p.Quorum == workers:
		return nil
	case p.After <= 0:
		return fmt.Errorf("quorum %d after %d ns: the time is not above zero", p.Quorum, p.After)
	case p.MaxLag < 0 || p.MaxLag > MaxWindow:
		return fmt.Errorf("a lag of %d chunks is not between 0 and %d", p.MaxLag, MaxWindow)
	}
	return nil
}

// releases reports whether RESULTs can lack somebody.
func (c *Config) releases() bool { return c.Policy.Quorum != 0 && c.Policy.Quorum < c.Workers }

// ring is R: how many slots the home gives the job, and how many RESULTs a worker keeps.
func (c *Config) ring() uint32 {
	if !c.releases() {
		return wire.RingSize(c.Window)
	}
	return wire.RingSizeWithLag(c.Window, c.Policy.MaxLag+wire.ShardLag(c.Shards))
}

// patrol bounds the time between two questions about the oldest chunk: the home releases a chunk only when it is asked about.
func (c *Config) patrol() int64 { return max(c.Policy.After/4, c.MinRTO) }

// keepEarly keeps the RESULT of a chunk that this rank has not sent, to take it instead of sending the chunk.
func (e *Engine) keepEarly(position uint64, h *wire.Header, packet []byte) {
	switch {
	case e.results.find(position) != nil:
		e.stats.DuplicateResults++
	case !e.cfg.releases() || h.Bitmap&e.own != 0 || position-e.base >= uint64(e.cfg.ring()) || len(packet) > e.results.stride:
		e.stats.UnaskedResults++
	default:
		e.results.store(position, packet, false)
		e.stats.EarlyResults++
	}
}

// settle takes the RESULT of a chunk that is about to be sent for the first time, if it was released before. False: it was not.
func (e *Engine) settle(now int64, position uint64, ch *chunk) bool {
	if !e.cfg.releases() {
		return false
	}
	entry := e.results.find(position)
	if entry == nil {
		return false
	}
	var h wire.Header
	elements, err := h.Decode(e.results.packet(position, entry))
	if err != nil || h.Op != ch.op || h.Elems != ch.elems {
		e.stats.MismatchedPacket++
		return false
	}
	ch.done = true
	e.stats.Results++
	e.lastProgress, e.doublings = now, 0
	e.take(ch, &h, elements)
	if shards := e.cfg.Shards; shards > 1 && wire.Shard(uint32(position), shards) != wire.Shard(uint32(position+1), shards) {
		e.tell(now, wire.Shard(uint32(position), shards))
	}
	return true
}

// onRelease takes from a RESULT without everybody what it says about the others: no round trip, as it waited for the deadline, but that what was sent
// before is overdue as well. The home releases what it is asked about, so a rank whose own question brought this RESULT asks about all that it sent before that.
func (e *Engine) onRelease(ch *chunk) {
	e.stats.PartialResults++
	lines := e.linesOf(ch)
	lines.repair = max(lines.repair, ch.lastSent-e.path().smoothed/4)
	if ch.probes > 0 {
		e.credit = len(e.chunks)
	}
}

// Outcome says who is in the result of a finished collective that has no error. It is the same at every rank, but for Missed.
type Outcome struct {
	// Contributors are the ranks that are in all of it, one bit each.
	Contributors uint64
	// Partial means that some elements lack some rank.
	Partial bool
	// Missed is how many elements lack this rank's contribution.
	Missed int
	// Spans are the elements by contributors, in order and without gaps.
	Spans []Span
}

// Span is a run of elements, [First, Last), that the same ranks contributed to.
type Span struct {
	First, Last  int
	Contributors uint64
}

// Outcome says who is in the result; for a collective that Completed has returned without an error.
func (c *Collective) Outcome() Outcome {
	o := Outcome{Contributors: c.everybody}
	for i := range c.chunks {
		from, to := c.extent(i)
		who := c.everybody
		if c.contributors != nil {
			who = c.contributors[i]
		}
		o.Contributors &= who
		o.Partial = o.Partial || who != c.everybody
		if who&c.own == 0 {
			o.Missed += to - from
		}
		if last := len(o.Spans) - 1; last >= 0 && o.Spans[last].Contributors == who {
			o.Spans[last].Last = to
		} else {
			o.Spans = append(o.Spans, Span{from, to, who})
		}
	}
	return o
}

// agree notes who is in the exponents of a group.
func (c *Collective) agree(group int, bitmap uint64) {
	if c.agreed != nil {
		c.agreed[group] = bitmap
	}
}

// quantises reports whether this rank is in the exponents that a data chunk is quantised with. If it is not, its elements may not fit, and what of them would be
// in the sum nobody else could tell: it contributes zeros, and every rank knows that it did.
func (c *Collective) quantises(group int32) bool {
	return c.agreed == nil || c.agreed[group]&c.own != 0
}

// credit notes who is in a data chunk, and hands back what this rank has of it if it is not one of them. Before take.
func (c *Collective) credit(index, group int, bitmap uint64) (who uint64) {
	if c.agreed != nil {
		bitmap &= c.agreed[group]
	}
	c.contributors[index] = bitmap
	c.returnResidual(index, bitmap&c.own == 0)
	return bitmap
}

// returnResidual hands back this rank's elements of a data chunk if its sum lacks them.
func (c *Collective) returnResidual(index int, missed bool) {
	from, to := c.extent(index)
	if c.ResidualF32 != nil {
		handBack(c.ResidualF32[from:to], c.F32[from:to], missed)
	}
	if c.ResidualI32 != nil {
		handBack(c.ResidualI32[from:to], c.I32[from:to], missed)
	}
}

func handBack[T any](residual, input []T, missed bool) {
	if missed {
		copy(residual, input)
	} else {
		clear(residual)
	}
}

// rescale makes the sum of some ranks what it would be if the others had contributed their mean.
func (c *Collective) rescale(index int, who uint64) {
	if !c.Rescale || who == c.everybody || who == 0 {
		return
	}
	factor := float64(bits.OnesCount64(c.everybody)) / float64(bits.OnesCount64(who))
	from, to := c.extent(index)
	for i := from; i < to; i++ {
		c.F32[i] = float32(float64(c.F32[i]) * factor)
	}
}

// disagrees compares the descriptor that the others agreed on without this rank with its own.
func (c *Collective) disagrees(b []byte) {
	length, kind := lane(b, laneLength), Kind(lane(b, laneKind))
	layout := lane(b, laneLayout)
	if length == int32(c.length) && kind == c.kind() && layout == c.layout() {
		return
	}
	c.disagreement = &DisagreementError{
		MinElements: min(int(length), c.length), MaxElements: max(int(length), c.length),
		MinKind: min(kind, c.kind()), MaxKind: max(kind, c.kind()), Layout: layout != c.layout(),
	}
}
