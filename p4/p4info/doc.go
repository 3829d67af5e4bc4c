// Package p4info finds the objects of a P4 program by name in its P4Info message, and turns table entries that are written
// with names and numbers into P4Runtime messages with ids and canonical bytestrings, and back. What it is given is the only
// place ids and widths come from.
//
// A parameter that the compiler of a target cannot take in one piece may be two there, NAME_lo and NAME_hi: both ways it
// is one number here.
package p4info
