// Package rack builds a rack of servers out of network namespaces: n workers
// and one aggregator host on a Linux bridge that stands for the switch, joined
// by veth links whose rate, loss, duplication and reordering are chosen.
//
//	worker 0 ── eth0 ═ w0 ┐
//	worker 1 ── eth0 ═ w1 ┼ bridge ┬ home ═ eth0 ── aggregator (XDP), spillwayd
//	     …            …   ┘        │
//	   (a namespace each)   (switch's namespace)      (its own)
//
// With a ToR the bridge gives way to a namespace whose interfaces are the ToR's
// ports, and to the ToR's process in it, which the daemon tells everything over P4Runtime:
//
//	worker 0 ── eth0 ═ w0 ┐                  ┌ home ═ eth0 ── aggregator (XDP), spillwayd
//	worker 1 ── eth0 ═ w1 ┼ ToR (XDP) ───────┘                  │
//	     …            …   ┘    └── mgmt0 ══════ P4Runtime ══ mgmt0
//
// The aggregator host runs the real daemon, spillwayd. The rack creates jobs and reads counters over its Unix
// socket, as an operator does; workers join over TCP with mutual TLS, across the rack's own links. The host has mounts of its own, with all that the
// daemon keeps and pins on file systems in memory, so that a daemon that is killed finds it again.
//
// What the ToR redirects passes below all queues and hooks, so a link that has a
// rate or faults has a cable on its way, in the switch's namespace:
//
//	worker 0 ── eth0 ═ w0 ── bridge of two ports ── w0-tor ═ w0 ── ToR
//
// Nothing is shelled out and nothing can be left over. Every namespace is
// anonymous: a locked OS thread makes it with unshare(2), a file descriptor and
// that thread hold it, and it is never bound to a path; likewise the mounts of the aggregator's host. All links are created
// inside these namespaces, none in the host's. So when the process ends, be it
// by kill -9, the kernel closes the descriptors, ends the threads and with them
// removes the namespaces, their links, queues, programs and pins. There is no state
// of an earlier, crashed run to clean up, because there is no place where it
// could survive. The processes of workers, ToR and daemon are started from a
// namespace's thread with a parent-death signal, and workers and ToR end when their stdin does;
// so they go as well.
//
// Links are shaped with tbf, a token bucket (burst 256 kB, latency 50 ms): the
// worker's uplink inside the worker's namespace, its downlink at the bridge's
// port. The bucket counts whole Ethernet frames without preamble, gap and
// checksum (14 bytes of header + IP packet). Neighbour and forwarding entries are static, so that
// no address resolution shows in a measurement.
package rack
