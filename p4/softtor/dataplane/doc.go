// Package dataplane is the software ToR's pipeline: an XDP program on every
// port that forwards, checks membership and sums chunks in slots by the rules of
// docs/protocol.md, section 6, as the P4 programs do, and the Go side that loads
// it and writes its tables.
//
// The program is in bpf/, one header for each role: tables.h, events.h and slots.h
// (what it knows), admit.h (who may send what), visit.h (what a packet does to
// its slot), combine.h (the loops over elements), send.h (where packets go, and the
// headers for it), pipeline.h (one frame through all of it), ports.h (interfaces).
// tor.bpf.c has two entries to it: tor for interfaces, and tor_run for Process. The packet
// format and its parts are the aggregator's headers (xdp/bpf).
//
// A frame is broadcast to all devices of one device map, so each replication
// group has a map of its own, in a map of maps.
//
// Locks: Process takes turns; all writing of tables takes turns; packets take the
// lock of a slot and no other. Memory: 32 bytes a slot and 4 for each of its elements, all
// taken at load; 1.2 MB for tables and counters on two CPUs.
//
// Lowest kernel: 5.15. Broadcast to a device map is the newest thing it needs
// (5.14); counters cleared in a batch came with 5.13, device maps in a map of maps with 5.10.
// Only 6.18 has been measured.
package dataplane

//go:generate go tool bpf2go -go-package dataplane -output-stem tor -type tenant -type route -type prefix -type bridge_to -type bridge_key -type member_key -type member -type slot -type traffic -type region -type publish -type uplink -target bpfel,bpfeb tor bpf/tor.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror -I../../../xdp/bpf
//go:generate go tool bpf2go -go-package dataplane -output-stem bench -no-global-types -target bpfel,bpfeb bench bpf/bench.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror -I../../../xdp/bpf
