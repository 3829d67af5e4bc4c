package engine

import (
	"bytes"
	"errors"
	"testing"

	"spillway/wire"
)

func TestExponentsAreSentAheadOfTheDataTheyAreFor(t *testing.T) {
	x := newScript(t, func(c *Config) { c.Window = 200 })
	// 24 chunks, then groups of 32, 32 and 2: M0 M1 D(24) M2 D(32) M3 D(32) D(2).
	x.submit(0, &Collective{F32: make([]float32, 90*32-5)})
	x.submit(0, ints(1))
	sent := x.expect(0, "D0 D1 D26 D59 D94 D95")
	for i, want := range []uint16{32, 32, 32, 32, 32, 32} {
		if sent[i].Elems != want {
			t.Errorf("chunk %d has %d elements, want %d", i, sent[i].Elems, want)
		}
	}
	x.echo(1, sent[1])
	if got := x.poll(1); len(got) != 32 || got[0].Seq-testConfig().FirstSeq != 27 {
		t.Errorf("%d packets after the exponents of group 1", len(got))
	}
	x.echo(2, sent[0])
	if got := x.poll(2); len(got) != 24 || got[0].Seq-testConfig().FirstSeq != 2 {
		t.Errorf("%d packets after the exponents of group 0", len(got))
	}
	if zeros := sent[3].bytes[wire.HeaderSize+2*4:]; !bytes.Equal(zeros, make([]byte, 30*4)) || bytes.Contains(sent[3].bytes[wire.HeaderSize:wire.HeaderSize+2*4], []byte{0, 0}) {
		t.Errorf("the exponents of group 3 are sent as %x", sent[3].bytes[wire.HeaderSize:])
	}
	x.echo(3, sent[3])
	if got := x.poll(3); len(got) != 2 || got[1].Elems != 32 || !bytes.Equal(got[1].bytes[wire.HeaderSize+27*4:], make([]byte, 5*4)) {
		t.Errorf("%d packets after the exponents of group 3", len(got))
	}
}

// TestLayout compares at with the order as the protocol writes it.
func TestLayout(t *testing.T) {
	for _, elements := range []int{32, 64} {
		for chunks := 1; chunks < 24+5*elements; chunks++ {
			c := &Collective{F32: make([]float32, chunks*elements)}
			if err := c.prepare(1<<32, &Config{Elements: elements, Workers: 3}); err != nil {
				t.Fatal(err)
			}
			type item struct {
				kind         chunkKind
				index, group int
			}
			want := []item{{descriptorChunk, 0, 0}}
			for group := 0; ; group++ {
				from, to := 0, min(24, chunks)
				if group > 0 {
					from = 24 + (group-1)*elements
					to = min(from+elements, chunks)
				}
				if to < chunks {
					want = append(want, item{exponentChunk, group + 1, 0})
				}
				if c.dataOffset(group) != len(want) {
					t.Fatalf("data of group %d is at %d, want %d", group, c.dataOffset(group), len(want))
				}
				for i := from; i < to; i++ {
					want = append(want, item{dataChunk, i, group})
				}
				if to == chunks {
					break
				}
			}
			if int(c.end-c.first) != len(want) {
				t.Fatalf("%d chunks take %d seqs, want %d", chunks, c.end-c.first, len(want))
			}
			for offset, w := range want {
				if kind, index, group := c.at(offset); kind != w.kind || index != w.index || group != w.group {
					t.Fatalf("%d chunks, offset %d: %d %d %d, want %+v", chunks, offset, kind, index, group, w)
				}
			}
		}
	}
}

// TestInconsistentInItsTurn: an exponent that does not exist breaks the job when the descriptor says that the ranks agree, not before.
func TestInconsistentInItsTurn(t *testing.T) {
	x := newScript(t, nil)
	c := x.submit(0, &Collective{F32: make([]float32, 30*32)})
	sent := x.expect(0, "D0 D1")
	x.receive(ms/5, wire.Result, 1, 7, append([]int32{12345}, make([]int32, 31)...), func(h *wire.Header) { h.Op = wire.Max })
	x.expect(ms/5, "")
	if err := x.engine.Broken(); err != nil {
		t.Fatalf("broken before the descriptor: %v", err)
	}
	x.echo(ms/2, sent[0])
	if x.engine.Completed() != c || !errors.Is(c.Err(), ErrInconsistent) || !errors.Is(c.Err(), ErrBroken) {
		t.Errorf("got %v", c.Err())
	}
}
