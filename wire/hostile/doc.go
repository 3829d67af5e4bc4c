// Package hostile makes packets as an attacker would: out of valid ones, each wrong in a way that somebody chose or stumbled on. The tests of
// every program that takes packets feed on it, so that what one program is tried with, all are.
//
// Coverage cannot guide a fuzzer inside of a BPF program. So the mutations are named after what they do to the packet, most leave all the rest
// of it right, and the tests ask whether each reason to refuse a packet was met.
package hostile
