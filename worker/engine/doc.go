// Package engine is the worker's side of the protocol (docs/protocol.md sections 2, 4 and 5) as a pure state machine: packets and
// the time go in, packets and finished collectives come out. It does no I/O, has no clock, starts no goroutines and is
// deterministic, so that the same code runs under the UDP transport and in a simulated network. After Submit nothing allocates.
//
// How it finds losses. Every outstanding chunk is in one list, ordered by when the home was last asked about it (DATA or PROBE). All
// ranks send in the order of seqs, so results come back in about that order; a RESULT for a chunk that was sent later than the head of the
// list, by more than a quarter of the round trip, makes the head suspect, and a PROBE asks the home about it (RACK, RFC 8985). Chunks
// that were repaired do not count there: their RESULT depends on the repair alone, while the others may yet wait for a rank that
// lags. They make only the oldest chunk suspect.
//
// Timers cover what is left, tails and silence. They belong to the oldest chunk without a RESULT, which is what holds the window up. One
// sends a PROBE when its RESULT is overdue by half a round trip (with back-off), the other, the retransmission timeout, its DATA: as in TCP
// (RFC 6298 §5.3) that one restarts with every new RESULT. One chunk is enough: the oldest chunk of the rank that is furthest behind is
// always asked for, by everybody who waits for it. When a timer has fired, each chunk that is then repaired lets two more be asked
// about that were in flight, so that the loss of a whole window is repaired in a logarithmic number of round trips.
//
// Where this is more careful than the letter of section 4: a timeout asks about the oldest chunk only, not about every chunk of the
// window at once; a chunk may be probed again when the answer to the last PROBE is overdue; and a SOLICIT that somebody else's
// question caused is believed only a smoothed round trip after the chunk was sent, not the least one.
//
// Two ways (tor.go). With a ToR region some chunks are summed in the ToR, which answers sooner than the home. Whether it did shows in the
// RESULT. Each way has its round trip; timers go by the longer. A RESULT of the home makes older chunks of both kinds suspect, for
// the ToR lies on its way. One of the ToR makes suspect those for the ToR only, and only when the home would have answered by
// now, for they may have been spilled to it. There are two lists of chunks by when they were last asked about, so that a suspect is always at
// the head of one.
//
// An Engine is not safe for concurrent use. Memory: 2W+2 RESULTs, rounded up to a power of two, of 28+4E bytes each, some 100 bytes
// for each chunk of the window, and 4 bytes for each data chunk of a collective in flight.
package engine
