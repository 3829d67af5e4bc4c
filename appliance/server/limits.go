package server

import "time"

// Limits bound what callers can make the appliance do. A zero field is the default that its comment names.
type Limits struct {
	// Message is the most that a request may have, in bytes; 64 KiB.
	Message int
	// Connections at once, over TCP and over the Unix socket each, 1024; and of one peer address, a quarter of it.
	Connections        int
	ConnectionsPerPeer int
	// StreamsPerConnection and StreamsPerIdentity are calls at once; 128 and 1024.
	StreamsPerConnection int
	StreamsPerIdentity   int
	// CallsPerSecond of one peer address, or of one user of the Unix socket, 100, in bursts of Burst, 4 times as many.
	CallsPerSecond float64
	Burst          int
	// Unary is how long a call without a stream may take, when its caller gives no deadline; 10 s. No deadline is above six times of it.
	Unary time.Duration
	// Send is how long a stream may wait for its reader; 10 s.
	Send time.Duration
	// Handshake is how long a connection may take until it speaks HTTP/2; 5 s.
	Handshake time.Duration
	// Leave is how long calls have to end when the server goes away; 5 s.
	Leave time.Duration
}

func (l Limits) withDefaults() Limits {
	if l.Message == 0 {
		l.Message = 64 << 10
	}
	if l.Connections == 0 {
		l.Connections = 1024
	}
	if l.ConnectionsPerPeer == 0 {
		l.ConnectionsPerPeer = max(1, l.Connections/4)
	}
	if l.StreamsPerConnection == 0 {
		l.StreamsPerConnection = 128
	}
	if l.StreamsPerIdentity == 0 {
		l.StreamsPerIdentity = 1024
	}
	if l.CallsPerSecond == 0 {
		l.CallsPerSecond = 100
	}
	if l.Burst == 0 {
		l.Burst = max(1, int(4*l.CallsPerSecond))
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&l.Unary, 10 * time.Second}, {&l.Send, 10 * time.Second}, {&l.Handshake, 5 * time.Second}, {&l.Leave, 5 * time.Second}} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	return l
}
