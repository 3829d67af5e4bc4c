package server

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"spillway/appliance/certs"
	"spillway/appliance/refusal"
)

// way is how a caller reaches the appliance.
type way int

const (
	overSocket way = iota
	overTLS
	overPlainTCP
	overPeers
)

func (w way) String() string {
	return [...]string{"unix socket", "TLS", "plain TCP", "TLS among appliances"}[w]
}

// caller is who is at the other end of a connection. It is made once, in the handshake, and gRPC carries it as the connection's AuthInfo.
type caller struct {
	credentials.CommonAuthInfo
	way way
	// peer names the other end in logs: its address, or the user and process.
	peer string
	// account is what the rate of calls is counted by: the address without its port, or the user.
	account string
	// address is where the connection comes from; invalid on a Unix socket.
	address netip.Addr
	// certificates are those of a caller over TLS, its own first.
	certificates []*x509.Certificate
	// identity is what it may do, and mistake what is wrong with the names in its certificate, which then may do nothing.
	identity certs.Identity
	mistake  error
	// verified is the trust that the certificates were last verified with.
	verified   atomic.Pointer[trust]
	connection *connection
}

// AuthType is for gRPC.
func (c *caller) AuthType() string { return c.way.String() }

// who names the caller in texts.
func (c *caller) who() string {
	switch c.way {
	case overTLS, overPeers:
		return fmt.Sprintf("the certificate %q of %s says %s", c.certificates[0].Subject.CommonName, c.address, c.identity)
	case overPlainTCP:
		return fmt.Sprintf("%s calls over plain TCP, without a certificate", c.address)
	}
	return c.peer
}

// crowd is what calls at once are counted by: a user, a peer without a certificate, or all who have the same rights.
func (c *caller) crowd() string {
	if c.secured() {
		return c.identity.String()
	}
	return c.account
}

// secured says whether the caller has a certificate.
func (c *caller) secured() bool { return c.way == overTLS || c.way == overPeers }

// operator says whether the caller may do everything.
func (c *caller) operator() bool {
	return c.way == overSocket || c.way == overTLS && c.identity.Operator
}

// current says whether the certificate is still good: a connection outlives neither the certificate's time nor the authorities that
// vouch for it, but calls that are there already go on.
func (c *caller) current(trust *trust, now time.Time) *refusal.Error {
	if !c.secured() {
		return nil
	}
	if c.mistake != nil {
		return refusal.New(codes.Unauthenticated, refusal.NotAuthorised, "%s: %w", c.address, c.mistake)
	}
	own := c.certificates[0]
	if now.After(own.NotAfter) {
		return refusal.New(codes.Unauthenticated, refusal.NotAuthorised, "the certificate %q of %s ended at %s, while it was connected; issue a new one and connect with it",
			own.Subject.CommonName, c.address, own.NotAfter.UTC().Format(time.RFC3339))
	}
	if c.verified.Load() == trust {
		return nil
	}
	intermediates := x509.NewCertPool()
	for _, certificate := range c.certificates[1:] {
		intermediates.AddCert(certificate)
	}
	_, err := own.Verify(x509.VerifyOptions{
		Roots: trust.config.ClientCAs, Intermediates: intermediates, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return refusal.New(codes.Unauthenticated, refusal.NotAuthorised, "the authorities were changed while %s was connected, and its certificate %q is of none of them; issue a new one and connect with it: %w",
			c.address, own.Subject.CommonName, err)
	}
	c.verified.Store(trust)
	return nil
}

// sendsFrom resolves the address that a worker names: the connection's own when it names none. It must be that, or one of its
// certificate, so that nobody can have results sent to others or contribute in their place. Operators may name any.
func (c *caller) sendsFrom(name string) (netip.Addr, *refusal.Error) {
	if name == "" {
		if !c.address.IsValid() {
			return netip.Addr{}, refusal.New(codes.InvalidArgument, refusal.BadRequest, "a Unix socket has no address that the worker sends from; set address to the IPv4 address of its interface in the rack")
		}
		if !c.address.Is4() {
			return netip.Addr{}, refusal.New(codes.InvalidArgument, refusal.BadRequest,
				"the call comes from %s, and workers send over IPv4; set address to the IPv4 address of the worker's interface in the rack, and have it in the certificate", c.address)
		}
		return c.address, nil
	}
	address, err := netip.ParseAddr(name)
	if err != nil || !address.Is4() || !address.IsGlobalUnicast() && !address.IsLoopback() {
		return netip.Addr{}, refusal.New(codes.InvalidArgument, refusal.BadRequest, "address %q is no IPv4 address of a host; give that of the worker's interface in the rack, such as 10.0.0.7", clip(name))
	}
	if c.operator() || address == c.address {
		return address, nil
	}
	if c.way == overPlainTCP {
		return netip.Addr{}, refusal.New(codes.PermissionDenied, refusal.AddressForeign,
			"%s is not where the call comes from, %s; leave address out, or connect from it; another one needs a certificate with it, over TLS", address, c.address)
	}
	for _, named := range c.certificates[0].IPAddresses {
		if own, ok := netip.AddrFromSlice(named); ok && own.Unmap() == address {
			return address, nil
		}
	}
	return netip.Addr{}, refusal.New(codes.PermissionDenied, refusal.AddressForeign,
		"%s is neither where the call comes from, %s, nor an address of the certificate %q; leave address out, connect from it, or issue a certificate with it",
		address, c.address, c.certificates[0].Subject.CommonName)
}

// errNobody is for a connection that came past the handshakes of this package: a bug.
var errNobody = errors.New("a connection without a caller")
