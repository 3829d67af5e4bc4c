// Package server is a P4Runtime 1.5.0 server for a data plane that has Spillway's pipeline built in: it takes that pipeline's P4Info and
// refuses others, keeps what controllers wrote, checks every update as the specification asks, and makes it in the
// data plane before it says so. Beyond the specification it refuses what cannot be meant: a port that is not there, a
// region outside the slots or overlapping a private one, a multicast group without ports.
//
// Where the specification leaves a choice: statuses of bytestrings are OUT_OF_RANGE (section "Bytestrings"), unknown ids are
// INVALID_ARGUMENT; every role has access to the whole pipeline; ROLLBACK_ON_ERROR is done, DATAPLANE_ATOMIC is UNIMPLEMENTED;
// batches are made in their order.
//
// Locks, in the order in which they are taken: arbiter.turn, Server.mu, arbiter.mu. Memory is bounded: connections, streams, roles,
// messages and batches have limits, tables those of the P4Info.
package server
