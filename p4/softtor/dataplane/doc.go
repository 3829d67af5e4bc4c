// Package dataplane is the software ToR's pipeline: an XDP program on every
// port that forwards, checks membership and sums chunks in slots, as the P4
// programs do, and the Go side that loads it and writes its tables.
//
// Lowest kernel: 5.15, for broadcast to a device map (5.14).
package dataplane
