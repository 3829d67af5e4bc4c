// Package fixedpoint is the arithmetic of Spillway's block fixed point: it finds the exponent of a chunk of float32, turns the
// chunk into the big-endian int32 elements of a packet and back. docs/protocol.md section 5 defines the numbers; the shared
// exponent follows SwitchML (Sapio et al., NSDI'21 §3.7).
//
// A chunk whose ranks agreed on the exponent e (every |x| < 2^e) is scaled by 2^(k-e), where k = Bits(n) leaves room for n
// addends in an int32. The functions read from and write to packet buffers directly, do not allocate, and do not check their
// numbers: Quantise must be given an exponent that really bounds its input.
//
// In a job whose elements have 16 bits on the wire two of them share each int32 (pairs.go), with k = PairBits(n).
//
// Each loop exists twice: in Go for every machine, and in assembly, of AVX2 and of NEON, that takes whole blocks and leaves the rest to it. Both
// give the same bits (TestBlocksMatchPortable).
package fixedpoint
