package transport

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"
)

// Kind is a way to move packets.
type Kind string

// The kinds of transport.
const (
	// Auto is AF_XDP where the interface's driver has it without copies and this process may use it, and UDP elsewhere.
	Auto Kind = "auto"
	// UDP is UDP sockets.
	UDP Kind = "udp"
	// AFXDP is AF_XDP sockets, without copies where the driver has that, with one where not.
	AFXDP Kind = "af_xdp"
)

// ParseKind reads a kind; nothing is Auto.
func ParseKind(text string) (Kind, error) {
	switch k := Kind(text); k {
	case "":
		return Auto, nil
	case Auto, UDP, AFXDP:
		return k, nil
	}
	return "", fmt.Errorf("transport %q is none of %s, %s and %s", text, Auto, UDP, AFXDP)
}

// Config says where a worker is and where its homes.
type Config struct {
	// Kind is how packets are to be moved; none is Auto.
	Kind Kind
	// Homes are the homes of the job, one for each shard: chunk seq is sent to that of wire.Shard.
	Homes []Home
	// Group is the job's multicast group, the zero Addr in a unicast job.
	Group netip.Addr
	// Addr is the worker's own address and WorkerPort its port, at which the group is received too.
	Addr       netip.Addr
	WorkerPort uint16
	// Elements and Window are E and W of the job; queues are sized for two windows of full packets.
	Elements, Window int
	// BusyPoll is how long Wait looks again and again for packets before it sleeps; 0: it sleeps at once.
	BusyPoll time.Duration
	// NoOffload does without UDP_SEGMENT and UDP_GRO.
	NoOffload bool
	Logger    *slog.Logger
}

// Stats counts what a Conn did.
type Stats struct {
	Kind         Kind   `json:"kind"`             // udp or af_xdp
	Reason       string `json:"reason,omitempty"` // why not the other one, if both could have been
	SendCalls    uint64 `json:"send_calls"`       // system calls that sent
	ReceiveCalls uint64 `json:"receive_calls"`    // system calls that received
	Waits        uint64 `json:"waits"`            // times that it slept
	SendBlocked  uint64 `json:"send_blocked"`     // times the socket's queue was full
	SendDropped  uint64 `json:"send_dropped"`     // packets that the kernel refused; they count as lost
	Strangers    uint64 `json:"strangers"`        // packets received from another address than the homes'
	BadChecksums uint64 `json:"bad_checksums"`    // packets received that were damaged on the way, by AF_XDP; the kernel counts those of UDP
	CEMarks      uint64 `json:"ce_marks"`         // packets that arrived with a congestion mark
	GSO          bool   `json:"gso"`
	GRO          bool   `json:"gro"`
	// Of AF_XDP: packets that went by the rings and came by them, and whether without a copy in the kernel.
	RingsSent     uint64 `json:"rings_sent,omitempty"`
	RingsReceived uint64 `json:"rings_received,omitempty"`
	ZeroCopy      bool   `json:"zero_copy,omitempty"`
}

// Receiver takes the payload of one packet from a home, which is valid during the call, and whether it had a congestion mark.
type Receiver interface {
	Receive(payload []byte, ce bool)
}

// Conn is a worker's end of the network. Only Wake and Rest may be called from another goroutine than the owner's.
type Conn interface {
	// Packet is a buffer for a packet of a chunk to its home, nil when Flush must come first. It makes a Conn the output of an engine.
	Packet(seq uint32, size int) []byte
	// Flush sends what was written, and reports whether there was no room for all of it: then the rest is kept, and Flush is to be called
	// again when Wait says that there is room. Until then Packet may still be called, while it finds a buffer. An error is one
	// that sending again cannot mend.
	Flush() (blocked bool, err error)
	// Receive hands over packets that are there, and reports whether there may be more.
	Receive(to Receiver) (more bool, err error)
	// Wait blocks until a packet is there, the timeout (nanoseconds; math.MaxInt64 is for ever) is over, Wake was called or, if writable
	// is set, there may be room for packets again. It may return without a reason.
	Wait(timeout int64, writable bool) error
	// Rest is a Wait that changes nothing: another goroutine may use the Conn meanwhile, but only one rest and none close it. It does not look again and again, and a Wake
	// ends every Rest until the next Wait.
	Rest(timeout int64) error
	// Wake ends a Wait, now or the next one. It may be called from any goroutine until Close.
	Wake() error
	// SetHomes makes these the homes of the job, one for each shard. What was written for the homes before and not sent yet is dropped, which the
	// engine takes for lost, and packets of homes that are not among the new ones are strangers'.
	SetHomes(said []Home) error
	// Stats is a copy of the counters.
	Stats() Stats
	// Close gives everything back to the kernel.
	Close() error
}

// Open makes a Conn, in the network namespace of the calling thread. Errors are those of the system calls, with what was tried. Which kind Auto came to, and why, is
// in the Stats.
func Open(cfg Config) (Conn, error) {
	kind, err := ParseKind(string(cfg.Kind))
	if err != nil {
		return nil, err
	}
	if !cfg.Addr.Is4() || cfg.Group.IsValid() && !(cfg.Group.Is4() && cfg.Group.IsMulticast()) {
		return nil, fmt.Errorf("addresses %s (own) and %s (group) are not IPv4, and IPv4 multicast or none", cfg.Addr, cfg.Group)
	}
	homes, err := homesOf(cfg.Homes)
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	udp, err := openSockets(cfg, homes)
	if err != nil {
		return nil, err
	}
	if kind == UDP {
		return udp, nil
	}
	c, err := openRings(udp, kind == Auto)
	switch {
	case err == nil:
		return c, nil
	case kind == AFXDP:
		return nil, errors.Join(fmt.Errorf("transport %s: %w", AFXDP, err), udp.Close())
	}
	udp.stats.Reason = fmt.Sprintf("not %s: %s", AFXDP, err)
	cfg.Logger.Debug("packets go by UDP sockets", "reason", udp.stats.Reason)
	return udp, nil
}
