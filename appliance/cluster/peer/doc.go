// Package peer is what the appliances of a cluster say to each other (spillway.v1.PeerService): the heartbeat by which a leader and those that it leads notice
// within a second that the other is gone, the leader's orders to aggregators, and what it reads of them.
//
// An order carries the term of the leader that gives it. An appliance keeps the highest that it has heard of and refuses lower ones, so that a leader that was
// deposed and does not know it yet changes nothing any more, wherever the new one has said its term.
package peer
