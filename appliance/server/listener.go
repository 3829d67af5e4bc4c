package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// listener counts the connections that it hands out. A few more than the limit are let in, to be told that they are too many; those
// beyond them are closed at once.
type listener struct {
	net.Listener
	most, mostPerPeer int
	log               *slog.Logger
	lines             *rate.Limiter

	mu    sync.Mutex // over what follows; nothing else is locked while it is held
	open  int
	peers map[netip.Addr]int
	// mute are the connections on which there was no call yet.
	mute map[*connection]bool
	// leaving: no connection is let in any more.
	leaving bool
}

func newListener(inner net.Listener, limits Limits, log *slog.Logger) *listener {
	return &listener{
		Listener: inner, most: limits.Connections, mostPerPeer: limits.ConnectionsPerPeer, log: log,
		lines: rate.NewLimiter(1, 1), peers: map[netip.Addr]int{}, mute: map[*connection]bool{},
	}
}

// reserve is how many connections beyond the limit are let in to be told so.
func (l *listener) reserve() int { return 4 + l.most/16 }

// Accept is called by gRPC in one goroutine.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		made, err := l.admit(inner)
		if err == nil {
			return made, nil
		}
		if l.lines.Allow() {
			l.log.Warn("connection closed", "peer", inner.RemoteAddr().String(), "why", err)
		}
		if err := inner.Close(); err != nil {
			l.log.Debug("close", "peer", inner.RemoteAddr().String(), "error", err)
		}
	}
}

func (l *listener) admit(inner net.Conn) (*connection, error) {
	made := &connection{Conn: inner, listener: l}
	if from, ok := inner.RemoteAddr().(*net.TCPAddr); ok {
		made.from = from.AddrPort().Addr().Unmap()
		if err := dieWithPeer(inner); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	peer := l.peers[made.from]
	switch {
	case l.leaving:
		return nil, errors.New("the server goes away")
	case l.open >= l.most+l.reserve():
		return nil, fmt.Errorf("%d connections are open", l.open)
	case l.open >= l.most:
		made.surplus = fmt.Sprintf("%d connections are open, more than %d are not served; close some, or raise api.limits.connections", l.open, l.most)
	case made.from.IsValid() && peer >= l.mostPerPeer+4:
		return nil, fmt.Errorf("%d connections of %s are open", peer, made.from)
	case made.from.IsValid() && peer >= l.mostPerPeer:
		made.surplus = fmt.Sprintf("%d connections of %s are open, more than %d of one address are not served; close some, or raise api.limits.connections", peer, made.from, l.mostPerPeer)
	}
	l.open++
	l.peers[made.from]++
	l.mute[made] = true
	return made, nil
}

func (l *listener) gone(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	delete(l.mute, c)
	if l.peers[c.from]--; l.peers[c.from] == 0 {
		delete(l.peers, c.from)
	}
}

// closeMute lets no connection in any more, and closes those on which there was no call: gRPC would wait for those that have not finished their handshake.
func (l *listener) closeMute() {
	l.mu.Lock()
	l.leaving = true
	mute := slices.Collect(maps.Keys(l.mute))
	l.mu.Unlock()
	for _, c := range mute {
		_ = c.Close() // gRPC does too, and notes what comes of it
	}
}

// unacknowledged is how long what was sent to a peer may stay unacknowledged, in milliseconds, before the kernel gives the connection up
// (TCP_USER_TIMEOUT, RFC 5482). gRPC's pings notice a peer that is gone when nothing is being sent, this one when something is.
const unacknowledged = 10_000

func dieWithPeer(c net.Conn) error {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, unacknowledged)
	})
	return errors.Join(err, set)
}

// connection is one that is counted.
type connection struct {
	net.Conn
	listener *listener
	from     netip.Addr
	// surplus is why its calls are refused, when there are too many connections.
	surplus string

	once sync.Once
	mu   sync.Mutex // over doom
	doom *time.Timer
}

// calls notes that there is a call on the connection.
func (c *connection) calls() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	delete(c.listener.mute, c)
}

// Close may be called more than once.
func (c *connection) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.listener.gone(c)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.doom != nil {
			c.doom.Stop()
		}
		c.doom = nil
	})
	return err
}

// closeIn closes the connection after a while, in which the other side may still read what was sent.
func (c *connection) closeIn(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.doom == nil {
		c.doom = time.AfterFunc(d, func() {
			// A second Close of gRPC finds it closed, which it expects.
			_ = c.Close()
		})
	}
}

// drain reads what the other side has sent until it closes, for some time, so that it can read what it was sent.
func (c *connection) drain(d time.Duration) {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(d)) != nil {
		return
	}
	// Whatever ends it, gRPC closes the connection next.
	_, _ = io.CopyN(io.Discard, c.Conn, 64<<10)
}
