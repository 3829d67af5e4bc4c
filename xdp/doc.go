// Package xdp is the aggregator: an eBPF program that sums workers' chunks in
// the kernel of an aggregator host, and the Go side that loads it, attaches it
// to interfaces and fills its maps.
//
// The program is in bpf/, one header for each role: wire.h (packet format),
// frame.h, parse.h, maps.h, counters.h, lanes.h, elements.h (the loops over
// elements), checksum.h, answer.h (packets made in place), aggregate.h (one packet through the rules of
// docs/protocol.md, section 3), replicate.h (copies for jobs without multicast).
// The compiled objects are committed; go build needs no clang.
//
// Lowest kernel: 5.15. The program itself needs bounded loops (5.3), spin locks
// in array values (5.1), bpf_xdp_adjust_tail (4.18) and 32-bit jumps and ALU
// (-mcpu=v3, 5.1); Load probes nothing and lets the verifier speak.
package xdp

//go:generate go tool bpf2go -go-package xdp -output-stem aggregator -type job -type member_key -type member -type slot -type replica -type activity -type job_counters -target bpfel,bpfeb aggregator bpf/aggregator.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -go-package xdp -output-stem bench -no-global-types -target bpfel,bpfeb bench bpf/bench.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror
