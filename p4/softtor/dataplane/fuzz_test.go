package dataplane

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"spillway/wire"
)

// FuzzProcess: whatever arrives, slots change only by what a member may send,
// nothing that leaves is longer than what came, and what leaves can be read.
func FuzzProcess(f *testing.F) {
	for _, p := range []packet{
		jobA.data(0, 5, 32), jobA.data(1, 5, 32).resend(), jobB.data(2, 69, 32),
		jobA.data(2, 5, 64), jobA.data(0, 5, 32).with(func(p *packet) { p.header.Type = wire.Result }),
		jobA.data(0, 5, 32).with(func(p *packet) { p.header.Type, p.header.Elems, p.elements = wire.Probe, 0, nil }),
	} {
		f.Add(uint16(p.port), p.frame(), false)
		f.Add(uint16(p.port), p.frame(), true)
	}
	f.Add(uint16(1), make([]byte, 14), false)
	r := setUp(f, 32, jobA, jobB)
	f.Fuzz(func(t *testing.T, port uint16, frame []byte, identify bool) {
		if len(frame) < 14 || len(frame) > 3514 {
			return // the kernel does not run those
		}
		r := tor{t, r.Dataplane, r.names}
		if identify && len(frame) >= 70 {
			frame = slices.Clone(frame)
			// Get it past the secrets, which no fuzzer guesses.
			p := jobA.data(int(port)%3, 5, 0)
			port = uint16(p.port)
			copy(frame[26:30], p.src.Addr().AsSlice())
			binary.BigEndian.PutUint16(frame[46:], p.header.Job)
			frame[48] = p.header.Generation
			binary.BigEndian.PutUint32(frame[50:], p.header.Cookie)
		}
		before := allSlots(r)
		out, err := r.Process(Port(port), frame)
		r.must(err)
		after := allSlots(r)
		for _, e := range out {
			if len(e.Frame) != len(frame) {
				t.Errorf("a frame of %d bytes for one of %d", len(e.Frame), len(frame))
			}
		}
		if !slices.Equal(before, after) && !admissible(Port(port), frame) {
			t.Errorf("slots changed (-before +after)\n%s", cmp.Diff(before, after))
		}
	})
}

// allSlots are the slots, by one system call, for there are many inputs.
func allSlots(r tor) []torSlot {
	r.Helper()
	indices, slots := make([]uint32, torSlots), make([]torSlot, torSlots)
	var cursor ebpf.MapBatchCursor
	n, err := r.objects.Slots.BatchLookup(&cursor, indices, slots, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		r.Fatal(err)
	}
	return slots[:n]
}

// admissible is docs/protocol.md, section 6, in other words than the program's.
func admissible(port Port, frame []byte) bool {
	if len(frame) < 70 || binary.BigEndian.Uint16(frame[12:]) != 0x0800 || frame[14] != 0x45 || frame[23] != 17 ||
		binary.BigEndian.Uint16(frame[20:])&0x3fff != 0 || int(binary.BigEndian.Uint16(frame[16:])) != len(frame)-14 {
		return false
	}
	if s, d := binary.BigEndian.Uint16(frame[34:])>>5, binary.BigEndian.Uint16(frame[36:])>>5; s != 9696>>5 && d != 9696>>5 {
		return false
	}
	var h wire.Header
	if _, err := h.Decode(frame[42:]); err != nil || int(binary.BigEndian.Uint16(frame[38:])) != len(frame)-34 {
		return false
	}
	for _, j := range []job{jobA, jobB} {
		if h.Job != j.id || h.Generation != j.generation || h.Cookie != j.cookie {
			continue
		}
		src := [4]byte(frame[26:30])
		if port == homePort && src == homeAddr.As4() {
			return h.Type == wire.Result
		}
		w := int(port) - 1
		if w < 0 || w >= j.workers || src != workerAddr(w).As4() {
			return false
		}
		return h.Type == wire.Result || h.Type == wire.Data && h.Bitmap == 1<<w
	}
	return false
}
