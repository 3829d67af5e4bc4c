package wire

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata/vectors.json")

// Vector is a golden packet: a UDP payload, and either the header it decodes to
// or the reason it is refused for, by the data plane's counter name.
type Vector struct {
	Name   string  `json:"name"`
	Packet string  `json:"packet"` // hex
	Header *Header `json:"header,omitempty"`
	Reason string  `json:"reason,omitempty"`
}

var reasons = map[string]error{
	"bad_length": ErrLength, "bad_version": ErrVersion, "bad_type": ErrType, "bad_flags": ErrFlags,
	"bad_op": ErrOp, "bad_elems": ErrElems, "bad_bitmap": ErrBitmap,
}

// vectors are the source of testdata/vectors.json.
func vectors() []Vector {
	base := Header{
		Version: 1, Type: Data, Flags: Resend, Op: Max, Job: 0x0102, Generation: 0x03, Priority: 0x04, Cookie: 0x05060708,
		Seq: 0x090a0b0c, Bitmap: 0x8000000000000001, Elems: 3, Slot: 0x0d0e,
	}
	elements := []byte{0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xfe}
	var all []Vector
	add := func(name, reason string, change func(h *Header), payload []byte) {
		h := base
		change(&h)
		b := make([]byte, HeaderSize)
		h.Encode(b)
		v := Vector{Name: name, Packet: hex.EncodeToString(append(b, payload...)), Reason: reason}
		if reason == "" {
			v.Header = &h
		}
		all = append(all, v)
	}
	short := func(t Type, bitmap uint64) func(h *Header) {
		return func(h *Header) { h.Type, h.Flags, h.Elems, h.Bitmap = t, 0, 0, bitmap }
	}
	add("data", "", func(h *Header) {}, elements)
	add("data, sum", "", func(h *Header) { h.Op, h.Flags = Sum, 0 }, elements)
	add("data, min", "", func(h *Header) { h.Op = Min }, elements)
	add("data, every flag", "", func(h *Header) { h.Flags = KnownFlags }, elements)
	add("data, most elements", "", func(h *Header) { h.Elems = MaxElements }, make([]byte, MaxElements*ElementSize))
	add("result", "", func(h *Header) { h.Type, h.Flags, h.Bitmap = Result, Partial|Saturated|ECN, 1<<63 }, elements)
	add("solicit", "", short(Solicit, 1<<32), nil)
	add("solicit, has nothing", "", short(Solicit, 0), nil)
	add("pending", "", short(Pending, 1<<31), nil)
	add("pending, has nothing", "", short(Pending, 0), nil)
	add("probe", "", short(Probe, 1), nil)
	add("version 0", "bad_version", func(h *Header) { h.Version = 0 }, elements)
	add("version 2", "bad_version", func(h *Header) { h.Version = 2 }, elements)
	add("type 0", "bad_type", func(h *Header) { h.Type = 0 }, elements)
	add("type 6", "bad_type", func(h *Header) { h.Type = 6 }, elements)
	add("unknown flag", "bad_flags", func(h *Header) { h.Flags = 0x10 }, elements)
	add("op 3", "bad_op", func(h *Header) { h.Op = 3 }, elements)
	add("data without elements", "bad_elems", func(h *Header) { h.Elems = 0 }, nil)
	add("result without elements", "bad_elems", func(h *Header) { h.Type, h.Elems = Result, 0 }, nil)
	add("probe with elements", "bad_elems", func(h *Header) { h.Type = Probe }, elements)
	add("too many elements", "bad_elems", func(h *Header) { h.Elems = MaxElements + 1 }, make([]byte, (MaxElements+1)*ElementSize))
	add("one element short", "bad_length", func(h *Header) {}, elements[:8])
	add("one byte short", "bad_length", func(h *Header) {}, elements[:11])
	add("one element over", "bad_length", func(h *Header) { h.Elems = 2 }, elements)
	add("probe with a tail", "bad_length", short(Probe, 1), []byte{0, 0, 0, 0})
	add("data of nobody", "bad_bitmap", func(h *Header) { h.Bitmap = 0 }, elements)
	add("probe of nobody", "bad_bitmap", short(Probe, 0), nil)
	return all
}

const vectorFile = "testdata/vectors.json"

func TestVectors(t *testing.T) {
	if *update {
		b, err := json.MarshalIndent(vectors(), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(vectorFile, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	var golden []Vector
	if err := json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(golden, vectors()); diff != "" {
		t.Errorf("testdata/vectors.json is not what the code makes (-file +code; go test ./wire -update if that is meant):\n%s", diff)
	}
	for _, v := range golden {
		t.Run(v.Name, func(t *testing.T) {
			packet, err := hex.DecodeString(v.Packet)
			if err != nil {
				t.Fatal(err)
			}
			var h Header
			payload, err := h.Decode(packet)
			if v.Reason != "" {
				if want := reasons[v.Reason]; !errors.Is(err, want) {
					t.Fatalf("got %v, want %v", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if h != *v.Header {
				t.Errorf("decoded %+v, want %+v", h, *v.Header)
			}
			if len(payload) != int(h.Elems)*ElementSize {
				t.Errorf("%d bytes of elements, want %d", len(payload), int(h.Elems)*ElementSize)
			}
			again := make([]byte, HeaderSize)
			h.Encode(again)
			if diff := cmp.Diff(packet[:HeaderSize], again); diff != "" {
				t.Errorf("encoded differently:\n%s", diff)
			}
		})
	}
}

func TestTruncated(t *testing.T) {
	var h Header
	for n := range HeaderSize {
		if _, err := h.Decode(make([]byte, n)); !errors.Is(err, ErrTruncated) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// FuzzDecode: whatever decodes is valid, and encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	for _, v := range vectors() {
		b, err := hex.DecodeString(v.Packet)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Header
		payload, err := h.Decode(b)
		if err != nil {
			return
		}
		again := make([]byte, HeaderSize)
		h.Encode(again)
		if string(again) != string(b[:HeaderSize]) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b[:HeaderSize], h, again)
		}
		if h.Version != Version || len(payload) != int(h.Elems)*ElementSize || h.Elems > MaxElements {
			t.Errorf("%x should not have decoded", b)
		}
	})
}
