// Package dataplane is the software ToR's pipeline: an XDP program on every
// port that forwards, checks membership and sums chunks in slots, as the P4
// programs do, and the Go side that loads it and writes its tables.
//
// Lowest kernel: 5.15, for broadcast to a device map (5.14).
package dataplane

//go:generate go tool bpf2go -go-package dataplane -output-stem tor -type tenant -type route -type prefix -type bridge_to -type bridge_key -type member_key -type member -type slot -type traffic -type region -type publish -type uplink -target bpfel,bpfeb tor bpf/tor.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror -I../../../xdp/bpf
//go:generate go tool bpf2go -go-package dataplane -output-stem bench -no-global-types -target bpfel,bpfeb bench bpf/bench.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror -I../../../xdp/bpf
