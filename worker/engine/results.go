package engine

import "spillway/wire"

// results keeps the last RESULTs as they came, one place for each slot of the home's ring, across collectives: a worker whose
// RESULT was lost may need one that is up to 2W chunks old (under a quorum, as many more as it may lag), when the home lost it as well.
type results struct {
	entries []result
	bytes   []byte
	stride  int
}

// result is one kept RESULT.
type result struct {
	position   uint64 // 0: none, positions start far above
	size       int
	lastAnswer int64
	answered   bool // lastAnswer is set
	solicited  bool // a SOLICIT for it was seen
	wanted     bool // it is among the answers
}

func newResults(ring uint32, elements int) results {
	stride := wire.HeaderSize + elements*wire.ElementSize
	return results{entries: make([]result, ring), bytes: make([]byte, int(ring)*stride), stride: stride}
}

func (r *results) slot(position uint64) int { return int(position & uint64(len(r.entries)-1)) }

// store keeps a RESULT in place of the one that is a ring older.
func (r *results) store(position uint64, packet []byte, solicited bool) {
	i := r.slot(position)
	r.entries[i] = result{position: position, size: len(packet), solicited: solicited}
	copy(r.bytes[i*r.stride:], packet)
}

// find is the entry of a position, nil if its RESULT is not kept.
func (r *results) find(position uint64) *result {
	if entry := &r.entries[r.slot(position)]; entry.position == position {
		return entry
	}
	return nil
}

// packet is the RESULT of an entry.
func (r *results) packet(position uint64, entry *result) []byte {
	i := r.slot(position)
	return r.bytes[i*r.stride : i*r.stride+entry.size]
}
