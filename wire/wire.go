// Package wire is Spillway's packet format: one fixed header in a UDP payload,
// followed by elems big-endian int32 elements for the types that carry data.
//
// This package is the one definition. The C twin lives in xdp/bpf/wire.h and is
// held to it by the golden vectors in testdata (see golden_test.go and the BPF
// tests in xdp). docs/protocol.md says what the packets mean.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// Version is the only protocol version this code speaks.
const Version = 1

// Sizes in bytes and limits of the format.
const (
	// HeaderSize is the length of the fixed header.
	HeaderSize = 28
	// ElementSize is the length of one int32 element.
	ElementSize = 4
	// MinElements and MaxElements bound a job's E, which is a multiple of
	// ElementStep. Workers pad shorter chunks with zeros to a multiple of it
	// (Padded).
	MinElements = 32
	MaxElements = 832
	ElementStep = 32
	// MaxPacket is the largest UDP payload of the protocol.
	MaxPacket = HeaderSize + MaxElements*ElementSize
	// MaxChildren is the number of children of one node of the tree: one bit
	// each of the contribution bitmap.
	MaxChildren = 64
	// BasePort is the default first UDP port of a home.
	BasePort = 9700
	// NoSlot is the slot of chunks that no ToR sums.
	NoSlot = 0xffff
)

// Type says what a packet is.
type Type uint8

// The packet types. Data and Result carry elements; the others are the header alone.
const (
	Data    Type = 1 // a contribution, of one worker or already partly summed
	Result  Type = 2 // the released sum of a chunk
	Solicit Type = 3 // the aggregator asks for what it misses; the bitmap is what it has
	Pending Type = 4 // the aggregator's answer to one sender; the bitmap is what it has
	Probe   Type = 5 // what is the state of this seq? the bitmap is the asker's own bit
)

func (t Type) String() string {
	switch t {
	case Data:
		return "DATA"
	case Result:
		return "RESULT"
	case Solicit:
		return "SOLICIT"
	case Pending:
		return "PENDING"
	case Probe:
		return "PROBE"
	}
	return fmt.Sprintf("Type(%d)", uint8(t))
}

// HasPayload reports whether packets of this type carry elements.
func (t Type) HasPayload() bool { return t == Data || t == Result }

// Flags qualify a packet.
type Flags uint8

// The flags of the header.
const (
	Resend    Flags = 1 << 0 // this DATA was sent before, or was asked for: it never rests in the ToR
	Saturated Flags = 1 << 1 // some element of the sum hit the int32 range
	Partial   Flags = 1 << 2 // released without every contributor
	ECN       Flags = 1 << 3 // some packet of this chunk met congestion (CE)
)

// KnownFlags are the flags this version defines; a packet with others is refused.
const KnownFlags = Resend | Saturated | Partial | ECN

// Op is how elements are combined.
type Op uint8

// The operations, all associative and commutative over int32.
const (
	Sum Op = 0 // saturating addition
	Max Op = 1
	Min Op = 2
)

func (o Op) String() string {
	switch o {
	case Sum:
		return "SUM"
	case Max:
		return "MAX"
	case Min:
		return "MIN"
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Header is the fixed header in the order it has on the wire (offsets in bytes).
type Header struct {
	Version    uint8  // 0
	Type       Type   // 1
	Flags      Flags  // 2
	Op         Op     // 3
	Job        uint16 // 4
	Generation uint8  // 6
	Priority   uint8  // 7: urgency in the ToR; 0 in what is not for it, and in a home's RESULT
	Cookie     uint32 // 8
	Seq        uint32 // 12: chunk number, serial arithmetic (RFC 1982)
	Bitmap     uint64 // 16: contribution bitmap
	Elems      uint16 // 24: elements in the payload; 0 for header-only types
	Slot       uint16 // 26: ToR slot index, from the region given at join; NoSlot: not for the ToR
}

// Errors of Decode. Each names one reason, the same the data plane counts drops by.
var (
	ErrTruncated = errors.New("packet is shorter than the header")
	ErrVersion   = errors.New("unknown protocol version")
	ErrType      = errors.New("unknown packet type")
	ErrFlags     = errors.New("unknown flag")
	ErrOp        = errors.New("unknown operation")
	ErrElems     = errors.New("bad element count")
	ErrLength    = errors.New("length does not match the element count")
	ErrBitmap    = errors.New("empty contribution bitmap")
)

// Encode writes the header into the first HeaderSize bytes of b, which must be that long.
func (h *Header) Encode(b []byte) {
	_ = b[HeaderSize-1]
	b[0] = h.Version
	b[1] = byte(h.Type)
	b[2] = byte(h.Flags)
	b[3] = byte(h.Op)
	binary.BigEndian.PutUint16(b[4:], h.Job)
	b[6] = h.Generation
	b[7] = h.Priority
	binary.BigEndian.PutUint32(b[8:], h.Cookie)
	binary.BigEndian.PutUint32(b[12:], h.Seq)
	binary.BigEndian.PutUint64(b[16:], h.Bitmap)
	binary.BigEndian.PutUint16(b[24:], h.Elems)
	binary.BigEndian.PutUint16(b[26:], h.Slot)
}

// Decode reads and validates a UDP payload and returns its element bytes (a
// view of b, big-endian int32, empty for header-only types). What a packet
// means to a job (cookie, generation, membership) is for the receiver to check.
func (h *Header) Decode(b []byte) (payload []byte, err error) {
	if len(b) < HeaderSize {
		return nil, fmt.Errorf("%w: %d bytes of %d", ErrTruncated, len(b), HeaderSize)
	}
	*h = Header{
		Version:    b[0],
		Type:       Type(b[1]),
		Flags:      Flags(b[2]),
		Op:         Op(b[3]),
		Job:        binary.BigEndian.Uint16(b[4:]),
		Generation: b[6],
		Priority:   b[7],
		Cookie:     binary.BigEndian.Uint32(b[8:]),
		Seq:        binary.BigEndian.Uint32(b[12:]),
		Bitmap:     binary.BigEndian.Uint64(b[16:]),
		Elems:      binary.BigEndian.Uint16(b[24:]),
		Slot:       binary.BigEndian.Uint16(b[26:]),
	}
	if err := h.validate(len(b)); err != nil {
		return nil, err
	}
	return b[HeaderSize:], nil
}

// validate checks the header against the length of its packet, in the order in
// which the data plane checks, so that both name the same reason.
func (h *Header) validate(length int) error {
	if h.Version != Version {
		return fmt.Errorf("%w: %d, want %d", ErrVersion, h.Version, Version)
	}
	if h.Type < Data || h.Type > Probe {
		return fmt.Errorf("%w: %d", ErrType, uint8(h.Type))
	}
	if h.Flags&^KnownFlags != 0 {
		return fmt.Errorf("%w: %#02x", ErrFlags, uint8(h.Flags))
	}
	if h.Op > Min {
		return fmt.Errorf("%w: %d", ErrOp, uint8(h.Op))
	}
	if h.Type.HasPayload() != (h.Elems != 0) || h.Elems > MaxElements {
		return fmt.Errorf("%w: %d in a %s packet", ErrElems, h.Elems, h.Type)
	}
	if want := HeaderSize + int(h.Elems)*ElementSize; length != want {
		return fmt.Errorf("%w: %d bytes, want %d for %d elements", ErrLength, length, want, h.Elems)
	}
	if h.Bitmap == 0 && h.Type != Pending && h.Type != Solicit {
		return fmt.Errorf("%w in a %s packet", ErrBitmap, h.Type)
	}
	return nil
}

// Padded is the length of a chunk of n elements as workers send it: the next
// multiple of ElementStep, the granularity of a ToR's parser.
func Padded(n int) int { return (n + ElementStep - 1) / ElementStep * ElementStep }

// SeqBefore reports whether a comes before b in serial-number arithmetic (RFC 1982).
func SeqBefore(a, b uint32) bool { return int32(a-b) < 0 }

// FullBitmap is the bitmap of a node with n children, 1 <= n <= MaxChildren.
func FullBitmap(n int) uint64 { return ^uint64(0) >> (MaxChildren - n) }

// RingSize is the number of slots R of a job with window w: the power of two
// at or above 2w+2. A power of two, so that seq mod R stays continuous when
// seq wraps at 2^32.
func RingSize(w int) uint32 { return RingSizeWithLag(w, 0) }

// RingSizeWithLag is R of a job whose workers may be lag chunks further behind
// than a window: the power of two at or above 2w+2+lag.
func RingSizeWithLag(w, lag int) uint32 { return 1 << bits.Len(uint(2*w+lag+1)) }

// run is how many chunks that follow each other share a home and a port, in
// bits: 64, so that segmentation offload can carry a run in one system call.
const run = 6

// Shard is which of n homes chunk seq is sent to: runs of 64 chunks go round.
func Shard(seq uint32, n int) int { return int(seq >> run % uint32(n)) }

// ShardPort is the offset from the first port of that home, for a home with a
// power of two of ports: the runs that it gets go round the ports.
func ShardPort(seq uint32, n int, ports uint16) uint16 {
	return uint16(seq>>run/uint32(n)) & (ports - 1)
}

// HomePort is ShardPort where there is one home.
func HomePort(seq uint32, ports uint16) uint16 { return ShardPort(seq, 1, ports) }

// ShardLag is by how much more than a window a worker that is not late can be
// behind as one of n homes sees it: its newest packet to that home is from
// before the runs of the others. A job with a quorum adds it to its lag.
func ShardLag(n int) int {
	if n <= 1 {
		return 0
	}
	return n << run
}
