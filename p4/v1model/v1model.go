// Package v1model holds what the compiler makes of the P4 program for BMv2: the P4Info, which is also that of the software ToR (the same
// pipeline), and BMv2's own form of the program.
package v1model

import _ "embed"

// P4Info is the program's P4Info message in protobuf's text form.
//
//go:embed spillway.p4info.txtpb
var P4Info []byte

// DeviceConfig is the program for BMv2, its p4_device_config.
//
//go:embed spillway.json
var DeviceConfig []byte
