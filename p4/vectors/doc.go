// Package vectors holds the three targets of the ToR together: cases of packets
// that go in, the packets that have to come out, and the counters that have to
// move, for every rule of docs/protocol.md, section 6. The cases are data, in
// testdata; what has to come out was written from the rules, never recorded from
// a program. All targets run the same files:
//
//   - p4/vectors/model, the rules in plain Go, so that a mistake in a case shows without a target;
//   - the software ToR's compiled program, frame by frame (TestSoftTor), which is also asked against
//     the model with random packets (TestAgainstModel, -args -seed N -packets N);
//   - the software ToR on real interfaces behind its P4Runtime server (p4/vectors/rig);
//   - p4lang's simple_switch_grpc with the v1model program (p4/vectors/rig, make test-bmv2).
//
// # A file
//
// A file of testdata has three parts: about, a sentence; fixture, the content of
// the tables that all its cases start from, with empty slots and counters; and
// cases. The fixture's hosts have a port, an address and an Ethernet address each,
// and are routed by themselves; its jobs have a name that packets and events use.
// The fields are those of Fixture, Packet and Output, in snake case; one that does
// not exist is an error.
//
// # A case
//
// A case has a name that says the rule, where it helps a why, and steps. A step
// is one packet in and everything that it does; what is not listed must not
// happen: no other packet, no other counter. For example, the second of two
// workers completes a chunk:
//
//	{"in": {"from": "w1", "job": "B", "seq": 5, "slot": 5, "elements": {"first": 10, "step": 1}},
//	 "out": [{"publish": "B", "elements": {"first": 11, "step": 3}}],
//	 "events": {"B": {"completed": 1}}}
//
// A packet that goes in names its sender, and those fields that matter. The rest
// is what that sender would send for the job: version, cookie, generation, its own
// bits, the job's priority, addresses, ports, checksums. A seq must be given.
//
// A packet that comes out is the one that went in, with changes. First, how it
// left: host (forwarded: the host's port and Ethernet address), ports (copied
// unchanged), publish or uplink (addressed as that table entry of the job says, see
// Output). Then every further field that is different. Frames are compared bit for
// bit, checksums included, and a message names the fields that differ; only the
// elements of a SATURATED sum are left out, because they mean nothing. One case of
// every kind spells its output out, without these short forms.
//
// Elements are a list, or a ramp: first + i·step, with single ones set. repeat sends
// a packet several times, with the same outcome each time.
//
// # Adding one
//
// Write the step from the text of the protocol, then run
//
//	go test ./p4/vectors/...
//
// If the model disagrees, one of three is wrong: the case, the model or the text;
// find out which before looking at what a program does. A case that needs more than
// 32 elements belongs into a file whose fixture says so (elements, as in
// wide.json); targets that have fewer leave such files out, and say so. A new event
// or table belongs into events.go, fixture.go, the model and rig/entries.go.
package vectors
