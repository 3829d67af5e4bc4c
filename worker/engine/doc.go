// Package engine is the worker's side of the protocol (docs/protocol.md sections 2, 4 and 5) as a pure state machine: packets and
// the time go in, packets and finished collectives come out. It does no I/O, has no clock, starts no goroutines and is
// deterministic, so that the same code runs under the UDP transport and in a simulated network. After Submit nothing allocates.
//
// How it finds losses. Results come back in about the order in which the chunks were sent. Every outstanding chunk is in one list,
// ordered by when the home was last asked about it (DATA or PROBE); a RESULT for a chunk that was sent later than the head of that
// list, by more than a quarter of the round trip, makes the head suspect, and a PROBE asks the home about it (RACK, RFC 8985). One
// retransmission timer covers what is left, tails and silence: as in TCP (RFC 6298 §5.3) it belongs to the oldest chunk without a
// RESULT, and restarts with every new RESULT. One timer is enough: the oldest chunk of the rank that is furthest behind is
// always asked for, by everybody who waits for it; and when its RESULT arrives, it makes everything that was sent before it suspect.
//
// Where this is more careful than the letter of section 4: a timeout asks about the oldest chunk only, not about every chunk of the
// window at once; and a chunk may be probed again when a RESULT shows that the answer to the last PROBE is overdue.
//
// An Engine is not safe for concurrent use. Memory: 2W+2 RESULTs, rounded up to a power of two, of 28+4E bytes each, some 100 bytes
// for each chunk of the window, and 4 bytes for each data chunk of a collective in flight.
package engine
