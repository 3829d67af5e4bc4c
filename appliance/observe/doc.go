// Package observe says what the appliance is doing: it puts together what the data plane's maps, the manager of jobs, the ToR and the kernel know. It
// changes nothing and keeps nothing between calls: each answer is read when it is asked for.
//
// What a call costs is bounded by what it is about: the slots of a job are read one system call each (2048 at most window's ring of W = 1023), the
// ToR in a few requests within Patience.
package observe
