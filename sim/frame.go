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
	from, to := macOf(src.Addr()), macOf(dst.Addr())
	copy(b, to[:])
	copy(b[6:], from[:])
	b[12] = 8
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

// macOf is the Ethernet address of a node or a group; for groups RFC 1112, section 6.4.
func macOf(addr netip.Addr) [6]byte {
	a := addr.As4()
	if addr.IsMulticast() {
		return [6]byte{1, 0, 0x5e, a[1] & 0x7f, a[2], a[3]}
	}
	return [6]byte{2, 0, a[0], a[1], a[2], a[3]}
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
