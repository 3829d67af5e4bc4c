package jobs

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/events"
	"spillway/appliance/ledger"
	"spillway/p4/pipeline"
	"spillway/xdp"
)

// Aggregator is where jobs are homed; an xdp.Aggregator is one.
type Aggregator interface {
	AddJob(job xdp.Job) error
	RemoveJob(id uint16) error
	Jobs() []xdp.Job
}

// Switch is the ToR as jobs need it; a fabric.Fabric is one.
type Switch interface {
	// SetJob wants a job in the ToR, in the place of one with the same id, RemoveJob wants it no more. Neither waits.
	SetJob(job pipeline.Job)
	RemoveJob(id uint16)
	// Await waits until a job that was set is in the ToR. It fails with a *refusal.Error when the ToR is away, or does not take the job.
	Await(ctx context.Context, id uint16, generation uint8) error
	// Limits is what the ToR can hold, as far as it was ever asked.
	Limits() (pipeline.Limits, bool)
	// Host is the machine with an address, as the configuration of the ToR names it. The home is one of them.
	Host(addr netip.Addr) (pipeline.Host, bool)
}

// Paths knows which way the aggregator reaches an address.
type Paths interface {
	// To fails when nothing leads to the address. Its text says what was looked for and where.
	To(addr netip.Addr) (Path, error)
}

// Path is the way to an address.
type Path struct {
	// Ifindex and Interface are the interface that leads there. The program of the aggregator is on it.
	Ifindex   int
	Interface string
	// Home is the aggregator's own address on the interface.
	Home netip.Addr
	// MTU is the interface's, in bytes of an IP packet.
	MTU int
	// MAC is the Ethernet address of the next hop.
	MAC net.HardwareAddr
}

// Defaults is what jobs get that do not ask for something else.
type Defaults struct {
	// Window is W; 0 is 255.
	Window uint32
	// Elements is E; 0 is the most that the MTU and, with a part of its memory, the ToR can do, up to 256.
	Elements uint32
	// Tor is how jobs use the ToR's memory; unspecified is none. TorSlots is the size of a private region; 0 is one for each chunk in flight.
	Tor      v1.TorUse
	TorSlots uint32
	// Publication is how results reach the workers; unspecified is multicast where there are groups, and else unicast.
	Publication v1.Publication
	// Grace is how long a job without any worker is kept, and how long a lost worker may resume; 0 is DefaultGrace.
	Grace time.Duration
}

// DefaultGrace is how long a job is kept without any worker unless told otherwise.
const DefaultGrace = 10 * time.Minute

// Config is what a Manager must be told.
type Config struct {
	// Ledger is what there is to give, with the quotas. What the ToR has is left out: it is asked.
	Ledger ledger.Config
	// Defaults are for what jobs leave open.
	Defaults Defaults
	// State is the path of the file that keeps the jobs over a restart.
	State string
	// FirstPort and Ports are the UDP ports that the aggregator listens on, as in xdp.Config. With a ToR they must begin at pipeline.FirstPort, and be
	// twice pipeline.Ports at least: those of the ToR's block for jobs that go through it, and as many beyond it for those that go past it.
	FirstPort, Ports uint16
	// MTU is the least of the interfaces that lead to workers, in bytes of an IP packet.
	MTU int
	// Aggregator, Switch and Paths are what a job is made of. Switch is nil when there is no ToR.
	Aggregator Aggregator
	Switch     Switch
	Paths      Paths
	// TorAddress is the address that the ToR sends partial sums from. It belongs to nobody else. Needed with a Switch.
	TorAddress netip.Addr
	// Patience is how long a new generation waits for the ToR before it goes past it; 0 is 2 s.
	Patience time.Duration
	// Heartbeat is how often at least a worker that waits hears of it; 0 is 2 s.
	Heartbeat time.Duration
	// Now is the clock that grace goes by; nil is time.Now.
	Now func() time.Time
	// Events and Log may be nil.
	Events *events.Log
	Log    *slog.Logger
}
