// Package xdp is the aggregator: an eBPF program that sums workers' chunks in
// the kernel of an aggregator host, and the Go side that loads it, attaches it
// to interfaces, fills its maps and reads them out.
//
// Open pins it in a directory of a bpffs, where it outlives the process: maps, programs, links, and a description of them.
// The next Open adopts it, or puts a newer program in its place, while sums in flight go on (docs/decisions/0019). Release leaves it
// there, Detach removes it. Load makes one that goes with the process, for tests and measurements.
//
// The program is in bpf/, one header for each role: wire.h (packet format),
// frame.h, parse.h, maps.h, counters.h, lanes.h, elements.h (the loops over
// elements), checksum.h, answer.h (packets made in place), aggregate.h (one packet through the rules of
// docs/protocol.md, section 3), replicate.h (copies for jobs without multicast).
// The compiled objects are committed; go build needs no clang.
//
// Lowest kernel: 5.15, on arm64 5.18. The program itself needs bounded loops (5.3), atomics that return what was there
// (5.12, arm64 5.18), bpf_xdp_adjust_tail (4.18), bpf_jiffies64 (5.6) and 32-bit jumps and ALU
// (-mcpu=v3, 5.1); the Go side needs XDP links (5.9) and cookies of network namespaces (5.14).
// Load probes nothing and lets the verifier speak.
//
// CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON are enough for all of it, given a directory that the user may write to; only to
// remove another's XDP link takes root (CAP_SYS_ADMIN).
package xdp

//go:generate go tool bpf2go -go-package xdp -output-stem aggregator -type job -type member_key -type member -type slot -type replica -type activity -type job_progress -type rank_lateness -type job_lateness -type job_counters -type acquaintance -type job_known -type uplink -type parent_key -type below -target bpfel,bpfeb aggregator bpf/aggregator.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -go-package xdp -output-stem bench -no-global-types -target bpfel,bpfeb bench bpf/bench.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -go-package xdp -output-stem forget -no-global-types -target bpfel,bpfeb forget bpf/forget.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -go-package xdp -output-stem live -no-global-types -type stream -target bpfel,bpfeb live bpf/live.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror
