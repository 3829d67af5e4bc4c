package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"spillway/wire"
)

// inTree makes the test's rank 1 of 3 rank 100 of 130, with bit 1 of the home's three; the job has five racks.
func inTree(c *Config) {
	c.Rank, c.Workers = 100, 130
	c.Level = &Level{Bit: 1, Ranks: []int{99, 100, 101}, Beyond: [][]int{{0, 1}, {99, 100, 101}, {120, 121}}}
}

// TestLevel: the worker sends its bit, not its rank, and takes RESULTs with the bits of its home; head-room is that of all workers.
func TestLevel(t *testing.T) {
	x := newScript(t, inTree)
	c := x.submit(0, &Collective{F32: make([]float32, 32)})
	x.expect(0, "D0")
	if own, full := x.engine.cfg.bits(); own != 2 || full != 7 {
		t.Errorf("bits %#x of %#x", own, full)
	}
	d := make([]int32, 32)
	d[0], d[1], d[2], d[3] = 32, -32, 16, -16
	d[8] = -1000
	x.receive(ms, wire.Result, 0, 7, d, func(h *wire.Header) { h.Op = wire.Max })
	x.expect(ms, "D1")
	x.receive(2*ms, wire.Result, 1, 7, make([]int32, 32), nil)
	x.expect(2*ms, "")
	if x.engine.Completed() != c || c.Err() != nil {
		t.Errorf("not complete: %v", c.Err())
	}
}

// TestHeldAbove: the word that a node above waits for others stops the RESENDs, and an error names those below the bits that lack there.
func TestHeldAbove(t *testing.T) {
	x := newScript(t, inTree)
	x.submit(0, ints(32))
	x.expect(0, "D0 D1")
	x.receive(ms, wire.Pending, 0, 1<<40|3, nil, partial)
	for at := 2 * ms; at < 200*ms; at += ms {
		for _, p := range x.poll(at) {
			if p.Type == wire.Data && p.Seq == x.engine.cfg.FirstSeq {
				t.Fatalf("at %d ms it sends chunk 0 again", at/ms)
			}
		}
		x.receive(at, wire.Pending, 0, 1<<40|3, nil, partial)
	}
	x.poll(11 * s)
	var missing *MissingRanksError
	if err := x.engine.Broken(); !errors.As(err, &missing) || !slices.Equal(missing.Ranks, []int{120, 121}) {
		t.Errorf("got %v, want ranks 120 and 121 missing", err)
	}
}

// TestMissingAtHome: those missing at the own home are named by rank, not by bit; without Beyond all others are, who are not there.
func TestMissingAtHome(t *testing.T) {
	x := newScript(t, inTree)
	x.submit(0, ints(32))
	x.expect(0, "D0 D1")
	for at := ms; at < 10*s; at += 100 * ms {
		x.poll(at)
		x.receive(at, wire.Pending, 0, 3, nil, nil)
	}
	x.poll(11 * s)
	var missing *MissingRanksError
	if err := x.engine.Broken(); !errors.As(err, &missing) || !slices.Equal(missing.Ranks, []int{101}) {
		t.Errorf("got %v, want rank 101 missing", err)
	}
	c := Config{Workers: 5, Level: &Level{Ranks: []int{1, 2}}}
	if got := c.beyond(0); !slices.Equal(got, []int{0, 3, 4}) {
		t.Errorf("beyond are %v", got)
	}
}

// TestMoveToAnotherLevel: in a new generation the worker may have another bit at another home, which knows the job by another id. RESULTs that it kept are given with all bits of that.
func TestMoveToAnotherLevel(t *testing.T) {
	x := newScript(t, inTree)
	x.submit(0, ints(32))
	x.expect(0, "D0 D1")
	x.receive(ms, wire.Result, 0, 7, descriptorOf(32), func(h *wire.Header) { h.Op = wire.Max })
	x.expect(ms, "")
	next := x.engine.cfg
	next.Job, next.Generation, next.Level = 9, 4, &Level{Bit: 4, Ranks: []int{5, 6, 7, 8, 100}}
	if err := x.engine.Resume(2*ms, next); err != nil {
		t.Fatal(err)
	}
	var out recorder
	x.engine.Poll(2*ms, &out)
	sent := out.headers(t)
	if len(sent) != 1 || sent[0].Type != wire.Probe || sent[0].Job != 9 || sent[0].Generation != 4 || sent[0].Bitmap != 16 {
		t.Errorf("after the move it sends %+v", sent)
	}
	solicit := wire.Header{Version: wire.Version, Type: wire.Solicit, Job: 9, Generation: 4, Cookie: next.Cookie, Seq: next.FirstSeq, Bitmap: 15, Op: wire.Max}
	b := make([]byte, wire.HeaderSize)
	solicit.Encode(b)
	x.engine.Receive(3*ms, b, false)
	out = recorder{}
	x.engine.Poll(3*ms, &out)
	if sent = out.headers(t); len(sent) != 1 || sent[0].Type != wire.Result || sent[0].Job != 9 || sent[0].Bitmap != 31 {
		t.Errorf("it gives %+v", sent)
	}
	flat := next
	flat.Level = nil
	flat.Generation++
	if err := x.engine.Resume(4*ms, flat); err == nil {
		t.Error("130 workers of one level go on")
	}
}

// recorder keeps the packets that are sent.
type recorder struct{ packets [][]byte }

func (r *recorder) Packet(_ uint32, size int) []byte {
	r.packets = append(r.packets, make([]byte, size))
	return r.packets[len(r.packets)-1]
}

// headers decodes them.
func (r *recorder) headers(t *testing.T) (all []wire.Header) {
	t.Helper()
	for _, b := range r.packets {
		var h wire.Header
		if _, err := h.Decode(b); err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	return all
}

// TestLevelRefused says what cannot be a worker's place.
func TestLevelRefused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"workers of one home":         func(c *Config) { c.Level.Ranks = make([]int, 65) },
		"none of the home's":          func(c *Config) { c.Level.Bit = 3 },
		"is that of rank 101":         func(c *Config) { c.Level.Bit = 2 },
		"waits for all":               func(c *Config) { c.Policy = Policy{Quorum: 2, After: ms} },
		"is not between 0 and 129":    func(c *Config) { c.Level.Beyond[0][0] = 130 },
		"nodes beside":                func(c *Config) { c.Level.Beyond = make([][]int, 65) },
		"is not between 1 and 262144": func(c *Config) { c.Workers = 1 << 20 },
	} {
		c := testConfig()
		inTree(&c)
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
