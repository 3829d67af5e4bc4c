// Package cluster lets several appliances serve the same jobs. What they share is in etcd: the jobs, which appliances there are, and which one leads. The leader
// is elected there (go.etcd.io/etcd/client/v3/concurrency), schedules all jobs and programs the ToR; the others run their aggregators and say who leads.
//
// Its term is the revision of etcd at which it was elected, which only grows. Whatever a leader writes is a transaction that holds only while its key of the
// election is there, so that a leader that was deposed can change nothing, whether it knows or not; orders to other appliances carry the term (package peer), and so
// does the session with the ToR.
//
// A lease would notice the death of an appliance only when it ends. So the leader sends a heartbeat to every appliance and misses its answers within a second,
// and the others miss the heartbeat: then they ask the leader, and revoke its lease when it does not answer. Both may be wrong, which costs a pause (decision 0037).
package cluster
