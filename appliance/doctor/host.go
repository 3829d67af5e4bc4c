package doctor

import "net/netip"

// Host is what the kernel knows of the host that the appliance runs on.
type Host struct {
	// Release of the kernel, for example 6.1.0-18-amd64.
	Kernel string
	// What the kernel lacks that the aggregator needs, or what could not be tried.
	Missing []Feature
	Links   []Link
	Pins    Pins
	// Bytes that processes could still be given; 0: not known.
	MemoryAvailable uint64
}

// Feature is something that the aggregator needs of the kernel.
type Feature struct {
	Name string
	// Oldest kernel that has it.
	Since string
	// What the kernel said when it was tried.
	Err error
}

// Link is an interface that the aggregator should sit on.
type Link struct {
	Name    string
	Index   int  // 0: there is no interface of the name
	Up      bool // by the administrator
	Carrier bool
	MTU     int
	// IPv4 addresses that the interface has.
	Addresses []netip.Addr
	// native, generic, or empty: no XDP program is attached.
	Mode string
	// Id of the XDP program that is attached; 0: none. Tag is the hash over its instructions; empty: not permitted to ask.
	Program uint32
	Tag     string
	// Queues that the interface receives on; 0: not known.
	Queues int
}

// Pins are the directory of a bpffs that keeps the data plane.
type Pins struct {
	Dir string
	// Why it cannot keep anything; nil: it can.
	Err error
	// Names of what is pinned there, sorted.
	Names []string
}
