package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"

	"golang.org/x/sys/unix"

	"spillway/wire"
)

// Config says where a worker is and where its homes.
type Config struct {
	// Homes are the homes of the job, one for each shard: chunk seq is sent to that of wire.Shard.
	Homes []Home
	// Group is the job's multicast group, the zero Addr in a unicast job.
	Group netip.Addr
	// Addr is the worker's own address and WorkerPort its port, at which the group is received too.
	Addr       netip.Addr
	WorkerPort uint16
	// Elements and Window are E and W of the job; the kernel's queues are sized for two windows of full packets.
	Elements, Window int
	// NoOffload does without UDP_SEGMENT and UDP_GRO.
	NoOffload bool
	Logger    *slog.Logger
}

// Stats counts what a Conn did.
type Stats struct {
	SendCalls    uint64 `json:"send_calls"`    // system calls that sent
	ReceiveCalls uint64 `json:"receive_calls"` // system calls that received
	SendBlocked  uint64 `json:"send_blocked"`  // times the socket's queue was full
	SendDropped  uint64 `json:"send_dropped"`  // packets that the kernel refused; they count as lost
	Strangers    uint64 `json:"strangers"`     // packets received from another address than the homes'
	CEMarks      uint64 `json:"ce_marks"`      // packets that arrived with a congestion mark
	GSO          bool   `json:"gso"`
	GRO          bool   `json:"gro"`
}

// Conn is a worker's end of the network. Only Wake may be called from another goroutine than the owner's.
type Conn struct {
	cfg     Config
	homes   []home
	unicast int // file descriptors
	group   int // -1 in a unicast job
	event   int
	send    sender
	receive receiver
	polled  [3]unix.PollFd
	stats   Stats
}

// ectZero is the ECN field of packets that may be marked (RFC 3168).
const ectZero = 0x02

// Open makes the sockets, in the network namespace of the calling thread. Errors are those of the system calls, with what was tried.
func Open(cfg Config) (*Conn, error) {
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
	c := &Conn{cfg: cfg, homes: homes, unicast: -1, group: -1, event: -1}
	if err := c.open(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.send.init(c.stats.GSO)
	c.receive.init()
	c.polled = [3]unix.PollFd{{Fd: int32(c.event), Events: unix.POLLIN}, {Fd: int32(c.unicast)}, {Fd: int32(c.group), Events: unix.POLLIN}}
	return c, nil
}

func (c *Conn) open() (err error) {
	if c.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("create an eventfd: %w", err)
	}
	if c.unicast, err = c.socket(c.cfg.Addr, false); err != nil {
		return err
	}
	c.stats.GSO = !c.cfg.NoOffload && c.canSegment()
	if !c.cfg.Group.IsValid() {
		return nil
	}
	if c.group, err = c.socket(c.cfg.Group, true); err != nil {
		return err
	}
	// The kernel picks the interface that owns the address.
	membership := &unix.IPMreqn{Multiaddr: c.cfg.Group.As4(), Address: c.cfg.Addr.As4()}
	if err := unix.SetsockoptIPMreqn(c.group, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, membership); err != nil {
		return fmt.Errorf("join group %s at the interface of %s: %w", c.cfg.Group, c.cfg.Addr, err)
	}
	return nil
}

// socket makes one bound socket. Several workers of a host may share a group, but never an address.
func (c *Conn) socket(addr netip.Addr, shared bool) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return -1, fmt.Errorf("create a UDP socket: %w", err)
	}
	type option struct {
		level, name, value int
		what               string
	}
	options := []option{
		{unix.IPPROTO_IP, unix.IP_TOS, ectZero, "send ECT(0)"},
		{unix.IPPROTO_IP, unix.IP_RECVTOS, 1, "receive the ECN field"},
		// The home takes no fragments: a packet that does not fit must be refused here, where it can be said.
		{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO, "forbid fragments"},
	}
	if shared {
		options = append(options,
			option{unix.SOL_SOCKET, unix.SO_REUSEADDR, 1, "share the group's port"},
			option{unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0, "receive only the joined group"})
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return -1, errors.Join(fmt.Errorf("set up a UDP socket to %s: %w", o.what, err), unix.Close(fd))
		}
	}
	c.enlarge(fd)
	if !c.cfg.NoOffload {
		if err := unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1); err != nil {
			c.cfg.Logger.Warn("no receive offload: the kernel refuses UDP_GRO", "error", err)
		} else {
			c.stats.GRO = true
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: addr.As4(), Port: int(c.cfg.WorkerPort)}); err != nil {
		return -1, errors.Join(fmt.Errorf("bind UDP %s: %w", netip.AddrPortFrom(addr, c.cfg.WorkerPort), err), unix.Close(fd))
	}
	return fd, nil
}

// enlarge makes the socket's queues hold two windows of packets, beyond the system's limits if this process may.
func (c *Conn) enlarge(fd int) {
	// The kernel charges a packet with its buffers, roughly twice its size and never little, and doubles what it is asked for.
	const least, most = 4 << 20, 1 << 28
	packet := 2*(wire.HeaderSize+c.cfg.Elements*wire.ElementSize) + 1024
	want := min(max(2*c.cfg.Window*packet, least), most)
	for _, o := range []struct {
		forced, plain int
		name, limit   string
	}{
		{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, "receive", "net.core.rmem_max"},
		{unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, "send", "net.core.wmem_max"},
	} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, o.forced, want) == nil {
			continue
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, o.plain, want); err != nil {
			c.cfg.Logger.Warn("cannot enlarge a socket queue", "queue", o.name, "bytes", want, "error", err)
			continue
		}
		if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, o.plain); err == nil && got < c.cfg.Window*packet {
			c.cfg.Logger.Warn("a socket queue holds less than a window of packets; raise the limit", "queue", o.name, "bytes", got, "want", want, "sysctl", o.limit)
		}
	}
}

// canSegment asks the kernel whether it knows UDP_SEGMENT; whether the path does is seen at the first send.
func (c *Conn) canSegment() bool {
	if _, err := unix.GetsockoptInt(c.unicast, unix.SOL_UDP, unix.UDP_SEGMENT); err != nil {
		c.cfg.Logger.Warn("no segmentation offload: the kernel does not know UDP_SEGMENT", "error", err)
		return false
	}
	return true
}

// Wait blocks until a packet is there, the timeout (nanoseconds; math.MaxInt64 is for ever) is over, Wake was called or, if writable
// is set, the socket takes packets again.
func (c *Conn) Wait(timeout int64, writable bool) error {
	c.polled[1].Events = unix.POLLIN
	if writable {
		c.polled[1].Events |= unix.POLLOUT
	}
	polled := c.polled[:]
	if c.group < 0 {
		polled = polled[:2]
	}
	var until *unix.Timespec
	if timeout != math.MaxInt64 {
		t := unix.NsecToTimespec(max(timeout, 0))
		until = &t
	}
	if _, err := unix.Ppoll(polled, until, nil); err != nil && err != unix.EINTR {
		return fmt.Errorf("wait for packets: %w", err)
	}
	if c.polled[0].Revents&unix.POLLIN != 0 {
		var b [8]byte
		if _, err := unix.Read(c.event, b[:]); err != nil && err != unix.EAGAIN {
			return fmt.Errorf("read the eventfd: %w", err)
		}
	}
	return nil
}

// Wake ends a Wait, now or the next one. It may be called from any goroutine until Close.
func (c *Conn) Wake() error {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], 1)
	if _, err := unix.Write(c.event, b[:]); err != nil && err != unix.EAGAIN {
		return fmt.Errorf("write the eventfd: %w", err)
	}
	return nil
}

// Stats is a copy of the counters.
func (c *Conn) Stats() Stats { return c.stats }

// Close closes the sockets.
func (c *Conn) Close() error {
	var errs []error
	for _, fd := range []*int{&c.unicast, &c.group, &c.event} {
		if *fd >= 0 {
			if err := unix.Close(*fd); err != nil {
				errs = append(errs, fmt.Errorf("close a socket: %w", err))
			}
			*fd = -1
		}
	}
	return errors.Join(errs...)
}
