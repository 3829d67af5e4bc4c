package engine

import (
	"slices"

	"spillway/wire"
)

// chunk is the state of one outstanding seq: opened, and without its RESULT.
type chunk struct {
	collective *Collective
	lastSent   int64 // when its DATA was last sent
	lastAsked  int64 // when the home was last asked about it, by DATA or PROBE: the order of the suspects
	due        int64 // when it is sent again unless a lower rank's RESEND was enough; 0: it is not waiting for that
	have       uint64
	above      uint64 // with heldAbove: whom a node above the home has
	prev, next int32  // neighbours among the suspects
	index      int32  // number of the data chunk, or group of the exponent chunk
	group      int32  // of a data chunk: the group that its exponent is in
	sends      uint32
	probes     uint32
	elems      uint16 // on the wire
	slot       uint16 // of the ToR; wire.NoSlot: it is for the home
	class      uint8  // of the suspects
	kind       chunkKind
	op         wire.Op

	done       bool // its RESULT is in
	held       bool // the home has this rank's contribution
	haveKnown  bool
	heldAbove  bool // the home has everybody of its own, and waits for others
	asked      bool // probed since it was last sent
	solicited  bool // a SOLICIT for it was seen
	wantResend bool // it is among the resends
}

// open fills in the chunk at an offset of a collective.
func (ch *chunk) open(c *Collective, offset int, slot uint16, class uint8) {
	kind, index, group := c.at(offset)
	elems, op := c.size(kind, index)
	*ch = chunk{collective: c, kind: kind, index: int32(index), group: int32(group), elems: uint16(wire.Padded(elems)), slot: slot, class: class, op: op, prev: none, next: none}
}

// forTor reports whether the chunk is for the ToR, and not for its home.
func (ch *chunk) forTor() bool { return ch.slot != wire.NoSlot }

// waits reports whether the chunk cannot be sent yet, because its exponent is not known.
func (ch *chunk) waits() bool {
	return ch.kind == dataChunk && ch.collective.scaled() && !ch.collective.known[ch.group]
}

// none is the end of a list of chunks.
const none = -1

// noSuspects are empty lists for every class of chunks: those for the home of each shard, in order, and those for the ToR.
func noSuspects(shards int) []order { return slices.Repeat([]order{{none, none}}, shards+1) }

// class is which of the lists of suspects a chunk with a slot at the ToR, or none, is in.
func (c *Config) class(seq uint32, slot uint16) uint8 {
	if slot != wire.NoSlot {
		return uint8(c.Shards)
	}
	return uint8(wire.Shard(seq, c.Shards))
}

// order is the list of the chunks that were sent and have no RESULT, the longest not asked about first. Chunks are named by their
// place in the window's array.
type order struct{ head, tail int32 }

func (o *order) remove(chunks []chunk, i int32) {
	ch := &chunks[i]
	if ch.prev != none {
		chunks[ch.prev].next = ch.next
	} else {
		o.head = ch.next
	}
	if ch.next != none {
		chunks[ch.next].prev = ch.prev
	} else {
		o.tail = ch.prev
	}
	ch.prev, ch.next = none, none
}

func (o *order) push(chunks []chunk, i int32) {
	chunks[i].prev, chunks[i].next = o.tail, none
	if o.tail != none {
		chunks[o.tail].next = i
	} else {
		o.head = i
	}
	o.tail = i
}

// queue is a first-in-first-out queue of positions with a fixed capacity, a power of two.
type queue struct {
	positions  []uint64
	head, tail uint64
}

func newQueue(capacity uint32) queue { return queue{positions: make([]uint64, capacity)} }

func (q *queue) empty() bool { return q.head == q.tail }

// full reports whether push would lose the oldest entry.
func (q *queue) full() bool { return q.tail-q.head == uint64(len(q.positions)) }

func (q *queue) push(position uint64) {
	q.positions[q.tail&uint64(len(q.positions)-1)] = position
	q.tail++
}

func (q *queue) peek() uint64 { return q.positions[q.head&uint64(len(q.positions)-1)] }

func (q *queue) pop() { q.head++ }

func (q *queue) reset() { q.head = q.tail }
