// Package jobs admits jobs and leads them through their lives: it lets their workers find each other, brings each generation into the data plane, and
// takes away what nobody uses any more.
//
// A job is admitted whole or not at all: everything that it will hold at the aggregator and at the ToR is set aside in the ledger and written down in the
// store. Then its ranks join. When all of them wait, the generation is brought into the data plane, each rank gets its parameters, and takes part until it
// leaves or its call ends. A call that ends is a lost worker, and no more than that: what it sends is still summed, and it may resume. When nobody takes
// part any more the ranks may join again, for a new generation.
//
// What is durable. The store is written before a caller hears of what it says, and after the effect that it stands for; what lies between the two when the
// daemon dies is repaired at the next start, which takes out of the data plane what the store does not know, and puts back what it does (restore.go). The
// sums themselves are soft state: the workers have all it takes to make them again.
//
// Locks. Manager.mu is over everything in memory; whoever has it neither writes to the store, nor changes the data plane, nor sends, so 64 ranks of 200 jobs
// can wait behind it. job.work serialises what changes the store's record and the data plane of one job, which may take seconds when a ToR does not
// answer; it is taken before Manager.mu, never while that is held. Memory: about 1 kB a job and 500 bytes a call, and no queue that grows with what a reader
// has not read: calls and watchers remember what changed, not each change.
package jobs
