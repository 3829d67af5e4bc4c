package engine

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"spillway/wire"
	"spillway/worker/fixedpoint"
)

// paired makes the test's job one whose elements have 16 bits on the wire.
func paired(c *Config) { c.WireBits = 16 }

// word is element i of a packet.
func word(p sentPacket, i int) int32 {
	return int32(binary.BigEndian.Uint32(p.bytes[wire.HeaderSize+4*i:]))
}

// TestPairsShareWords: 149 elements are three chunks of 64, 64 and 21, which take 32, 32 and 11 elements of packets.
func TestPairsShareWords(t *testing.T) {
	x := newScript(t, paired)
	c := &Collective{F32: make([]float32, 149)}
	for i := range c.F32 {
		c.F32[i] = float32(i - 70)
	}
	want := slices.Clone(c.F32)
	x.submit(0, c)
	sent := x.expect(0, "D0")
	if n, kind := word(sent[0], laneLength), word(sent[0], laneKind); n != 149 || kind != 16|4 {
		t.Errorf("the descriptor says %d elements of kind %d", n, kind)
	}
	if exponents := []int32{word(sent[0], laneExponents), word(sent[0], laneExponents+1), word(sent[0], laneExponents+2), word(sent[0], laneExponents+3)}; !slices.Equal(exponents, []int32{7, 6, 7, 0}) {
		t.Errorf("the exponents are %v", exponents)
	}
	x.echo(1, sent[0])
	sent = x.expect(1, "D1 D2 D3")
	// 3 ranks have 13 bits: chunk 0 is below 2^7, in steps of 2^-6.
	if got, want := word(sent[0], 0), int32(-70*64)<<16+-69*64; got != want {
		t.Errorf("the first word is %#x, want %#x", got, want)
	}
	if elems := []uint16{sent[0].Elems, sent[1].Elems, sent[2].Elems}; !slices.Equal(elems, []uint16{32, 32, 32}) {
		t.Errorf("chunks of %v elements", elems)
	}
	// 21 elements take 11 words, of which the last has an empty half; behind it is padding.
	if last := word(sent[2], 10); last != int32(78*64)<<16 || slices.ContainsFunc(sent[2].bytes[wire.HeaderSize+44:], func(b byte) bool { return b != 0 }) {
		t.Errorf("the last chunk is %x", sent[2].bytes)
	}
	for _, p := range sent {
		x.echo(2, p)
	}
	if x.engine.Completed() != c || c.Err() != nil || !slices.Equal(c.F32, want) {
		t.Errorf("got %v, %v", c.Err(), c.F32)
	}
}

// TestWhatIsPaired: sums and averages of float32, float16 and bfloat16 only. In a job of 32 bits nothing is.
func TestWhatIsPaired(t *testing.T) {
	for _, c := range []struct {
		collective *Collective
		kind       int32
		text       string
		data       int // chunks of 100 elements
	}{
		{&Collective{F32: make([]float32, 100)}, 16 | 4, "float32 SUM in 16 bits", 2},
		{&Collective{F32: make([]float32, 100), Average: true}, 16 | 3 | 4, "float32 AVG in 16 bits", 2},
		{&Collective{F16: make([]fixedpoint.Float16, 100)}, 64 | 4, "float16 SUM in 16 bits", 2},
		{&Collective{BF16: make([]fixedpoint.BFloat16, 100), Average: true}, 80 | 3 | 4, "bfloat16 AVG in 16 bits", 2},
		{&Collective{F32: make([]float32, 100), Op: wire.Max}, 16 | 1, "float32 MAX", 4},
		{&Collective{BF16: make([]fixedpoint.BFloat16, 100), Op: wire.Min}, 80 | 2, "bfloat16 MIN", 4},
		{&Collective{F64: make([]float64, 100)}, 48, "float64 SUM", 4},
		{&Collective{I32: make([]int32, 100)}, 32, "int32 SUM", 4},
	} {
		for _, bits := range []int{0, 16, 32} {
			x := newScript(t, func(cfg *Config) { cfg.WireBits = bits })
			own := *c.collective
			x.submit(0, &own)
			sent := x.poll(0)
			kind, text, data := c.kind, c.text, c.data
			if bits != 16 {
				kind, text, data = kind&^4, strings.TrimSuffix(text, " in 16 bits"), 4
			}
			if got := word(sent[0], laneKind); got != kind || Kind(got).String() != text || own.chunks != data {
				t.Errorf("%d bits: kind %d, %q in %d chunks; want %d, %q in %d", bits, got, Kind(got), own.chunks, kind, text, data)
			}
		}
	}
}

// TestDisagreementOnWireBits: every rank sees it in the descriptor, whichever it has.
func TestDisagreementOnWireBits(t *testing.T) {
	for _, bits := range []int{16, 32} {
		x := newScript(t, func(cfg *Config) { cfg.WireBits = bits })
		c := x.submit(0, &Collective{F32: make([]float32, 64)})
		x.expect(0, "D0")
		d := make([]int32, 32)
		d[0], d[1], d[2], d[3] = 64, -64, 16|4, -16
		for i := 8; i < 32; i++ {
			d[i] = fixedpoint.Zero
		}
		x.receive(1, wire.Result, 0, 7, d, func(h *wire.Header) { h.Op = wire.Max })
		var disagreement *DisagreementError
		if x.engine.Completed() != c || !errors.As(c.Err(), &disagreement) || !errors.Is(c.Err(), ErrBroken) ||
			!strings.Contains(c.Err().Error(), "float32 SUM and float32 SUM in 16 bits") {
			t.Errorf("%d bits: got %v", bits, c.Err())
		}
	}
}

// TestPairsWithoutARank: nothing is to be corrected in a sum that lacks ranks, who hand back what they had, and rescaling is by who is in it.
func TestPairsWithoutARank(t *testing.T) {
	x := newScript(t, func(cfg *Config) { quorum(cfg); paired(cfg) })
	c := &Collective{F32: make([]float32, 70), ResidualF32: make([]float32, 70), Rescale: true}
	for i := range c.F32 {
		c.F32[i], c.ResidualF32[i] = 0.5, 9
	}
	x.submit(0, c)
	sent := x.expect(0, "D0")
	x.echo(1, sent[0])
	sent = x.expect(1, "D1 D2")
	// The first chunk is of ranks 0 and 2, which each have 0.25 and -0.5 in turn; the second of all, with what this one sent alone. k is 13, e is 0: steps of 2^-13.
	sums := slices.Repeat([]int32{4096<<16 - 8192}, 32)
	x.receive(2, wire.Result, 1, 5, sums, partial)
	x.echo(2, sent[1])
	if x.engine.Completed() != c || c.Err() != nil {
		t.Fatalf("got %v", c.Err())
	}
	for i := range c.F32 {
		want, residual := float32(0.5*1.5), float32(0.5)
		if i%2 == 1 {
			want = -1 * 1.5
		}
		if i >= 64 {
			want, residual = 0.5, 0
		}
		if c.F32[i] != want || c.ResidualF32[i] != residual {
			t.Errorf("element %d is %v, residual %v; want %v and %v", i, c.F32[i], c.ResidualF32[i], want, residual)
		}
	}
	if o := c.Outcome(); o.Missed != 64 || !slices.Equal(o.Spans, []Span{{0, 64, 5}, {64, 70, 7}}) {
		t.Errorf("outcome %+v", o)
	}
}

func TestWireBitsOfConfigs(t *testing.T) {
	for bits, want := range map[int]bool{0: true, 16: true, 32: true, 8: false, -16: false, 64: false} {
		cfg := testConfig()
		cfg.WireBits = bits
		if err := cfg.Validate(); (err == nil) != want {
			t.Errorf("%d bits: %v", bits, err)
		}
	}
}
