package engine

// Stats counts what an engine did since it was made, and says where it stands.
type Stats struct {
	PacketsSent     uint64 `json:"packets_sent"`
	BytesSent       uint64 `json:"bytes_sent"` // of UDP payload
	PacketsReceived uint64 `json:"packets_received"`
	BytesReceived   uint64 `json:"bytes_received"` // of UDP payload

	Collectives    uint64 `json:"collectives"`     // finished, with or without an error
	Results        uint64 `json:"results"`         // first RESULT of a chunk
	TorResults     uint64 `json:"tor_results"`     // those of them that the ToR summed
	Resends        uint64 `json:"resends"`         // DATA with RESEND
	Probes         uint64 `json:"probes"`          // PROBE
	Timeouts       uint64 `json:"timeouts"`        // of the retransmission timer
	SolicitAnswers uint64 `json:"solicit_answers"` // RESULTs sent to a home that asked
	Pendings       uint64 `json:"pendings"`        // PENDING received
	Solicits       uint64 `json:"solicits"`        // SOLICIT received
	ECNMarks       uint64 `json:"ecn_marks"`       // RESULTs with a congestion mark
	WindowCuts     uint64 `json:"window_cuts"`     // halvings of the congestion window

	PartialResults uint64 `json:"partial_results,omitempty"` // those of chunks released without everybody
	EarlyResults   uint64 `json:"early_results,omitempty"`   // kept: released before this rank sent the chunk
	PastTor        uint64 `json:"past_tor,omitempty"`        // chunks for the home that have a slot at the ToR, as a rank was missing a window before

	DuplicateResults uint64 `json:"duplicate_results"` // ignored: of a chunk that is done
	UnaskedResults   uint64 `json:"unasked_results"`   // ignored: of a chunk that was not sent
	MismatchedPacket uint64 `json:"mismatched_packets"`
	ForeignPackets   uint64 `json:"foreign_packets"` // ignored: of another job, generation or cookie
	BadPackets       uint64 `json:"bad_packets"`     // ignored: not of the protocol, or of a type that no worker is sent

	SmoothedRTT int64 `json:"srtt_ns"`
	RTTVar      int64 `json:"rttvar_ns"`
	MinRTT      int64 `json:"min_rtt_ns"`
	RTO         int64 `json:"rto_ns"`
	Cwnd        int   `json:"cwnd"`        // chunks
	Outstanding int   `json:"outstanding"` // chunks from the oldest without a RESULT to the newest opened
}

// Retransmissions are the packets with elements that were sent more than once in the life of their chunk.
func (s *Stats) Retransmissions() uint64 { return s.Resends + s.SolicitAnswers }

// Stats is a view of the engine's counters, brought up to date by the call.
func (e *Engine) Stats() *Stats {
	s := &e.stats
	path := e.path()
	s.SmoothedRTT, s.RTTVar, s.MinRTT = path.smoothed, path.variation, path.least
	s.RTO = path.timeout(0)
	s.Cwnd = int(e.window.chunks())
	s.Outstanding = int(e.next - e.base)
	return s
}
