// Package sim is a simulated network for tests: workers' engines, and the real
// compiled BPF programs of the aggregator and of the software ToR (run frame by
// frame in the kernel), joined by a scheduler that loses, duplicates, delays and
// reorders frames and makes nodes forget, all from one seed. A seed that fails
// repeats exactly, for time is simulated and neither the engines nor the programs
// have a clock.
//
// The parts: Fabric (events, links, faults) carries frames between Nodes; Home
// is the aggregator as a node, Worker an engine as a node, Tor the switch between
// the links, where a scenario has one; Scenario is a run, Draw makes one from a
// seed, and it ends with checking every worker's results against sums that
// package loadtest/reference makes from the inputs alone. A new kind of node (a
// parent aggregator) is a new Node; a new kind of trouble is a new event in a
// Scenario.
package sim
