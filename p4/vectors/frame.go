package vectors

import (
	"encoding/binary"
	"net/netip"

	"spillway/wire"
)

// Sizes of the headers in bytes; IPv4 has no options unless a packet asks for them.
const (
	ethernetSize = 14
	ipv4Size     = 20
	udpSize      = 8
)

const (
	etherTypeIPv4 = 0x0800
	protocolUDP   = 17
)

// Frame is an Ethernet frame by its fields, all of them known.
type Frame struct {
	EthDst, EthSrc MAC
	EtherType      uint16

	// IPv4, where the EtherType says so. Length is what the header claims; 0 for the truth.
	TOS, TTL, Protocol uint8
	ID, Fragment       uint16 // Fragment: flags and offset, as in the header
	Length             uint16
	Src, Dst           netip.Addr
	Options            []byte

	// UDP, where the protocol says so.
	SrcPort, DstPort uint16
	UDPLength        uint16 // what the header claims; 0 for the truth
	Checksum         Checksum

	// Spillway's header and elements; nil where there is a Payload instead.
	Header   *wire.Header
	Elements []int32
	Payload  []byte
	// Cut is how many bytes are missing at the end.
	Cut int
}

// Checksum says what the UDP checksum is.
type Checksum string

// The UDP checksums that there are.
const (
	Full Checksum = "full" // over header and payload; 0xffff where that makes 0 (RFC 768)
	None Checksum = "none" // 0
)

// Bytes encodes the frame, checksums included.
func (f *Frame) Bytes() []byte {
	b := append(append(make([]byte, 0, 256), f.EthDst[:]...), f.EthSrc[:]...)
	b = binary.BigEndian.AppendUint16(b, f.EtherType)
	body := f.body()
	if f.EtherType == etherTypeIPv4 {
		b = f.appendIPv4(b, len(body))
	}
	b = append(b, body...)
	return b[:max(len(b)-f.Cut, ethernetSize)]
}

func (f *Frame) appendIPv4(b []byte, body int) []byte {
	start, size := len(b), ipv4Size+len(f.Options)
	b = append(b, make([]byte, ipv4Size)...)
	ip := b[start:]
	ip[0], ip[1] = 0x40|byte(size/4), f.TOS
	length := f.Length
	if length == 0 {
		length = uint16(size + body)
	}
	binary.BigEndian.PutUint16(ip[2:], length)
	binary.BigEndian.PutUint16(ip[4:], f.ID)
	binary.BigEndian.PutUint16(ip[6:], f.Fragment)
	ip[8], ip[9] = f.TTL, f.Protocol
	src, dst := f.Src.As4(), f.Dst.As4()
	copy(ip[12:], src[:])
	copy(ip[16:], dst[:])
	b = append(b, f.Options...)
	binary.BigEndian.PutUint16(b[start+10:], ^sum(b[start:], 0))
	return b
}

// body is what follows IPv4, or Ethernet where it is not IPv4.
func (f *Frame) body() []byte {
	payload := f.Payload
	if f.Header != nil {
		payload = make([]byte, wire.HeaderSize, wire.HeaderSize+wire.ElementSize*len(f.Elements))
		f.Header.Encode(payload)
		for _, e := range f.Elements {
			payload = binary.BigEndian.AppendUint32(payload, uint32(e))
		}
	}
	if f.EtherType != etherTypeIPv4 || f.Protocol != protocolUDP {
		return payload
	}
	udp := make([]byte, udpSize, udpSize+len(payload))
	binary.BigEndian.PutUint16(udp, f.SrcPort)
	binary.BigEndian.PutUint16(udp[2:], f.DstPort)
	length := f.UDPLength
	if length == 0 {
		length = uint16(udpSize + len(payload))
	}
	binary.BigEndian.PutUint16(udp[4:], length)
	udp = append(udp, payload...)
	if f.Checksum == Full {
		binary.BigEndian.PutUint16(udp[6:], f.udpChecksum(udp))
	}
	return udp
}

// udpChecksum is that of a datagram whose checksum field is 0 (RFC 768).
func (f *Frame) udpChecksum(udp []byte) uint16 {
	src, dst := f.Src.As4(), f.Dst.As4()
	pseudo := append(append(src[:], dst[:]...), 0, protocolUDP)
	pseudo = append(pseudo, udp[4:6]...)
	if c := ^sum(udp, sum(pseudo, 0)); c != 0 {
		return c
	}
	return 0xffff
}

// sum is the one's complement sum of 16-bit words (RFC 1071).
func sum(b []byte, start uint16) uint16 {
	total := uint32(start)
	for i := 0; i < len(b); i += 2 {
		word := uint32(b[i]) << 8
		if i+1 < len(b) {
			word |= uint32(b[i+1])
		}
		total += word
		total = total&0xffff + total>>16
	}
	return uint16(total)
}
