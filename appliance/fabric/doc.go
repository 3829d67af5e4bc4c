// Package fabric keeps the ToR in the state that the appliance wants: the pipeline, the entries that forward to hosts, and the jobs. It
// reads over P4Runtime what is there and writes only what differs (docs/decisions/0023).
//
// One goroutine, Fabric.Run, owns the session with the ToR: it opens it again whenever it has ended, waits while another controller is primary, and as
// primary compares all of the ToR with what is wanted (check) now and then, and writes what is newly wanted (apply) at once. Both make a plan, of steps
// whose order closes doors first and opens them last, and carry it out.
//
// The state is away without a session, backup while another controller is primary, syncing while something is missing or was refused, and in sync.
package fabric
