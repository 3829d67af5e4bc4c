// Package model is the ToR's rules (docs/protocol.md, section 6) in plain Go,
// written from that text and from nothing else. It has no tables to lay out and
// no stages to fit, so it is short enough to be read against the text, and a
// vector that it passes says what the text says. It is a target of the vectors,
// and the opinion that the compiled program is asked against with random packets.
package model
