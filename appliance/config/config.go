package config

import (
	"net/netip"
	"os"
	"time"

	"spillway/xdp"
)

// DefaultPath is where the package puts the configuration.
const DefaultPath = "/etc/spillway/spillwayd.yaml"

// PlaintextSentence must be written out for the API to serve workers over TCP without TLS.
const PlaintextSentence = "anyone-who-reaches-this-port-may-join"

// Homes' ports: a home of a job that goes through the ToR has its ports in the first half, which the ToR's pipeline takes; one of a job that
// passes the ToR by, in the second, which any switch forwards.
const (
	FirstHomePort = 9696
	HomePorts     = 64
)

// Config is what spillwayd is told. One that Parse or Load returned has its defaults filled in and is valid in itself.
type Config struct {
	// Name is what the appliance is called in outputs; empty: the host's name (NodeName).
	Name string `yaml:"name"`
	// Interfaces are those that the aggregator sits on, each with the home's address there. The first is the one that a ToR's jobs are home to.
	Interfaces []Interface `yaml:"interfaces"`
	Aggregator Aggregator  `yaml:"aggregator"`
	Jobs       Jobs        `yaml:"jobs"`
	API        API         `yaml:"api"`
	Metrics    Metrics     `yaml:"metrics"`
	// State is the file that jobs are kept in.
	State string `yaml:"state"`
	// Switch is the ToR; nil: there is none.
	Switch *Switch `yaml:"switch,omitempty"`
	// Cluster is what it shares jobs with others by; nil: it stands alone.
	Cluster *Cluster `yaml:"cluster,omitempty"`
	Log     Log      `yaml:"log"`

	source *source // where the keys stand; nil in one that was not parsed
}

// Interface is one that the aggregator sits on.
type Interface struct {
	Name string `yaml:"name"`
	// Address is the home's IPv4 address; the interface has it.
	Address netip.Addr `yaml:"address"`
}

// Aggregator sizes the data plane. All but Upgrade is fixed when the data plane is loaded.
type Aggregator struct {
	// Pin is the directory of a bpffs where the data plane outlives the daemon.
	Pin string `yaml:"pin"`
	// Ports is how many UDP ports a job's home has, a power of two up to half of HomePorts: what a NIC can spread over as many queues.
	Ports uint16 `yaml:"ports"`
	Slots Slots  `yaml:"slots"`
	// MaxJobs is the most jobs at a time.
	MaxJobs uint32 `yaml:"max_jobs"`
	// Upgrade says whether a pinned program that is foreign or newer is taken over rather than refused.
	Upgrade bool `yaml:"upgrade"`
}

// Slots are the slots of each size class, by elements.
type Slots struct {
	E32  uint32 `yaml:"32"`
	E64  uint32 `yaml:"64"`
	E256 uint32 `yaml:"256"`
	E832 uint32 `yaml:"832"`
}

// XDP is the slots as the data plane takes them.
func (s Slots) XDP() xdp.Slots { return xdp.Slots{s.E32, s.E64, s.E256, s.E832} }

// TorUse says how a job uses the ToR's memory.
type TorUse string

// The uses.
const (
	TorNone    TorUse = "none"
	TorPrivate TorUse = "private"
	TorShared  TorUse = "shared"
)

// Publication says how a result reaches the workers.
type Publication string

// The publications.
const (
	Multicast Publication = "multicast"
	Unicast   Publication = "unicast"
)

// Jobs are the defaults of jobs and the bounds they are held to.
type Jobs struct {
	// Window is W, in chunks.
	Window int `yaml:"window"`
	// Elements is E; 0: the most that the MTU and the ToR can do, up to 256.
	Elements int `yaml:"elements"`
	// Tor is private where there is a switch and none where not, unless said.
	Tor TorUse `yaml:"tor"`
	// TorSlots is the size of a private region, a power of two.
	TorSlots    uint32        `yaml:"tor_slots"`
	Publication Publication   `yaml:"publication"`
	Grace       time.Duration `yaml:"grace"`
	// LostAfter is when lost workers count as dead; 0: as the job says, and else never, or after 10 s in an elastic job.
	LostAfter time.Duration `yaml:"lost_after"`
	// Groups are the multicast addresses that jobs are given.
	Groups netip.Prefix `yaml:"groups"`
	// WorkerPorts are the UDP ports that jobs' workers are given.
	WorkerPorts PortRange `yaml:"worker_ports"`
	Quota       Quota     `yaml:"quota"`
}

// Quota is the most that one job may have; 0: as much as there is.
type Quota struct {
	Workers int `yaml:"workers"`
	Window  int `yaml:"window"`
	// Memory is that of its slots at the aggregator.
	Memory   Size   `yaml:"memory"`
	TorSlots uint32 `yaml:"tor_slots"`
	// Jobs is not of one job but the most jobs together.
	Jobs int `yaml:"jobs"`
}

// API says who can call.
type API struct {
	// Socket is the Unix socket of the operators, for the owner and Group.
	Socket string `yaml:"socket"`
	// Group is the name of the group that may use the socket; empty: the one that the daemon runs in.
	Group string `yaml:"group"`
	// Listen is the address and port for workers over TCP; empty: none.
	Listen string `yaml:"listen"`
	// TLS is needed with Listen, unless Plaintext is the sentence.
	TLS *TLS `yaml:"tls,omitempty"`
	// Plaintext is PlaintextSentence or empty.
	Plaintext string `yaml:"plaintext"`
	Limits    Limits `yaml:"limits"`
}

// PlaintextAllowed reports whether workers may call over TCP without TLS.
func (a *API) PlaintextAllowed() bool { return a.Plaintext == PlaintextSentence }

// TLS names PEM files.
type TLS struct {
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
	// CA are the certificates that the other side's must come from.
	CA string `yaml:"ca"`
}

// Limits bound what callers can ask for.
type Limits struct {
	// Connections is the most at a time over TCP.
	Connections int `yaml:"connections"`
	// CallsPerSecond is that of one caller.
	CallsPerSecond int `yaml:"calls_per_second"`
	// Message is the longest request.
	Message Size `yaml:"message"`
}

// Metrics says where Prometheus can ask.
type Metrics struct {
	// Listen is an address and port; empty (written "off"): nowhere.
	Listen string `yaml:"listen"`
}

// Program is which P4 program the ToR runs.
type Program string

// The programs.
const (
	Software Program = "software"
	BMv2     Program = "bmv2"
	Tofino   Program = "tofino"
)

// Switch is the ToR.
type Switch struct {
	// Target is the gRPC target of its P4Runtime server: host:port, or unix:PATH.
	Target string `yaml:"target"`
	// Device is the P4Runtime device id.
	Device  uint64  `yaml:"device"`
	Program Program `yaml:"program"`
	// Election is the least election id that the daemon bids; a higher one wins over others' lower ones.
	Election uint64 `yaml:"election"`
	// Address is where the ToR's partial sums come from: an IPv4 address that nobody else has.
	Address netip.Addr `yaml:"address"`
	// HomePort is the switch port of the first interface.
	HomePort uint16 `yaml:"home_port"`
	// TLS is for the P4Runtime session; nil: plain TCP.
	TLS *TLS `yaml:"tls,omitempty"`
	// SharedSlots is the size of the region that jobs with tor: shared have together, a power of two; 0: none.
	SharedSlots uint32 `yaml:"shared_slots"`
	// FloodGroup is the multicast group of all ports, above those of the jobs.
	FloodGroup uint16 `yaml:"flood_group"`
	// Check is how often the ToR's entries are compared with what they should be.
	Check time.Duration `yaml:"check"`
	// Hosts are the machines at the ToR's ports; the first interface's host may be left out.
	Hosts []Host `yaml:"hosts"`
}

// Host is a machine at a port of the ToR.
type Host struct {
	Address netip.Addr `yaml:"address"`
	MAC     MAC        `yaml:"mac"`
	Port    uint16     `yaml:"port"`
}

// Log says what is logged, and how.
type Log struct {
	// Level is debug, info, warn or error.
	Level string `yaml:"level"`
	// Format is text or json.
	Format string `yaml:"format"`
}

// NodeName is the configured name, or the host's.
func (c *Config) NodeName() string {
	if c.Name != "" {
		return c.Name
	}
	name, err := os.Hostname()
	if err != nil {
		return "spillway"
	}
	return name
}
