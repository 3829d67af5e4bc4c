// Package ledger is the account of what jobs hold: their ids, slots of the aggregator and of the ToR, multicast groups and worker ports.
//
// It is pure: it knows no kernel, no switch and no clock, and who uses it has the lock. What it gives out is placed, that is, it says which slots and
// not only how many, so that an allocation can be written down and after a restart be put back where it was, under the sums that are in flight.
package ledger
