package sim

import (
	"encoding/binary"
	"net/netip"
)

// HeaderBytes come before the UDP payload of a frame: Ethernet, IPv4, UDP.
const HeaderBytes = 14 + 20 + 8

// NewFrame makes a frame with room for a payload, which the caller fills.
// Checksums are right but for UDP's, which is 0: none.
func NewFrame(src, dst netip.AddrPort, payload int) []byte {
	b := make([]byte, HeaderBytes+payload)
	s, d := src.Addr().As4(), dst.Addr().As4()
	copy(b, []byte{2, 0, d[0], d[1], d[2], d[3], 2, 0, s[0], s[1], s[2], s[3], 8, 0})
	ip := b[14:34]
	ip[0], ip[1], ip[8], ip[9] = 0x45, 2, 64, 17 // ECT(0)
	binary.BigEndian.PutUint16(ip[2:], uint16(len(b)-14))
	copy(ip[12:], s[:])
	copy(ip[16:], d[:])
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	binary.BigEndian.PutUint16(b[34:], src.Port())
	binary.BigEndian.PutUint16(b[36:], dst.Port())
	binary.BigEndian.PutUint16(b[38:], uint16(8+payload))
	return b
}

// checksum is RFC 1071's over a header of an even number of bytes.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
