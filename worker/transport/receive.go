package transport

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	receiveBatch  = 16      // messages in one system call
	receiveBuffer = 1 << 16 // bytes of one message: a datagram, or a run of them that the kernel put together
	ecnMask       = 0x03
	congestion    = 0x03 // CE
)

// receiveSpace is the room for the control messages of one message: the ECN field and the segment size.
var receiveSpace = unix.CmsgSpace(4) + unix.CmsgSpace(4)

// receiver takes packets from the kernel.
type receiver struct {
	buffer    []byte
	headers   [receiveBatch]mmsghdr
	vectors   [receiveBatch]unix.Iovec
	addresses [receiveBatch]unix.RawSockaddrInet4
	controls  []byte
}

func (r *receiver) init() {
	r.buffer = make([]byte, receiveBatch*receiveBuffer)
	r.controls = make([]byte, receiveBatch*receiveSpace)
	for i := range r.headers {
		r.vectors[i].Base = &r.buffer[i*receiveBuffer]
		r.vectors[i].SetLen(receiveBuffer)
		h := &r.headers[i].header
		h.Name = (*byte)(unsafe.Pointer(&r.addresses[i]))
		h.Iov = &r.vectors[i]
		h.SetIovlen(1)
		h.Control = &r.controls[i*receiveSpace]
	}
}

// Receive is Conn's: it hands over the packets of one system call for each socket, but for those that a Wait just found empty.
func (c *sockets) Receive(to Receiver) (more bool, err error) {
	quiet := c.quiet
	c.quiet = [2]bool{}
	for i, fd := range [...]int{c.unicast, c.group} {
		if fd < 0 || quiet[i] {
			continue
		}
		n, err := c.receiveBatch(fd, to)
		if err != nil {
			return false, err
		}
		more = more || n == receiveBatch
	}
	return more, nil
}

func (c *sockets) receiveBatch(fd int, to Receiver) (n int, err error) {
	r := &c.receive
	for i := range r.headers {
		h := &r.headers[i].header
		h.Namelen = unix.SizeofSockaddrInet4
		h.SetControllen(receiveSpace)
	}
	n, err = mmsg(unix.SYS_RECVMMSG, fd, r.headers[:])
	c.stats.ReceiveCalls++
	switch err {
	case nil:
	case unix.EAGAIN, unix.EINTR:
		return 0, nil
	default:
		return 0, fmt.Errorf("receive from the homes: %w", err)
	}
	for i := range n {
		c.deliver(i, to)
	}
	return n, nil
}

// deliver cuts one message into its packets.
func (c *sockets) deliver(i int, to Receiver) {
	r := &c.receive
	size := int(r.headers[i].length)
	ecn, segment := r.ancillary(i)
	if segment <= 0 {
		segment = size
	}
	packets := uint64(1)
	if segment > 0 {
		packets = uint64((size + segment - 1) / segment)
	}
	if !c.fromHome(r.addresses[i].Addr, getPort(&r.addresses[i])) || r.headers[i].header.Flags&unix.MSG_TRUNC != 0 {
		c.stats.Strangers += packets
		return
	}
	ce := ecn&ecnMask == congestion
	if ce {
		c.stats.CEMarks += packets
	}
	b := r.buffer[i*receiveBuffer : i*receiveBuffer+size]
	for len(b) > segment {
		to.Receive(b[:segment], ce)
		b = b[segment:]
	}
	to.Receive(b, ce)
}

// ancillary reads the control messages: the ECN field, and the size of the packets that were put together, 0 for a single one.
func (r *receiver) ancillary(i int) (ecn byte, segment int) {
	control := r.controls[i*receiveSpace : i*receiveSpace+int(r.headers[i].header.Controllen)]
	for len(control) >= unix.CmsgLen(0) {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
		if int(h.Len) < unix.CmsgLen(0) || int(h.Len) > len(control) {
			break
		}
		data := control[unix.CmsgLen(0):h.Len]
		switch {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TOS && len(data) >= 1:
			ecn = data[0]
		case h.Level == unix.SOL_UDP && h.Type == unix.UDP_GRO && len(data) >= 4:
			segment = int(*(*int32)(unsafe.Pointer(&data[0])))
		}
		control = control[min(len(control), unix.CmsgSpace(len(data))):]
	}
	return ecn, segment
}
