package p4info

import (
	"errors"
	"fmt"
	"math/bits"
)

// MaxWidth is the width in bits of the widest value this package handles; keys and parameters are at most that wide.
const MaxWidth = 64

// ErrBytestring is wrapped by what is wrong with a bytestring: P4Runtime's status for it is OUT_OF_RANGE (section
// "Bytestrings").
var ErrBytestring = errors.New("bytestring")

// Bytes is the canonical bytestring of v: the shortest big-endian one, a single zero byte for 0.
func Bytes(v uint64) []byte {
	n := max(1, (bits.Len64(v)+7)/8)
	b := make([]byte, n)
	for i := n - 1; i >= 0; i-- {
		b[i] = byte(v)
		v >>= 8
	}
	return b
}

// Value is the number in a bytestring of a value of the given width. Leading zeros are accepted, however many (as the
// specification asks of a receiver); an empty string and a number that needs more bits are not.
func Value(b []byte, width int) (uint64, error) {
	if len(b) == 0 {
		return 0, fmt.Errorf("%w is empty", ErrBytestring)
	}
	for len(b) > 1 && b[0] == 0 {
		b = b[1:]
	}
	if need := (len(b)-1)*8 + bits.Len8(b[0]); need > min(width, MaxWidth) {
		return 0, fmt.Errorf("%w needs %d bits, the value has %d", ErrBytestring, need, width)
	}
	var v uint64
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v, nil
}

// fits tells whether v can be held in width bits.
func fits(v uint64, width int) bool { return bits.Len64(v) <= width }

// ones is a mask of width ones.
func ones(width int) uint64 {
	if width >= 64 {
		return ^uint64(0)
	}
	return 1<<width - 1
}
