package sim

import (
	"fmt"
	"net/netip"

	"spillway/wire"
	"spillway/worker/engine"
)

// Worker is an engine as a node, with the collectives it is to issue.
type Worker struct {
	addr       netip.Addr
	port       uint16
	home       netip.AddrPort
	homePorts  uint16
	engine     *engine.Engine
	generation uint8
	// Burst bounds the packets of one Wake, as a full send queue does; the rest
	// goes out at the next.
	burst    int
	out      [][]byte
	paused   int64                // until then nothing is done
	backlog  [][]byte             // what arrived meanwhile
	Finished []*engine.Collective // in the order they finished
}

// NewWorker makes an engine at an address.
func NewWorker(addr netip.Addr, port uint16, home netip.AddrPort, homePorts uint16, burst int, cfg engine.Config) (*Worker, error) {
	e, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Worker{addr: addr, port: port, home: home, homePorts: homePorts, engine: e, generation: cfg.Generation, burst: burst}, nil
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
	if src := netip.AddrFrom4([4]byte(frame[26:30])); src != w.home.Addr() {
		return nil, fmt.Errorf("%v got a frame from %v", w.addr, src)
	}
	if now < w.paused {
		if len(w.backlog) < mostBacklog {
			w.backlog = append(w.backlog, frame)
		}
		return nil, nil
	}
	w.engine.Receive(now, frame[HeaderBytes:], frame[15]&3 == 3)
	w.collect()
	return nil, nil
}

// Wake polls the engine.
func (w *Worker) Wake(now int64) ([][]byte, int64, error) {
	w.out = nil
	if now < w.paused {
		return nil, w.paused, nil
	}
	for _, frame := range w.backlog {
		w.engine.Receive(now, frame[HeaderBytes:], frame[15]&3 == 3)
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

// Resume tells the worker of a new generation, when it does something again.
func (w *Worker) Resume(f *Fabric, now int64, generation uint8, cookie uint32) {
	f.At(max(now, w.paused), func(now int64) error {
		if now < w.paused {
			w.Resume(f, now, generation, cookie)
			return nil
		}
		if int8(generation-w.generation) > 0 {
			w.generation = generation
			w.engine.Resume(now, generation, cookie)
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
	to := netip.AddrPortFrom(w.home.Addr(), w.home.Port()+wire.HomePort(seq, w.homePorts))
	frame := NewFrame(netip.AddrPortFrom(w.addr, w.port), to, size)
	w.out = append(w.out, frame)
	return frame[HeaderBytes:]
}

func (w *Worker) collect() {
	for c := w.engine.Completed(); c != nil; c = w.engine.Completed() {
		w.Finished = append(w.Finished, c)
	}
}
