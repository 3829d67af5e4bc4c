package vectors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"spillway/wire"
)

// compare says in which fields what came out is not what had to. Copies may
// leave in any order, but not two for one by the same port.
func compare(want []expected, got []Emission) error {
	var all []error
	left := append([]Emission(nil), got...)
	for _, w := range want {
		i := w.find(left)
		if i < 0 {
			all = append(all, fmt.Errorf("nothing left by port %d, where %s had to", w.port, describe(w.frame.Bytes())))
			continue
		}
		if err := w.compare(left[i].Frame); err != nil {
			all = append(all, fmt.Errorf("by port %d: %w", w.port, err))
		}
		left = append(left[:i], left[i+1:]...)
	}
	for _, e := range left {
		all = append(all, fmt.Errorf("by port %d: nothing had to leave, but %s did", e.Port, describe(e.Frame)))
	}
	return errors.Join(all...)
}

// find looks for the emission that this is about: the same frame, else any by that port.
func (w *expected) find(emissions []Emission) int {
	found := -1
	for i, e := range emissions {
		if e.Port != w.port {
			continue
		}
		if w.compare(e.Frame) == nil {
			return i
		}
		if found < 0 {
			found = i
		}
	}
	return found
}

// compare compares bit for bit, but for the elements of a saturated sum.
func (w *expected) compare(got []byte) error {
	frame := w.frame
	if h := frame.Header; h != nil && h.Type.HasPayload() {
		if flags, ok := flagsOf(got); w.mayBeSaturated && ok && flags&wire.Saturated != 0 {
			frame = frame.clone()
			frame.Header.Flags |= wire.Saturated
		}
		if frame.Header.Flags&wire.Saturated != 0 && frame.Header.Op == wire.Sum {
			return compareSaturated(frame, got)
		}
	}
	return differences(frame.Bytes(), got)
}

// compareSaturated leaves the elements out: they mean nothing, and targets differ
// in them. The UDP checksum has to be right for what came.
func compareSaturated(want *Frame, got []byte) error {
	size := wire.ElementSize * len(want.Elements)
	if len(want.Bytes()) != len(got) {
		return differences(want.Bytes(), got)
	}
	same := want.clone()
	same.Elements = make([]int32, len(want.Elements))
	for i := range same.Elements {
		same.Elements[i] = int32(binary.BigEndian.Uint32(got[len(got)-size+wire.ElementSize*i:]))
	}
	return differences(same.Bytes(), got)
}

// flagsOf are the flags of an encoded Spillway frame.
func flagsOf(frame []byte) (wire.Flags, bool) {
	const offset = ethernetSize + ipv4Size + udpSize + 2
	if len(frame) <= offset {
		return 0, false
	}
	return wire.Flags(frame[offset]), true
}

// field is a part of a frame that has a name.
type field struct {
	name         string
	offset, size int
}

var ethernetFields = []field{{"eth.dst", 0, 6}, {"eth.src", 6, 6}, {"eth.type", 12, 2}}

// datagramFields are those of UDP over IPv4 without options.
var datagramFields = []field{
	{"ip.version+ihl", 14, 1}, {"ip.tos", 15, 1}, {"ip.length", 16, 2}, {"ip.id", 18, 2}, {"ip.fragment", 20, 2},
	{"ip.ttl", 22, 1}, {"ip.protocol", 23, 1}, {"ip.checksum", 24, 2}, {"ip.src", 26, 4}, {"ip.dst", 30, 4},
	{"udp.src", 34, 2}, {"udp.dst", 36, 2}, {"udp.length", 38, 2}, {"udp.checksum", 40, 2},
}

var headerFields = []field{
	{"version", 42, 1}, {"type", 43, 1}, {"flags", 44, 1}, {"op", 45, 1}, {"job", 46, 2}, {"generation", 48, 1}, {"priority", 49, 1},
	{"cookie", 50, 4}, {"seq", 54, 4}, {"bitmap", 58, 8}, {"elems", 66, 2}, {"slot", 68, 2},
}

const elementsOffset = ethernetSize + ipv4Size + udpSize + wire.HeaderSize

// fieldsOf names the parts of a frame, as far as it looks like Spillway's.
func fieldsOf(frame []byte) []field {
	fields := ethernetFields
	if len(frame) < elementsOffset || binary.BigEndian.Uint16(frame[12:]) != etherTypeIPv4 || frame[14] != 0x45 || frame[23] != protocolUDP {
		return append(fields[:len(fields):len(fields)], field{"byte", ethernetSize, 0})
	}
	fields = append(append(fields[:len(fields):len(fields)], datagramFields...), headerFields...)
	for i := 0; elementsOffset+4*i+4 <= len(frame); i++ {
		fields = append(fields, field{fmt.Sprintf("element %d", i), elementsOffset + 4*i, 4})
	}
	return fields
}

// mostDifferences is how many differing fields a message names.
const mostDifferences = 12

// differences names the fields in which two frames differ.
func differences(want, got []byte) error {
	if bytes.Equal(want, got) {
		return nil
	}
	var all []string
	if len(want) != len(got) {
		all = append(all, fmt.Sprintf("length is %d, not %d", len(got), len(want)))
	}
	end := min(len(want), len(got))
	for _, f := range fieldsOf(want) {
		if f.size == 0 {
			for i := f.offset; i < end; i++ {
				all = appendDifference(all, field{fmt.Sprintf("byte %d", i), i, 1}, want, got)
			}
			continue
		}
		if f.offset+f.size <= end {
			all = appendDifference(all, f, want, got)
		}
	}
	if len(all) > mostDifferences {
		all = append(all[:mostDifferences], fmt.Sprintf("and %d more", len(all)-mostDifferences))
	}
	return errors.New(strings.Join(all, ", "))
}

func appendDifference(all []string, f field, want, got []byte) []string {
	w, g := want[f.offset:f.offset+f.size], got[f.offset:f.offset+f.size]
	if bytes.Equal(w, g) {
		return all
	}
	return append(all, fmt.Sprintf("%s is 0x%x, not 0x%x", f.name, g, w))
}

// describe is a frame in a few words.
func describe(frame []byte) string {
	if len(frame) < elementsOffset {
		return fmt.Sprintf("a frame of %d bytes", len(frame))
	}
	var h wire.Header
	if _, err := h.Decode(frame[elementsOffset-wire.HeaderSize:]); err != nil {
		return fmt.Sprintf("a frame of %d bytes", len(frame))
	}
	return fmt.Sprintf("%s job %d seq %d bitmap %#x flags %#x priority %d slot %d", h.Type, h.Job, h.Seq, h.Bitmap, h.Flags, h.Priority, h.Slot)
}
