package worker

import (
	"spillway/worker/engine"
	"spillway/worker/transport"
)

// Stats counts what a worker did since it joined, and says where it stands.
type Stats struct {
	engine.Stats
	// Retransmissions are the packets with elements that were sent again: DATA with RESEND, and RESULTs for a home that asked.
	Retransmissions uint64          `json:"retransmissions"`
	Transport       transport.Stats `json:"transport"`
}

func (w *Worker) stats() Stats {
	s := Stats{Stats: *w.engine.Stats(), Transport: w.conn.Stats()}
	s.Retransmissions = s.Stats.Retransmissions()
	return s
}
