package hostile

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"spillway/wire"
)

// Where the headers of an Ethernet frame with a Spillway packet in it begin.
const (
	ipAt       = 14
	udpAt      = ipAt + 20
	wireAt     = udpAt + 8
	elementsAt = wireAt + wire.HeaderSize
)

// Offsets of fields.
const (
	etherTypeAt  = 12
	versionAt    = ipAt // of IP, and the header's length
	tosAt        = ipAt + 1
	ipLengthAt   = ipAt + 2
	fragmentAt   = ipAt + 6
	protocolAt   = ipAt + 9
	sourceAt     = ipAt + 12
	targetAt     = ipAt + 16
	sourcePortAt = udpAt
	targetPortAt = udpAt + 2
	udpLengthAt  = udpAt + 4
	typeAt       = wireAt + 1
	flagsAt      = wireAt + 2
	opAt         = wireAt + 3
	jobAt        = wireAt + 4
	generationAt = wireAt + 6
	priorityAt   = wireAt + 7
	cookieAt     = wireAt + 8
	seqAt        = wireAt + 12
	bitmapAt     = wireAt + 16
	elemsAt      = wireAt + 24
	slotAt       = wireAt + 26
)

// put overwrites bytes, where the frame has them.
func put(frame []byte, at int, value ...byte) []byte {
	if at+len(value) <= len(frame) {
		copy(frame[at:], value)
	}
	return frame
}

func put16(frame []byte, at int, value uint16) []byte {
	return put(frame, at, binary.BigEndian.AppendUint16(nil, value)...)
}

func put32(frame []byte, at int, value uint32) []byte {
	return put(frame, at, binary.BigEndian.AppendUint32(nil, value)...)
}

func put64(frame []byte, at int, value uint64) []byte {
	return put(frame, at, binary.BigEndian.AppendUint64(nil, value)...)
}

// get32 is 0 where the frame ends before.
func get32(frame []byte, at int) uint32 {
	if at+4 > len(frame) {
		return 0
	}
	return binary.BigEndian.Uint32(frame[at:])
}

// resize gives the frame so many elements and the lengths that go with them: wrong only if that many are.
func resize(rng *rand.Rand, frame []byte, elements int) []byte {
	if len(frame) < elementsAt {
		return frame
	}
	length := elementsAt + elements*wire.ElementSize
	for len(frame) < length {
		frame = append(frame, byte(rng.Uint32()))
	}
	frame = slices.Clip(frame[:length])
	put16(frame, ipLengthAt, uint16(length-ipAt))
	put16(frame, udpLengthAt, uint16(length-udpAt))
	return put16(frame, elemsAt, uint16(elements))
}
