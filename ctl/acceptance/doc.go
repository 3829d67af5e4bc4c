// Package acceptance has no code but tests: spillctl whole, against a real spillwayd in a network namespace, with real workers in theirs and a real
// bridge or software ToR between them. The rack that they are in can be broken in the ways that racks break, so that doctor has something to find.
package acceptance
