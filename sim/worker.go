package sim

import (
	"fmt"
	"net/netip"

	"spillway/worker/engine"
)

// Worker is an engine as a node, with the collectives it is to issue.
type Worker struct {
	addr   netip.Addr
	port   uint16
	home   netip.AddrPort
	engine *engine.Engine
	// Burst bounds the packets of one Wake, as a full send queue does; the rest
	// goes out at the next.
	burst    int
	out      [][]byte
	Finished []*engine.Collective // in the order they finished
}

// NewWorker makes an engine at an address.
func NewWorker(addr netip.Addr, port uint16, home netip.AddrPort, burst int, cfg engine.Config) (*Worker, error) {
	e, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Worker{addr: addr, port: port, home: home, engine: e, burst: burst}, nil
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
	w.engine.Receive(now, frame[HeaderBytes:], frame[15]&3 == 3)
	w.collect()
	return nil, nil
}

// Wake polls the engine.
func (w *Worker) Wake(now int64) ([][]byte, int64, error) {
	w.out = nil
	next := w.engine.Poll(now, w)
	w.collect()
	return w.out, next, nil
}

// Packet implements engine.Output.
func (w *Worker) Packet(homePort uint16, size int) []byte {
	if len(w.out) >= w.burst {
		return nil
	}
	to := netip.AddrPortFrom(w.home.Addr(), w.home.Port()+homePort)
	frame := NewFrame(netip.AddrPortFrom(w.addr, w.port), to, size)
	w.out = append(w.out, frame)
	return frame[HeaderBytes:]
}

func (w *Worker) collect() {
	for c := w.engine.Completed(); c != nil; c = w.engine.Completed() {
		w.Finished = append(w.Finished, c)
	}
}
