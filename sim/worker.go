package sim

import (
	"bytes"
	"fmt"
	"net/netip"

	"spillway/wire"
	"spillway/worker/engine"
)

// Worker is an engine as a node, with the collectives it is to issue.
type Worker struct {
	addr   netip.Addr
	port   uint16
	homes  []netip.AddrPort // by shard
	ports  uint16           // of each home
	engine *engine.Engine
	cfg    engine.Config // of the present generation
	// Burst bounds the packets of one Wake, as a full send queue does; the rest
	// goes out at the next.
	burst     int
	out       [][]byte
	paused    int64    // until then nothing is done
	backlog   [][]byte // what arrived meanwhile
	wanders   bool     // its homes may change: frames of others are none of the engine's, and no mistake
	taken     taken
	moved     int64                // when it was last told of a new generation, and has had no RESULT since
	recovered func(after int64)    // is told how long that took
	Finished  []*engine.Collective // in the order they finished
}

// taken are the RESULTs that workers of a job took, by seq: whoever takes one of the same chunk must take the same.
type taken map[uint32]published

// NewWorker makes an engine at an address. Its homes, one for each shard, have that many ports each.
func NewWorker(addr netip.Addr, port uint16, homes []netip.AddrPort, ports uint16, burst int, cfg engine.Config) (*Worker, error) {
	e, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Worker{addr: addr, port: port, homes: homes, ports: ports, engine: e, cfg: cfg, burst: burst, taken: make(taken)}, nil
}

// Addr is the worker's address.
func (w *Worker) Addr() netip.Addr { return w.addr }

// Submit issues a collective; wake the worker afterwards.
func (w *Worker) Submit(now int64, c *engine.Collective) error {
	if err := w.engine.Submit(now, c); err != nil {
		return fmt.Errorf("submit at %v: %w", w.addr, err)
	}
	return nil
}

// Receive hands a frame's payload to the engine, as the transport does.
func (w *Worker) Receive(now int64, frame []byte) ([][]byte, error) {
	if now < w.paused {
		if len(w.backlog) < mostBacklog {
			w.backlog = append(w.backlog, frame)
		}
		return nil, nil
	}
	return nil, w.take(now, frame)
}

// take is Receive when nothing keeps the worker.
func (w *Worker) take(now int64, frame []byte) error {
	if src := netip.AddrFrom4([4]byte(frame[26:30])); !w.isHome(src) {
		if w.wanders {
			return nil
		}
		return fmt.Errorf("%v got a frame from %v", w.addr, src)
	}
	before := *w.engine.Stats()
	w.engine.Receive(now, frame[HeaderBytes:], frame[15]&3 == 3)
	after := w.engine.Stats()
	w.collect()
	if after.Results+after.EarlyResults == before.Results+before.EarlyResults {
		return nil
	}
	if w.moved > 0 && w.recovered != nil {
		w.recovered(now - w.moved)
	}
	w.moved = 0
	return w.taken.note(w.addr, frame[HeaderBytes:], w.cfg.Level)
}

func (w *Worker) isHome(addr netip.Addr) bool {
	for _, home := range w.homes {
		if home.Addr() == addr {
			return true
		}
	}
	return false
}

// note adds a RESULT that a worker took. What no order of adding keeps in range has no value that all would have to agree on.
func (t taken) note(who netip.Addr, packet []byte, level *engine.Level) error {
	var h wire.Header
	elements, err := h.Decode(packet)
	if err != nil {
		return err
	}
	if level != nil && h.Bitmap == wire.FullBitmap(len(level.Ranks)) {
		h.Bitmap = everybody
	}
	was, again := t[h.Seq]
	switch {
	case !again:
		t[h.Seq] = published{h.Generation, h.Flags, h.Bitmap, bytes.Clone(elements)}
	case was.bitmap != h.Bitmap || (was.flags^h.Flags)&(wire.Saturated|wire.Partial) != 0 || h.Flags&wire.Saturated == 0 && !bytes.Equal(was.elements, elements):
		return fmt.Errorf("%v took a RESULT of chunk %d, of %#x in generation %d, which is not what another took, of %#x in generation %d", who, h.Seq, h.Bitmap, h.Generation, was.bitmap, was.generation)
	}
	return nil
}

// everybody is the bitmap of a RESULT in a tree, whose levels have bitmaps of their own.
const everybody = ^uint64(0)

// Wake polls the engine.
func (w *Worker) Wake(now int64) ([][]byte, int64, error) {
	w.out = nil
	if now < w.paused {
		return nil, w.paused, nil
	}
	for _, frame := range w.backlog {
		if err := w.take(now, frame); err != nil {
			return nil, never, err
		}
	}
	w.backlog = nil
	next := w.engine.Poll(now, w)
	w.collect()
	return w.out, next, nil
}

// mostBacklog is the room in a paused worker's sockets, in frames.
const mostBacklog = 100

// Pause stops the worker until a time.
func (w *Worker) Pause(until int64) { w.paused = max(w.paused, until) }

// Resume tells the worker of a new generation and its homes, when it does something again.
func (w *Worker) Resume(f *Fabric, now int64, next engine.Config, homes []netip.AddrPort) {
	f.At(max(now, w.paused), func(now int64) error {
		if now < w.paused {
			w.Resume(f, now, next, homes)
			return nil
		}
		if int8(next.Generation-w.cfg.Generation) <= 0 {
			return nil // told late
		}
		next.Rank = w.cfg.Rank
		if err := w.engine.Resume(now, next); err != nil {
			return err
		}
		w.cfg, w.homes, w.moved = next, homes, 0
		if w.engine.Stats().Outstanding > 0 {
			w.moved = now
		}
		f.Kick(w.addr, now)
		return nil
	})
}

// Packet implements engine.Output.
func (w *Worker) Packet(seq uint32, size int) []byte {
	if len(w.out) >= w.burst {
		return nil
	}
	home := w.homes[wire.Shard(seq, len(w.homes))]
	to := netip.AddrPortFrom(home.Addr(), home.Port()+wire.ShardPort(seq, len(w.homes), w.ports))
	frame := NewFrame(netip.AddrPortFrom(w.addr, w.port), to, size)
	w.out = append(w.out, frame)
	return frame[HeaderBytes:]
}

func (w *Worker) collect() {
	for c := w.engine.Completed(); c != nil; c = w.engine.Completed() {
		w.Finished = append(w.Finished, c)
	}
}
