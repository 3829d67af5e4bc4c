package transport

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	sendBuffer   = 256 << 10 // bytes of packets between two flushes
	sendMessages = 256       // datagrams or runs of them between two flushes
	sendBatch    = 64        // messages in one system call
	maxSegments  = 64        // UDP_MAX_SEGMENTS of Linux before 6.9
	maxDatagram  = 65507     // bytes of UDP payload in one IPv4 packet
)

// segmentSpace is the room for one UDP_SEGMENT control message.
var segmentSpace = unix.CmsgSpace(2)

// message is a run of packets that the kernel takes as one: to the same address and port, of the same size but for a shorter last one.
type message struct {
	offset, size int // in the buffer
	segment      int // bytes of each packet but the last
	packets      int
	addr         [4]byte
	port         uint16
}

// sender collects packets and sends them.
type sender struct {
	buffer   []byte
	used     int
	messages []message
	sent     int // messages of these

	headers   [sendBatch]mmsghdr
	vectors   [sendBatch]unix.Iovec
	addresses [sendBatch]unix.RawSockaddrInet4
	controls  []byte
	segment   bool // runs are allowed
}

func (s *sender) init(segment bool) {
	s.buffer = make([]byte, sendBuffer)
	s.messages = make([]message, 0, sendMessages)
	s.controls = make([]byte, sendBatch*segmentSpace)
	s.segment = segment
	for i := range s.headers {
		a, h := &s.addresses[i], &s.headers[i].header
		a.Family = unix.AF_INET
		h.Name, h.Namelen = (*byte)(unsafe.Pointer(a)), unix.SizeofSockaddrInet4
		h.Iov = &s.vectors[i]
		h.SetIovlen(1)
		c := (*unix.Cmsghdr)(unsafe.Pointer(&s.controls[i*segmentSpace]))
		c.Level, c.Type = unix.SOL_UDP, unix.UDP_SEGMENT
		c.SetLen(unix.CmsgLen(2))
	}
}

// Packet is Conn's.
func (c *sockets) Packet(seq uint32, size int) []byte {
	s := &c.send
	if s.used+size > len(s.buffer) {
		return nil
	}
	addr, port := c.towards(seq)
	last := len(s.messages) - 1
	if last >= 0 && s.segment && s.messages[last].takes(addr, port, size) {
		m := &s.messages[last]
		m.size += size
		m.packets++
	} else {
		if len(s.messages) >= sendMessages {
			return nil
		}
		s.messages = append(s.messages, message{offset: s.used, size: size, segment: size, packets: 1, addr: addr, port: port})
	}
	b := s.buffer[s.used : s.used+size : s.used+size]
	s.used += size
	return b
}

// takes reports whether a packet may join the run: it is no longer than the others, and none of those is short.
func (m *message) takes(addr [4]byte, port uint16, size int) bool {
	return m.port == port && m.addr == addr && size <= m.segment && m.size == m.packets*m.segment && m.packets < maxSegments && m.size+size <= maxDatagram
}

// Flush is Conn's.
func (c *sockets) Flush() (blocked bool, err error) {
	s := &c.send
	for s.sent < len(s.messages) {
		n, err := mmsg(unix.SYS_SENDMMSG, c.unicast, s.prepare())
		c.stats.SendCalls++
		switch {
		case err == nil:
			s.sent += n
		case err == unix.EAGAIN:
			c.stats.SendBlocked++
			return true, nil
		case err == unix.EINTR:
		default:
			if err := c.refused(err); err != nil {
				return false, err
			}
		}
	}
	s.discard()
	return false, nil
}

// discard forgets what was written, sent or not.
func (s *sender) discard() { s.messages, s.sent, s.used = s.messages[:0], 0, 0 }

// prepare points the headers at the next messages.
func (s *sender) prepare() []mmsghdr {
	pending := s.messages[s.sent:]
	if len(pending) > sendBatch {
		pending = pending[:sendBatch]
	}
	for i := range pending {
		m, h := &pending[i], &s.headers[i].header
		s.addresses[i].Addr = m.addr
		putPort(&s.addresses[i], m.port)
		s.vectors[i].Base = &s.buffer[m.offset]
		s.vectors[i].SetLen(m.size)
		if m.packets == 1 {
			h.Control = nil
			h.SetControllen(0)
			continue
		}
		control := s.controls[i*segmentSpace:]
		*(*uint16)(unsafe.Pointer(&control[unix.CmsgLen(0)])) = uint16(m.segment)
		h.Control = &control[0]
		h.SetControllen(segmentSpace)
	}
	return s.headers[:len(pending)]
}

// refused handles an error of the first unsent message.
func (c *sockets) refused(err error) error {
	s := &c.send
	m := s.messages[s.sent]
	switch {
	case m.packets > 1 && (err == unix.EIO || err == unix.EINVAL || err == unix.EOPNOTSUPP || err == unix.ENOPROTOOPT || err == unix.EMSGSIZE):
		// No offload here, or packets too long for the path, which a single one will show.
		c.cfg.Logger.Warn("no segmentation offload: the kernel refuses a run of packets, sending them one by one", "packets", m.packets, "bytes", m.segment, "error", err)
		s.segment, c.stats.GSO = false, false
		s.split()
		return nil
	case err == unix.EMSGSIZE:
		return fmt.Errorf("packets of %d bytes (with IP and UDP headers) do not fit the path to the home; elements per chunk must be fewer or the MTU larger: %w", m.size+28, err)
	case err == unix.EBADF || err == unix.ENOTSOCK || err == unix.EFAULT || err == unix.EINVAL:
		return fmt.Errorf("send to the home: %w", err)
	}
	// A route that is away for a moment, a filter, no memory: the packet is lost, and losses are what the engine repairs.
	if c.stats.SendDropped == 0 {
		c.cfg.Logger.Warn("the kernel refuses a packet to the home; it counts as lost", "error", err)
	}
	c.stats.SendDropped += uint64(m.packets)
	s.sent++
	return nil
}

// split turns the unsent runs into single packets.
func (s *sender) split() {
	var single []message
	for _, m := range s.messages[s.sent:] {
		for offset := m.offset; offset < m.offset+m.size; offset += m.segment {
			size := min(m.segment, m.offset+m.size-offset)
			single = append(single, message{offset: offset, size: size, segment: size, packets: 1, addr: m.addr, port: m.port})
		}
	}
	s.messages, s.sent = single, 0
}
