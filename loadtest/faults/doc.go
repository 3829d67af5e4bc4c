// Package faults loses, duplicates, reorders and congestion-marks packets on
// the links of a rack: a BPF program at both sides (tc ingress and egress) of a
// worker's switch port throws dice for every UDP packet that crosses it, and on request for TCP's.
//
// Kernels are built without netem more often than without BPF, and this way the
// events are counted where they happen, so that a test can tell that what it
// asked for was done. Needs sch_ingress (clsact), cls_bpf and kernel 5.15.
package faults
