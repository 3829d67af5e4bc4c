// Package rig is a target of the vectors that is a whole switch: a process with
// network interfaces, behind a P4Runtime server. Frames go in and out by packet
// sockets on the far ends of veth pairs in a network namespace of the rig's own,
// tables are written and counters read by the project's own P4Runtime client.
//
// What comes out of a switch is complete when a marker comes out that was sent
// after it: a datagram to a multicast group of all ports, by the port that the
// frame went in by. It leaves each port after everything that was to leave it
// before, so nothing waits for time to pass.
//
// bmv2.go starts p4lang's simple_switch_grpc that way.
package rig
