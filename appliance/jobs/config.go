package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"net/netip"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/events"
	"spillway/appliance/ledger"
	"spillway/p4/pipeline"
	"spillway/wire"
)

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

// Defaults is what jobs get that do not ask for something else.
type Defaults struct {
	// Window is W; 0 is DefaultWindow.
	Window uint32
	// Elements bounds the E that is chosen; 0 is DefaultElements.
	Elements uint32
	// Tor is how jobs use the ToR's memory; unspecified is none. TorSlots is the size of a private region, a power of two; 0 is one for each chunk in flight.
	Tor      v1.TorUse
	TorSlots uint32
	// Publication is how results reach the workers; unspecified is multicast where there are groups, and else unicast.
	Publication v1.Publication
	// LostAfter is when lost workers count as dead; 0: never in jobs that are not elastic, and DefaultLostAfter in those that are.
	LostAfter time.Duration
	// Grace is how long a job without any worker is kept, and how long a lost worker may resume; 0 is DefaultGrace.
	Grace time.Duration
}

// What jobs get unless told otherwise.
const (
	DefaultWindow   = 255
	DefaultElements = 256
	DefaultGrace    = 10 * time.Minute
	DefaultPriority = 64
	DefaultWireBits = 32
	DefaultMinRTO   = time.Millisecond
	DefaultMaxRTO   = 250 * time.Millisecond
	DefaultSilence  = 30 * time.Second
)

// DefaultNodePatience is longer than the kernel takes to find out that a worker's address has no neighbour, and to clear the largest ring. It is not what a death is
// noticed by: who watches the appliances says that one is lost, and ends the calls to it.
const DefaultNodePatience = 3 * time.Second

// Config is what a Manager must be told.
type Config struct {
	// Ledger is what there is to give, with the quotas. How many slots the ToR has is not in it: the ToR is asked.
	Ledger ledger.Config
	// Defaults are for what jobs leave open.
	Defaults Defaults
	// Storage keeps the jobs over a restart.
	Storage Storage
	// Self is the name of the node that the Manager runs on. Nodes are all that may be there, this one included: a node that the Storage names and that is
	// not among them counts as lost, and what was homed there moves. SetNode adds others later.
	Self  string
	Nodes []Node
	// Alone says that no other appliance has ever had a part in the Storage: any name of a node in it is this one's, as it was called then.
	Alone bool
	// FirstPort and Ports are the UDP ports that the aggregator listens on, as in xdp.Config; zeros are pipeline.FirstPort and 64. With a ToR they must begin
	// at pipeline.FirstPort, and be twice pipeline.Ports at least: those of the ToR's block for jobs that go through it, and as many beyond it for those that
	// go past it.
	FirstPort, Ports uint16
	// HomePorts is how many of them one job's home has at most, a power of two; 0: as many as there are.
	HomePorts uint16
	// Switch is nil when there is no ToR.
	Switch Switch
	// TorAddress is the address that the ToR sends partial sums from. It belongs to nobody else. Needed with a Switch.
	TorAddress netip.Addr
	// Patience is how long a new generation waits for the ToR before it goes past it; 0 is 2 s.
	Patience time.Duration
	// NodePatience is how long another appliance may take to answer before it counts as lost; 0 is DefaultNodePatience.
	NodePatience time.Duration
	// Heartbeat is how often at least a worker that waits hears of it; 0 is 2 s.
	Heartbeat time.Duration
	// Now is the clock that grace goes by; nil is time.Now.
	Now func() time.Time
	// Events and Log may be nil.
	Events *events.Log
	Log    *slog.Logger
}

// withDefaults fills in what may be left out.
func (c Config) withDefaults() Config {
	if c.Defaults.Window == 0 {
		c.Defaults.Window = DefaultWindow
	}
	if c.Defaults.Elements == 0 {
		c.Defaults.Elements = DefaultElements
	}
	if c.Defaults.Tor == v1.TorUse_TOR_USE_UNSPECIFIED {
		c.Defaults.Tor = v1.TorUse_TOR_USE_NONE
	}
	if c.Defaults.Publication == v1.Publication_PUBLICATION_UNSPECIFIED {
		c.Defaults.Publication = v1.Publication_PUBLICATION_UNICAST
		if c.Ledger.Groups.IsValid() {
			c.Defaults.Publication = v1.Publication_PUBLICATION_MULTICAST
		}
	}
	if c.Defaults.Grace == 0 {
		c.Defaults.Grace = DefaultGrace
	}
	if c.FirstPort == 0 {
		c.FirstPort = pipeline.FirstPort
	}
	if c.Ports == 0 {
		c.Ports = 2 * pipeline.Ports
	}
	if c.Patience == 0 {
		c.Patience = 2 * time.Second
	}
	if c.NodePatience == 0 {
		c.NodePatience = DefaultNodePatience
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 2 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// validate says everything that is wrong with the configuration, joined into one error.
func (c Config) validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Storage == nil {
		wrong("no storage")
	}
	c.validateNodes(wrong)
	if bits.OnesCount16(c.Ports) != 1 || int(c.FirstPort)+int(c.Ports) > 1<<16 {
		wrong("%d ports from %d on: want a power of two of them below 65536", c.Ports, c.FirstPort)
	}
	if c.HomePorts&(c.HomePorts-1) != 0 {
		wrong("%d ports for a job's home: want a power of two", c.HomePorts)
	}
	if first, last := c.Ledger.FirstWorkerPort, c.Ledger.LastWorkerPort; uint32(first) < uint32(c.FirstPort)+uint32(c.Ports) && c.FirstPort <= last {
		wrong("worker ports %d to %d are among those that the aggregator listens on, %d to %d", first, last, c.FirstPort, uint32(c.FirstPort)+uint32(c.Ports)-1)
	}
	d := c.Defaults
	if d.Window > maxWindow {
		wrong("window %d: want at most %d", d.Window, maxWindow)
	}
	if d.Elements > wire.MaxElements || d.Elements%wire.ElementStep != 0 {
		wrong("elements %d: want a multiple of %d up to %d", d.Elements, wire.ElementStep, wire.MaxElements)
	}
	if d.TorSlots&(d.TorSlots-1) != 0 {
		wrong("tor_slots %d: want a power of two", d.TorSlots)
	}
	if d.Grace < minGrace || d.Grace > maxGrace {
		wrong("grace %v: want %v to %v", d.Grace, minGrace, maxGrace)
	}
	if d.LostAfter != 0 && (d.LostAfter < minLostAfter || d.LostAfter > maxLostAfter) {
		wrong("lost_after %v: want %v to %v, or nothing", d.LostAfter, minLostAfter, maxLostAfter)
	}
	if d.Publication == v1.Publication_PUBLICATION_MULTICAST && !c.Ledger.Groups.IsValid() {
		wrong("publication is multicast, and there are no groups: write groups: 239.77.0.0/16, for example")
	}
	c.validateTor(wrong)
	return errors.Join(errs...)
}

// validateNodes looks at the appliances.
func (c Config) validateNodes(wrong func(string, ...any)) {
	seen := map[string]bool{}
	for _, n := range c.Nodes {
		if seen[n.Name] {
			wrong("node %q is there twice", n.Name)
		}
		seen[n.Name] = true
		if err := n.validate(); err != nil {
			wrong("%w", err)
		}
	}
	if !seen[c.Self] {
		wrong("node %q, on which this runs, is not among the nodes", c.Self)
	}
}

// validateTor looks at what only a ToR needs, and what needs one.
func (c Config) validateTor(wrong func(string, ...any)) {
	uses := c.Defaults.Tor != v1.TorUse_TOR_USE_NONE
	switch {
	case c.Switch == nil && uses:
		wrong("jobs use the ToR unless they say otherwise, and there is no switch in the configuration: write tor: none, or add the switch")
	case c.Switch == nil:
	case c.FirstPort != pipeline.FirstPort || c.Ports < 2*pipeline.Ports:
		wrong("%d ports from %d on: with a switch the aggregator must listen on %d from %d on at least, half of them for jobs that go past the switch",
			c.Ports, c.FirstPort, 2*pipeline.Ports, pipeline.FirstPort)
	case !isUnicast(c.TorAddress):
		wrong("the switch's own address %q is not an IPv4 unicast address", c.TorAddress)
	case uses && !c.Ledger.Groups.IsValid():
		wrong("jobs use the ToR unless they say otherwise, which publishes to multicast groups, and there are none: write groups: 239.77.0.0/16, for example")
	}
}

// packetBytes is the length of an IP packet of a chunk.
func packetBytes(elements int) int { return 20 + 8 + wire.HeaderSize + wire.ElementSize*elements }

func isUnicast(a netip.Addr) bool {
	return a.Is4() && !a.IsMulticast() && !a.IsUnspecified() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}
