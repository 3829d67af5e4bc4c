package fabric_test

import (
	"net"
	"sync"
	"testing"
)

// proxy is a cable between a fabric and its ToR that can be cut, or die without a word.
type proxy struct {
	t        testing.TB
	to       string // path of a socket
	listener net.Listener
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	cut   bool // new connections are closed at once
	gates []*gate
}

// gate lets the bytes of some connections through, or not.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed: they flow
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) wait() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

func newProxy(t testing.TB, socket string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, to: socket, listener: listener, gates: []*gate{newGate()}}
	p.serving.Go(p.serve)
	t.Cleanup(func() {
		listener.Close()
		p.plug()
		p.pull()
		p.serving.Wait()
	})
	return p
}

func (p *proxy) target() string { return p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("unix", p.to)
		p.mu.Lock()
		if err != nil || p.cut {
			near.Close()
			if err == nil {
				far.Close()
			}
			p.mu.Unlock()
			continue
		}
		p.conns = append(p.conns, near, far)
		last := p.gates[len(p.gates)-1]
		p.serving.Go(func() { last.copy(far, near) })
		p.serving.Go(func() { last.copy(near, far) })
		p.mu.Unlock()
	}
}

// copy passes bytes on, when they may flow, until either end is closed.
func (g *gate) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		g.wait()
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// pull cuts the cable: connections break, and new ones do.
func (p *proxy) pull() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// plug lets everything flow again.
func (p *proxy) plug() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	for _, g := range p.gates {
		g.mu.Lock()
		select {
		case <-g.open:
		default:
			close(g.open)
		}
		g.mu.Unlock()
	}
}

// hold lets nothing through, without a word to either end. Connections that are made later are free unless all are held.
func (p *proxy) hold(all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.gates[len(p.gates)-1]
	g.mu.Lock()
	g.open = make(chan struct{})
	g.mu.Unlock()
	if !all {
		p.gates = append(p.gates, newGate())
	}
}
