package rig

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"spillway/p4/vectors"
)

// The marker's group, of the replication engine and its address. No fixture has them.
const markerGroup = 0x3ff

var markerAddress = netip.AddrFrom4([4]byte{239, 255, 255, 250})

var markerText = []byte("spillway/p4/vectors/rig: all that came before has left")

// newMarker is the marker with this number, which is not 0.
func newMarker(number uint64) []byte {
	frame := vectors.Frame{
		EthSrc: vectors.MAC{2, 0xff, 0, 0, 0, 1}, EthDst: vectors.MAC{1, 0, 0x5e, 0x7f, 0xff, 0xfa}, EtherType: 0x0800,
		TTL: 1, Protocol: 253, // for experiments, RFC 3692
		Src: netip.AddrFrom4([4]byte{192, 0, 2, 1}), Dst: markerAddress,
		Payload: append(binary.BigEndian.AppendUint64(nil, number), markerText...),
	}
	return frame.Bytes()
}

// markerNumber is 0 for all other frames.
func markerNumber(frame []byte) uint64 {
	const payload = 34
	if len(frame) < payload+8 || !bytes.Equal(frame[payload+8:], markerText) {
		return 0
	}
	return binary.BigEndian.Uint64(frame[payload:])
}
