package transport

import (
	"encoding/binary"
	"math/bits"
)

// The headers in front of a payload: Ethernet, IPv4 without options, UDP.
const (
	ipAt         = 14
	udpAt        = ipAt + 20
	payloadAt    = udpAt + 8
	etherIPv4    = 0x0800
	protocolUDP  = 17
	timeToLive   = 64
	dontFragment = 0x4000
)

// hardwareAddr is a MAC address.
type hardwareAddr [6]byte

// header is the headers of a packet to one home, but for what differs from packet to packet.
type header struct {
	bytes  [payloadAt]byte
	ip     uint32 // sum over the IP header without length
	pseudo uint32 // sum over the UDP pseudo-header and the ports without length and destination port
}

// newHeader is for packets from a worker to a home, by way of a neighbour.
func newHeader(own, neighbour hardwareAddr, from [4]byte, fromPort uint16, to [4]byte) (h header) {
	b := h.bytes[:]
	copy(b, neighbour[:])
	copy(b[6:], own[:])
	binary.BigEndian.PutUint16(b[12:], etherIPv4)
	ip := b[ipAt:]
	ip[0], ip[1] = 0x45, ectZero
	binary.BigEndian.PutUint16(ip[6:], dontFragment)
	ip[8], ip[9] = timeToLive, protocolUDP
	copy(ip[12:], from[:])
	copy(ip[16:], to[:])
	binary.BigEndian.PutUint16(b[udpAt:], fromPort)
	h.ip = uint32(onesSum(ip[:20], 0))
	h.pseudo = uint32(onesSum(ip[12:20], protocolUDP)) + uint32(fromPort)
	return h
}

// finish puts into a frame that has the headers what depends on its payload and port.
func (h *header) finish(frame []byte, port uint16) {
	length := uint32(len(frame) - udpAt)
	ip, udp := frame[ipAt:], frame[udpAt:]
	binary.BigEndian.PutUint16(ip[2:], uint16(length+20))
	binary.BigEndian.PutUint16(ip[10:], ^fold(uint64(h.ip+length+20)))
	binary.BigEndian.PutUint16(udp[2:], port)
	binary.BigEndian.PutUint16(udp[4:], uint16(length))
	sum := ^onesSum(frame[payloadAt:], uint64(h.pseudo+2*length)+uint64(port))
	if sum == 0 {
		sum = 0xffff // 0 is for "no checksum" (RFC 768)
	}
	binary.BigEndian.PutUint16(udp[6:], sum)
}

// parsed is a received packet.
type parsed struct {
	payload []byte
	from    [4]byte
	port    uint16
	ecn     byte
}

// The outcomes of parse.
type verdict uint8

const (
	whole verdict = iota
	foreign
	damaged
)

// parse reads a frame that the steering program took for the worker's: IPv4 without options and fragments. What it says is checked again all the same; a frame may be longer than its packet.
func parse(frame []byte) (p parsed, v verdict) {
	if len(frame) < payloadAt {
		return p, foreign
	}
	ip := frame[ipAt:]
	total := int(binary.BigEndian.Uint16(ip[2:]))
	if binary.BigEndian.Uint16(frame[12:]) != etherIPv4 || ip[0] != 0x45 || ip[9] != protocolUDP || total > len(ip) || total < payloadAt-ipAt {
		return p, foreign
	}
	udp := ip[20:total]
	if int(binary.BigEndian.Uint16(udp[4:])) != len(udp) || onesSum(ip[:20], 0) != 0xffff {
		return p, damaged
	}
	if checksum := binary.BigEndian.Uint16(udp[6:]); checksum != 0 {
		// A packet that never left the machine may have the sum over its pseudo-header only, for a device to complete that it never met.
		pseudo := onesSum(ip[12:20], uint64(protocolUDP+len(udp)))
		if checksum != pseudo && onesSum(udp, uint64(pseudo)) != 0xffff {
			return p, damaged
		}
	}
	p.payload, p.from, p.port, p.ecn = udp[8:], [4]byte(ip[12:16]), binary.BigEndian.Uint16(udp), ip[1]
	return p, whole
}

// onesSum is the one's complement sum of the Internet checksum (RFC 1071) over b and what was summed before. It is taken eight bytes at a time, in the machine's own byte order, which the
// sum does not depend on but for its bytes' places.
func onesSum(b []byte, before uint64) uint16 {
	var sum, carry uint64
	for len(b) >= 32 {
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b), carry)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b[8:]), carry)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b[16:]), carry)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b[24:]), carry)
		b = b[32:]
	}
	for len(b) >= 8 {
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b), carry)
		b = b[8:]
	}
	if len(b) > 0 {
		var rest [8]byte
		copy(rest[:], b)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(rest[:]), carry)
	}
	sum, carry = bits.Add64(sum, 0, carry)
	sum += carry
	return fold(uint64(bits.ReverseBytes16(fold(sum))) + before)
}

// fold adds up the 16-bit parts of a sum.
func fold(sum uint64) uint16 {
	sum = sum>>32 + sum&0xffffffff
	sum = sum>>16&0xffff + sum&0xffff + sum>>32
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	return uint16(sum)
}
