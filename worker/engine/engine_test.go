package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"spillway/wire"
)

const (
	ms = int64(1e6)
	s  = 1000 * ms
)

// testConfig is rank 1 of 3; its seqs wrap after 5 chunks.
func testConfig() Config {
	return Config{Job: 7, Generation: 3, Cookie: 0xfeedface, Rank: 1, Workers: 3, Elements: 32, Window: 8, Shards: 1,
		MinRTO: ms, MaxRTO: 50 * ms, Silence: 10 * s, FirstSeq: math.MaxUint32 - 4}
}

// script drives one engine by hand.
type script struct {
	t      *testing.T
	engine *Engine
	sent   []sentPacket
	room   int // packets that still fit, -1 for any number
	wake   int64
}

type sentPacket struct {
	wire.Header
	seq   uint32 // that it was put out for
	bytes []byte
}

func newScript(t *testing.T, change func(*Config)) *script {
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &script{t: t, engine: e, room: -1}
}

func (x *script) Packet(seq uint32, size int) []byte {
	if x.room == 0 {
		return nil
	}
	x.room--
	b := make([]byte, size)
	x.sent = append(x.sent, sentPacket{seq: seq, bytes: b})
	return b
}

func (x *script) submit(now int64, c *Collective) *Collective {
	x.t.Helper()
	if err := x.engine.Submit(now, c); err != nil {
		x.t.Fatal(err)
	}
	return c
}

// poll returns what the engine puts out, decoded: everything it sends must be valid and its own.
func (x *script) poll(now int64) []sentPacket {
	x.t.Helper()
	x.sent = nil
	x.wake = x.engine.Poll(now, x)
	for i := range x.sent {
		p := &x.sent[i]
		if _, err := p.Decode(p.bytes); err != nil {
			x.t.Fatalf("sent a bad packet: %v", err)
		}
		if p.Job != 7 || p.Generation != 3 || p.Cookie != 0xfeedface || p.Type != wire.Result && p.Bitmap != 2 || p.seq != p.Seq {
			x.t.Fatalf("sent %+v for chunk %d", p.Header, p.seq)
		}
	}
	return x.sent
}

// expect polls and compares with a description: D, P, R for the types, r for RESEND, and offsets from the first seq.
func (x *script) expect(now int64, want string) []sentPacket {
	x.t.Helper()
	got := x.poll(now)
	var b strings.Builder
	for _, p := range got {
		name := map[wire.Type]string{wire.Data: "D", wire.Probe: "P", wire.Result: "R"}[p.Type]
		if p.Flags&wire.Resend != 0 {
			name += "r"
		}
		b.WriteString(name)
		b.WriteString(strconv.Itoa(int(p.Seq - testConfig().FirstSeq)))
		b.WriteByte(' ')
	}
	if got := strings.TrimSpace(b.String()); got != want {
		x.t.Errorf("at %d us: sent %q, want %q", now/1000, got, want)
	}
	return got
}

// receive hands the engine a packet of the job about the seq at an offset from the first.
func (x *script) receive(now int64, t wire.Type, offset int, bitmap uint64, elements []int32, change func(*wire.Header)) {
	h := wire.Header{Version: 1, Type: t, Job: 7, Generation: 3, Cookie: 0xfeedface, Seq: testConfig().FirstSeq + uint32(offset), Bitmap: bitmap, Elems: uint16(len(elements))}
	if change != nil {
		change(&h)
	}
	b := make([]byte, wire.HeaderSize)
	h.Encode(b)
	for _, v := range elements {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	x.engine.Receive(now, b, false)
}

// echo answers what was sent by a RESULT of the same elements.
func (x *script) echo(now int64, p sentPacket) {
	b := bytes.Clone(p.bytes)
	h := p.Header
	h.Type, h.Flags, h.Bitmap = wire.Result, 0, 7
	h.Encode(b)
	x.engine.Receive(now, b, false)
}

func ints(n int) *Collective { return &Collective{I32: make([]int32, n), Op: wire.Sum} }

// opened is a script with an int32 collective of 20 data chunks whose first window is sent at 0, the round trip measured as 0.2 ms
// and seqs 0 and 1 done.
func opened(t *testing.T) *script {
	x := newScript(t, nil)
	x.submit(0, ints(20*32))
	sent := x.expect(0, "D0 D1 D2 D3 D4 D5 D6 D7")
	x.echo(ms/5, sent[0])
	x.echo(ms/5, sent[1])
	x.expect(ms/5, "D8 D9")
	return x
}

func TestWindowIsCumulative(t *testing.T) {
	x := newScript(t, nil)
	x.submit(0, ints(20*32))
	sent := x.expect(0, "D0 D1 D2 D3 D4 D5 D6 D7")
	for _, i := range []int{1, 2, 3, 7} {
		x.echo(ms/5, sent[i])
	}
	x.expect(ms/5, "") // 0 is missing: nothing beyond 7, however many others are there
	x.echo(ms/5, sent[0])
	x.expect(ms/5, "D8 D9 D10 D11")
}

func TestFullOutputGoesOnWhereItStopped(t *testing.T) {
	x := newScript(t, nil)
	x.submit(0, &Collective{F32: make([]float32, 20*32)})
	x.room = 0
	if x.expect(5, ""); x.wake != 5 {
		t.Errorf("wake %d with a full output", x.wake)
	}
	x.room = 1
	sent := x.expect(6, "D0")
	x.room = -1
	x.expect(7, "")
	x.echo(8, sent[0])
	x.room = 2
	x.expect(9, "D1 D2")
	x.room = -1
	x.expect(10, "D3 D4 D5 D6 D7 D8")
}

func TestFirstResultIsFinal(t *testing.T) {
	x := newScript(t, nil)
	c := x.submit(0, ints(2))
	sent := x.expect(0, "D0 D1")
	x.receive(0, wire.Result, 1, 7, []int32{8, 8}, nil) // without its padding
	x.receive(1, wire.Result, 1, 7, append([]int32{5, 6}, make([]int32, 30)...), nil)
	x.receive(2, wire.Result, 1, 7, append([]int32{9, 9}, make([]int32, 30)...), nil)
	x.echo(3, sent[0])
	x.receive(4, wire.Result, 1, 7, append([]int32{9, 9}, make([]int32, 30)...), nil)
	if got := x.engine.Completed(); got != c || c.Err() != nil || c.I32[0] != 5 || c.I32[1] != 6 {
		t.Errorf("%v, %v, %v", got, c.Err(), c.I32)
	}
	if s := x.engine.Stats(); s.DuplicateResults != 2 || s.Results != 2 || s.MismatchedPacket != 1 {
		t.Errorf("stats %+v", s)
	}
	if x.expect(5, ""); x.wake != Never {
		t.Errorf("idle, and wakes at %d", x.wake)
	}
}

func TestPacketsThatChangeNothing(t *testing.T) {
	elements := make([]int32, 32)
	for name, send := range map[string]func(x *script){
		"other job":                func(x *script) { x.receive(9, wire.Result, 2, 7, elements, func(h *wire.Header) { h.Job++ }) },
		"other generation":         func(x *script) { x.receive(9, wire.Result, 2, 7, elements, func(h *wire.Header) { h.Generation++ }) },
		"other cookie":             func(x *script) { x.receive(9, wire.Result, 2, 7, elements, func(h *wire.Header) { h.Cookie++ }) },
		"other version":            func(x *script) { x.receive(9, wire.Result, 2, 7, elements, func(h *wire.Header) { h.Version++ }) },
		"other op":                 func(x *script) { x.receive(9, wire.Result, 2, 7, elements, func(h *wire.Header) { h.Op = wire.Min }) },
		"other length":             func(x *script) { x.receive(9, wire.Result, 2, 7, elements[1:], nil) },
		"incomplete result":        func(x *script) { x.receive(9, wire.Result, 2, 3, elements, nil) },
		"rank outside the job":     func(x *script) { x.receive(9, wire.Result, 2, 15, elements, nil) },
		"have outside the job":     func(x *script) { x.receive(9, wire.Solicit, 2, 8, nil, nil) },
		"data":                     func(x *script) { x.receive(9, wire.Data, 2, 7, elements, nil) },
		"probe":                    func(x *script) { x.receive(9, wire.Probe, 2, 1, nil, nil) },
		"result of an unsent seq":  func(x *script) { x.receive(9, wire.Result, 12, 7, elements, nil) },
		"result far in the past":   func(x *script) { x.receive(9, wire.Result, -40, 7, elements, nil) },
		"solicit of an unsent seq": func(x *script) { x.receive(9, wire.Solicit, 12, 0, nil, nil) },
		"pending of a done seq":    func(x *script) { x.receive(9, wire.Pending, 0, 0, nil, nil) },
		"truncated":                func(x *script) { x.engine.Receive(9, []byte{1, 2, 0}, false) },
		"empty":                    func(x *script) { x.engine.Receive(9, nil, false) },
	} {
		x := opened(t)
		before := *x.engine.Stats()
		send(x)
		after := *x.engine.Stats()
		counted := after.BadPackets + after.ForeignPackets + after.MismatchedPacket + after.UnaskedResults + after.DuplicateResults + after.Pendings + after.Solicits
		if counted != 1 || after.Results != before.Results || after.Outstanding != before.Outstanding {
			t.Errorf("%s: %+v", name, after)
		}
		x.expect(ms/5+1, "")
	}
}

func TestCongestionWindow(t *testing.T) {
	x := newScript(t, nil)
	x.submit(0, ints(40*32))
	sent := x.expect(0, "D0 D1 D2 D3 D4 D5 D6 D7")
	x.receive(ms, wire.Result, 1, 7, make([]int32, 32), func(h *wire.Header) { h.Flags = wire.ECN })
	x.receive(ms, wire.Result, 2, 7, make([]int32, 32), func(h *wire.Header) { h.Flags = wire.ECN }) // the same round trip
	if s := x.engine.Stats(); s.Cwnd != 4 || s.WindowCuts != 1 || s.ECNMarks != 2 {
		t.Errorf("stats %+v", s)
	}
	x.echo(ms, sent[0])
	x.expect(ms, "")
	for i := 3; i < 8; i++ {
		x.echo(ms, sent[i])
	}
	x.expect(ms, "D8 D9 D10 D11 D12")
	for i := 8; i < 40; i++ {
		x.receive(2*ms, wire.Result, i, 7, make([]int32, 32), nil)
		x.poll(2 * ms)
	}
	if s := x.engine.Stats(); s.Cwnd != 8 {
		t.Errorf("the window grew to %d", s.Cwnd)
	}
}

func TestSilence(t *testing.T) {
	for name, c := range map[string]struct {
		have []uint64
		want string
	}{
		"home":    {nil, "does not answer"},
		"ranks":   {[]uint64{0b010}, "missing ranks 0, 2"},
		"own":     {[]uint64{0b101}, "rank 1 (this one"},
		"results": {[]uint64{0b111}, "large packets"},
	} {
		x := newScript(t, func(c *Config) { c.Silence = 30 * ms })
		first, second := x.submit(5*ms, ints(64)), x.submit(6*ms, ints(5))
		x.poll(6 * ms)
		for _, have := range c.have {
			x.receive(33*ms, wire.Pending, 0, have, nil, nil)
		}
		x.poll(35*ms - 1)
		if x.engine.Completed() != nil {
			t.Errorf("%s: failed before the silence was over", name)
		}
		if x.poll(35 * ms); x.wake != Never {
			t.Errorf("%s: a broken engine wakes", name)
		}
		if x.engine.Completed() != first || x.engine.Completed() != second || x.engine.Completed() != nil {
			t.Fatalf("%s: not both failed in order", name)
		}
		if err := first.Err(); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "30ms") {
			t.Errorf("%s: %v", name, err)
		}
		if err := x.engine.Submit(36*ms, ints(1)); !errors.Is(err, ErrBroken) || second.Err() != err {
			t.Errorf("%s: afterwards %v", name, err)
		}
	}
}

func TestBadResults(t *testing.T) {
	descriptor := func(length, kind int32, exponents ...int32) []int32 {
		return append(append([]int32{length, -length, kind, -kind, 0, 0, 0, 0}, exponents...), make([]int32, 24-len(exponents))...)
	}
	const sum32 = dtypeFloat32 << 4
	for name, c := range map[string]struct {
		elements []int32
		change   func(*wire.Header)
		broken   bool
		want     string
	}{
		"shorter for all":         {descriptor(31, sum32, 1), nil, true, "does not contain"},
		"other kind for all":      {descriptor(32, 32, 1), nil, true, "does not contain"},
		"exponent below the own":  {descriptor(32, sum32, -1000), nil, true, "does not contain"},
		"exponent of no float":    {descriptor(32, sum32, 129), nil, true, "not an exponent"},
		"non-finite of no rank":   {descriptor(32, sum32, 1<<30+3), nil, true, "not an exponent"},
		"non-finite":              {descriptor(32, sum32, 1<<30+2), nil, false, "rank 2 has a NaN or an infinity among elements 0 to 31"},
		"released without a rank": {descriptor(32, sum32, 1), func(h *wire.Header) { h.Flags, h.Bitmap = wire.Partial, 0b011 }, false, "without rank 2"},
	} {
		x := newScript(t, nil)
		input := make([]float32, 32)
		input[3] = 1
		f := x.submit(0, &Collective{F32: input})
		x.expect(0, "D0")
		x.receive(1, wire.Result, 0, 7, c.elements, func(h *wire.Header) {
			h.Op = wire.Max
			if c.change != nil {
				c.change(h)
			}
		})
		if !c.broken {
			sent := x.expect(1, "D1")
			if !bytes.Equal(sent[0].bytes[wire.HeaderSize:], make([]byte, 128)) && name == "non-finite" {
				t.Errorf("%s: real data is exchanged", name)
			}
			x.echo(2, sent[0])
		}
		if x.engine.Completed() != f || f.Err() == nil || errors.Is(f.Err(), ErrBroken) != c.broken || !strings.Contains(f.Err().Error(), c.want) {
			t.Errorf("%s: %v", name, f.Err())
		}
	}
}

func TestBadArguments(t *testing.T) {
	x := newScript(t, nil)
	for name, c := range map[string]*Collective{
		"no buffer":   {},
		"empty":       {F32: []float32{}},
		"two buffers": {F32: []float32{1}, I32: []int32{1}},
		"op":          {I32: []int32{1}, Op: 3},
		"double max":  {F64: []float64{1}, Op: wire.Max},
		"int mean":    {I32: []int32{1}, Average: true},
		"mean of max": {F32: []float32{1}, Op: wire.Max, Average: true},
	} {
		if err := x.engine.Submit(0, c); err == nil || !x.engine.Idle() {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.Workers = 0 }, func(c *Config) { c.Rank = 3 }, func(c *Config) { c.Elements = 0 }, func(c *Config) { c.Window = MaxWindow + 1 },
		func(c *Config) { c.Shards = 0 }, func(c *Config) { c.MinRTO = 0 }, func(c *Config) { c.Silence = 0 },
	} {
		cfg := testConfig()
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}

// FuzzReceive: no bytes make an engine panic, and none from outside the job make it send or finish anything.
func FuzzReceive(f *testing.F) {
	h := wire.Header{Version: 1, Type: wire.Solicit, Job: 7, Generation: 3, Cookie: 0xfeedface, Seq: testConfig().FirstSeq + 3, Bitmap: 1}
	b := make([]byte, wire.HeaderSize)
	h.Encode(b)
	f.Add(b, true)
	h.Type, h.Elems, h.Bitmap = wire.Result, 32, 7
	b = make([]byte, wire.HeaderSize+128)
	h.Encode(b)
	f.Add(b, false)
	f.Fuzz(func(t *testing.T, payload []byte, ce bool) {
		x := newScript(t, nil)
		x.submit(0, &Collective{F32: make([]float32, 900)})
		sent := x.poll(0)
		x.echo(ms/5, sent[0])
		x.poll(ms / 5)
		before, lines := *x.engine, x.engine.lines[0]
		x.engine.Receive(ms, payload, ce)
		var h wire.Header
		if _, err := h.Decode(payload); err != nil || h.Job != 7 || h.Generation != 3 || h.Cookie != 0xfeedface {
			after := *x.engine
			before.stats, after.stats = Stats{}, Stats{}
			if before.base != after.base || before.next != after.next || before.resends.tail != after.resends.tail || before.broken != after.broken || lines != after.lines[0] {
				t.Fatal("a packet from outside the job changed the engine")
			}
		}
		x.poll(ms)
		x.engine.Receive(2*ms, payload, ce)
		x.poll(2 * ms)
	})
}
