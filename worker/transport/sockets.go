package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"spillway/wire"
)

// sockets is a Conn of two UDP sockets, or one in a unicast job.
type sockets struct {
	cfg     Config
	homes   []home
	unicast int // file descriptors
	group   int // -1 in a unicast job
	event   int
	send    sender
	receive receiver
	polled  []unix.PollFd // the eventfd, the sockets, and what a Conn on top of this one adds
	resting []unix.PollFd // the same for Rest
	spin    spinner
	quiet   [2]bool // unicast and group: the last Wait found nothing there, and nothing was received since
	stats   Stats
}

// ectZero is the ECN field of packets that may be marked (RFC 3168).
const ectZero = 0x02

// openSockets makes the sockets, in the network namespace of the calling thread.
func openSockets(cfg Config, homes []home) (*sockets, error) {
	c := &sockets{cfg: cfg, homes: homes, unicast: -1, group: -1, event: -1, spin: spinner{limit: int64(cfg.BusyPoll)}}
	c.stats.Kind = UDP
	if err := c.open(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.send.init(c.stats.GSO)
	c.receive.init()
	c.polled = append(c.polled, unix.PollFd{Fd: int32(c.event), Events: unix.POLLIN}, unix.PollFd{Fd: int32(c.unicast), Events: unix.POLLIN})
	if c.group >= 0 {
		c.polled = append(c.polled, unix.PollFd{Fd: int32(c.group), Events: unix.POLLIN})
	}
	c.resting = slices.Clone(c.polled)
	return c, nil
}

func (c *sockets) open() (err error) {
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
func (c *sockets) socket(addr netip.Addr, shared bool) (fd int, err error) {
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
func (c *sockets) enlarge(fd int) {
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
func (c *sockets) canSegment() bool {
	if _, err := unix.GetsockoptInt(c.unicast, unix.SOL_UDP, unix.UDP_SEGMENT); err != nil {
		c.cfg.Logger.Warn("no segmentation offload: the kernel does not know UDP_SEGMENT", "error", err)
		return false
	}
	return true
}

// Wait is Conn's.
func (c *sockets) Wait(timeout int64, writable bool) error {
	c.polled[1].Events = unix.POLLIN
	if writable {
		c.polled[1].Events |= unix.POLLOUT
	}
	return c.wait(timeout, nil)
}

// wait waits for the polled file descriptors, after a time of looking again and again if there is to be one, in which ready, if it is not nil, may say that something is there.
func (c *sockets) wait(timeout int64, ready func() bool) error {
	n := 0
	for c.spin.begin(timeout); n == 0 && c.spin.again(); {
		if ready != nil && ready() {
			return nil
		}
		var err error
		if n, err = unix.Ppoll(c.polled, &unix.Timespec{}, nil); err != nil && err != unix.EINTR {
			return fmt.Errorf("look for packets: %w", err)
		}
	}
	if n == 0 {
		if timeout != math.MaxInt64 {
			timeout -= c.spin.spent()
		}
		c.stats.Waits++
		if err := sleep(c.polled, timeout); err != nil {
			return err
		}
	}
	for i, p := range c.polled[1:min(3, len(c.polled))] {
		c.quiet[i] = p.Revents&^unix.POLLOUT == 0
	}
	if c.polled[0].Revents&unix.POLLIN != 0 {
		var b [8]byte
		if _, err := unix.Read(c.event, b[:]); err != nil && err != unix.EAGAIN {
			return fmt.Errorf("read the eventfd: %w", err)
		}
	}
	return nil
}

// Rest is Conn's.
func (c *sockets) Rest(timeout int64) error { return sleep(c.resting, timeout) }

// sleep waits for file descriptors.
func sleep(polled []unix.PollFd, timeout int64) error {
	var until *unix.Timespec
	if timeout != math.MaxInt64 {
		t := unix.NsecToTimespec(max(timeout, 0))
		until = &t
	}
	if _, err := unix.Ppoll(polled, until, nil); err != nil && err != unix.EINTR {
		return fmt.Errorf("wait for packets: %w", err)
	}
	return nil
}

// Wake is Conn's.
func (c *sockets) Wake() error {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], 1)
	if _, err := unix.Write(c.event, b[:]); err != nil && err != unix.EAGAIN {
		return fmt.Errorf("write the eventfd: %w", err)
	}
	return nil
}

// Stats is Conn's.
func (c *sockets) Stats() Stats { return c.stats }

// Close is Conn's.
func (c *sockets) Close() error {
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
