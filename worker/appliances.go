package worker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

const (
	// mostHops bounds how often in a while a worker goes where an appliance says that the leader is: while a new one is elected, followers may name
	// each other.
	mostHops = 3
	// while is how long hops are counted, and an address that did not answer is not gone to because a follower names it.
	while = time.Second
)

// appliances are where a worker may find the appliance that leads the others: the addresses that it was given, tried in turn, and the one that a
// follower named. Calls go to one of them, until it does not answer or sends the worker on. Connections are made by the first call and kept.
type appliances struct {
	list   string
	listed []string
	tls    *tls.Config

	mu     sync.Mutex
	conns  map[string]*grpc.ClientConn // of the listed, and of at
	at     string
	turn   int // index of the listed address that was tried last
	closed bool
	since  time.Time // when the rest began to be counted
	tried  int       // listed addresses
	hops   int       // times that a follower was believed
	broken string    // the address that did not answer
}

// newAppliances takes a list with commas of addresses to call, from a worker with the own address, if it was given one.
func newAppliances(list string, config *tls.Config, own netip.Addr) (*appliances, error) {
	a := &appliances{list: list, tls: config, conns: map[string]*grpc.ClientConn{}}
	for _, addr := range strings.Split(list, ",") {
		addr = strings.TrimSpace(addr)
		if slices.Contains(a.listed, addr) {
			continue
		}
		if err := checkAddress(addr, own); err != nil {
			return nil, err
		}
		a.listed = append(a.listed, addr)
	}
	for _, addr := range a.listed {
		conn, err := dial(addr, config, len(a.listed) > 1)
		if err != nil {
			return nil, errors.Join(err, a.close())
		}
		a.conns[addr] = conn
	}
	a.at = a.listed[0]
	return a, nil
}

// client is for a call to the present address.
func (a *appliances) client() (v1.WorkerServiceClient, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, ErrClosed
	}
	conn := a.conns[a.at]
	if conn == nil {
		var err error
		if conn, err = dial(a.at, a.tls, true); err != nil {
			return nil, err
		}
		a.conns[a.at] = conn
	}
	return v1.NewWorkerServiceClient(conn), nil
}

// present is the address that calls go to.
func (a *appliances) present() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at
}

// next decides where the next call goes, after an error of one that went to an address, and whether it is to wait before that. An appliance that follows
// another says which, and is believed a few times; one that does not answer, or does not know, gives way to the next of the list, and after the last there is a pause.
// Any other refusal is the leader's own.
func (a *appliances) next(at string, err error) (pause bool) {
	refused := refusal.Of(err)
	leads := refused != nil && refused.Reason != "" && refused.Reason != refusal.NotLeader && refused.Reason != refusal.ShuttingDown
	a.mu.Lock()
	defer a.mu.Unlock()
	if at != a.at || leads {
		return leads
	}
	if now := time.Now(); now.Sub(a.since) > while {
		a.since, a.tried, a.hops, a.broken = now, 0, 0, ""
	}
	if refused != nil && refused.Reason == refusal.NotLeader {
		leader := refused.Metadata["leader"]
		if a.hops < mostHops && leader != at && leader != a.broken && isHostPort(leader) {
			a.hops++
			a.goTo(leader)
			return false
		}
	} else {
		a.broken = at
	}
	a.turn = (a.turn + 1) % len(a.listed)
	a.goTo(a.listed[a.turn])
	if a.tried++; a.tried < len(a.listed) {
		return false
	}
	a.tried = 0
	return true
}

// goTo changes the present address. Of those that are not listed one is remembered, for a list of addresses that were never given would have no end.
func (a *appliances) goTo(addr string) {
	if conn := a.conns[a.at]; conn != nil && addr != a.at && !slices.Contains(a.listed, a.at) {
		_ = conn.Close() // of a connection that is given up there is nothing to say
		delete(a.conns, a.at)
	}
	a.at = addr
}

func (a *appliances) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	var errs []error
	for addr, conn := range a.conns {
		if err := conn.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the connection to the appliance at %s: %w", addr, err))
		}
	}
	clear(a.conns)
	return errors.Join(errs...)
}

func isHostPort(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	return err == nil && host != "" && port != "" && !overSocket(addr)
}
