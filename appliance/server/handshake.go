package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"

	"spillway/appliance/certs"
)

// handshake makes a caller of each connection of a listener. It is the listener's gRPC TransportCredentials.
type handshake struct {
	way way
	// trust is what TLS goes by now, out of files.
	trust *atomic.Pointer[trust]
	files TLS
	log   *slog.Logger
	// lines bounds what callers that fail can write into the log.
	lines *rate.Limiter
}

// linger is how long a caller that failed may take to hear why: closing with bytes unread would reset the connection, and the reason
// be lost on the way.
const linger = time.Second

var errNotHTTP2 = errors.New("the caller does not speak HTTP/2 over TLS (ALPN h2)")

// ServerHandshake is called by gRPC with a deadline on the connection, in a goroutine of the connection's own.
func (h *handshake) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	connection, ok := raw.(*connection)
	if !ok {
		return nil, nil, fmt.Errorf("%w: %T", errNobody, raw)
	}
	switch h.way {
	case overSocket:
		return h.socket(connection)
	case overTLS, overPeers:
		return h.tls(connection)
	}
	made := newCaller(overPlainTCP, connection)
	return connection, made, nil
}

func newCaller(way way, c *connection) *caller {
	made := &caller{way: way, connection: c, peer: c.RemoteAddr().String()}
	if from, err := netip.ParseAddrPort(made.peer); err == nil {
		made.address = from.Addr().Unmap().WithZone("")
		made.account = made.address.String()
	}
	made.SecurityLevel = credentials.NoSecurity
	return made
}

// socket asks the kernel who is at the other end. Whether they may be there, the socket's mode has said.
func (h *handshake) socket(c *connection) (net.Conn, credentials.AuthInfo, error) {
	made := newCaller(overSocket, c)
	made.SecurityLevel = credentials.PrivacyAndIntegrity
	made.identity = certs.Identity{Operator: true}
	socket, ok := c.Conn.(*net.UnixConn)
	if !ok {
		return nil, nil, fmt.Errorf("%w: %T on the Unix socket", errNobody, c.Conn)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, nil, fmt.Errorf("credentials of the peer: %w", err)
	}
	var credentials *unix.Ucred
	var asked error
	if err := raw.Control(func(fd uintptr) {
		credentials, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || asked != nil {
		return nil, nil, fmt.Errorf("credentials of the peer: %w", errors.Join(err, asked))
	}
	made.peer = fmt.Sprintf("uid %d pid %d", credentials.Uid, credentials.Pid)
	made.account = fmt.Sprintf("uid %d", credentials.Uid)
	return c, made, nil
}

func (h *handshake) tls(c *connection) (net.Conn, credentials.AuthInfo, error) {
	trust := h.trust.Load()
	secured := tls.Server(c, trust.config)
	err := secured.HandshakeContext(context.Background()) // gRPC has put a deadline on the connection
	state := secured.ConnectionState()
	if err == nil && state.NegotiatedProtocol != http2.NextProtoTLS {
		err = errNotHTTP2
	}
	if err != nil {
		h.refused(c, err)
		return nil, nil, err
	}
	made := newCaller(h.way, c)
	made.SecurityLevel = credentials.PrivacyAndIntegrity
	made.certificates = state.PeerCertificates
	made.identity, made.mistake = certs.IdentityOf(state.PeerCertificates[0])
	made.verified.Store(trust)
	return secured, made, nil
}

// refused writes down who was refused and why, and lets the caller hear what TLS, or HTTP/2, can say of it.
func (h *handshake) refused(c *connection, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return // came and went
	}
	why, remedy := handshakeProblem(err, h.files.Authorities)
	if h.lines.Allow() {
		h.log.Info("connection refused", "peer", c.RemoteAddr().String(), "why", why, "remedy", remedy, "error", err)
	}
	if noTLS := (tls.RecordHeaderError{}); errors.As(err, &noTLS) && isHTTP(noTLS.RecordHeader) {
		// What a caller over HTTP/1 shows, and one over HTTP/2 stumbles over in a way that refusal.Handshake knows.
		_, _ = fmt.Fprintf(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nThis port speaks TLS, and wants a certificate of the caller.\r\n")
	}
	c.drain(linger)
}

// isHTTP says whether a connection began with a request in the clear: HTTP/2 (RFC 9113, 3.4) or the usual ones of HTTP/1.
func isHTTP(beginning [5]byte) bool {
	switch string(beginning[:]) {
	case http2.ClientPreface[:5], "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}

// ClientHandshake is not for a server.
func (h *handshake) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("credentials of a server")
}

// Info is for gRPC.
func (h *handshake) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: h.way.String()}
}

// Clone is for gRPC; a handshake does not change.
func (h *handshake) Clone() credentials.TransportCredentials { return h }

// OverrideServerName is not for a server.
func (h *handshake) OverrideServerName(string) error { return errors.New("credentials of a server") }
