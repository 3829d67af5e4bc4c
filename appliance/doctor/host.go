package doctor

import (
	"context"
	"net/netip"
)

// Host is what the kernel knows of the host that the appliance runs on.
type Host struct {
	// Release of the kernel, for example 6.1.0-18-amd64.
	Kernel string
	// What the kernel lacks that the aggregator needs.
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
	// Id of the XDP program that is attached; 0: none.
	Program uint32
	// Queues that the interface receives on.
	Queues int
}

// Pins are the directory of a bpffs that keeps the data plane.
type Pins struct {
	Dir string
	// Why it cannot keep anything; nil: it can.
	Err error
}

// LookAtHost reads what a diagnosis needs of the kernel: of the interfaces in the network namespace of the calling thread, and of the pin directory. It changes nothing.
func LookAtHost(ctx context.Context, interfaces []string, pins string) (Host, error) {
	return Host{}, nil
}
