// Package v1model holds what the compiler makes of the P4 program for BMv2 (and for the software ToR, which is the same
// pipeline): the P4Info, in text form, and BMv2's own form of the program.
package v1model

import _ "embed"

// P4Info is the program's P4Info message in protobuf's text form.
//
//go:embed spillway.p4info.txtpb
var P4Info []byte

// Program is what BMv2 runs: the compiler's JSON.
//
//go:embed spillway.json
var Program []byte
