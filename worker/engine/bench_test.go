package engine

import (
	"testing"

	"spillway/wire"
	"spillway/worker/fixedpoint"
)

// mirror is an Output that turns every DATA into its RESULT, as a home would, in buffers made once.
type mirror struct {
	full    byte // the bitmap, of one worker unless set
	buffers [][]byte
	used    int
}

func newMirror(window, elements int) *mirror {
	m := &mirror{buffers: make([][]byte, window)}
	for i := range m.buffers {
		m.buffers[i] = make([]byte, wire.HeaderSize+elements*wire.ElementSize)
	}
	return m
}

func (m *mirror) Packet(_ uint32, size int) []byte {
	if m.used == len(m.buffers) {
		return nil
	}
	m.used++
	m.buffers[m.used-1] = m.buffers[m.used-1][:size]
	return m.buffers[m.used-1]
}

// reduce runs one collective to its end and returns the number of packets it took.
func (m *mirror) reduce(t testing.TB, e *Engine, now *int64, c *Collective) (packets int) {
	if err := e.Submit(*now, c); err != nil {
		t.Fatal(err)
	}
	for {
		e.Poll(*now, m)
		packets += m.used
		*now += 50_000
		for _, b := range m.buffers[:m.used] {
			b[1], b[23] = byte(wire.Result), max(m.full, 1)
			e.Receive(*now, b, false)
		}
		m.used = 0
		if done := e.Completed(); done != nil {
			if done.Err() != nil {
				t.Fatal(done.Err())
			}
			return packets
		}
	}
}

func newSingle(t testing.TB, elements, window, wireBits int) *Engine {
	e, err := New(Config{Workers: 1, Elements: elements, Window: window, WireBits: wireBits, Shards: 1, MinRTO: 1e6, MaxRTO: 250e6, Silence: 30e9})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestNothingAllocatesOnTheWay(t *testing.T) {
	for _, bits := range []int{32, 16} {
		e, m, now := newSingle(t, 64, 128, bits), newMirror(128, 64), int64(1)
		float, integer := &Collective{F32: make([]float32, 100_000)}, &Collective{I32: make([]int32, 100_000), Op: wire.Max}
		half := &Collective{BF16: make([]fixedpoint.BFloat16, 100_000), Average: true}
		if n := testing.AllocsPerRun(10, func() {
			m.reduce(t, e, &now, float)
			m.reduce(t, e, &now, integer)
			m.reduce(t, e, &now, half)
		}); n != 0 {
			t.Errorf("%v allocations for three collectives of known size, of %d bits on the wire", n, bits)
		}
	}
}

// BenchmarkEngine is the whole cost of the engine for each chunk, out and back: exponent, quantising, bookkeeping, keeping the RESULT,
// dequantising.
func BenchmarkEngine(b *testing.B) {
	for _, c := range []struct {
		name     string
		elements int
		bits     int
		c        *Collective
	}{
		{"float32/E=256", 256, 32, &Collective{F32: make([]float32, 1<<20)}},
		{"float32/E=832", 832, 32, &Collective{F32: make([]float32, 1<<20)}},
		{"float32 in 16 bits/E=256", 256, 16, &Collective{F32: make([]float32, 1<<20)}},
		{"int32/E=256", 256, 32, &Collective{I32: make([]int32, 1<<20)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			e, m, now, packets := newSingle(b, c.elements, 256, c.bits), newMirror(256, c.elements), int64(1), 0
			for i := range c.c.F32 {
				c.c.F32[i] = float32(i%1000) - 300.5
			}
			b.SetBytes(4 << 20)
			for b.Loop() {
				packets += m.reduce(b, e, &now, c.c)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packets), "ns/chunk")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(1<<20), "ns/element")
		})
	}
}
