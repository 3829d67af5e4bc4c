package rack

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// stream sends bytes over TCP from a worker to where listen listens, and returns how many packets left the worker's interface meanwhile.
func stream(t *testing.T, r *Rack, listen func(func() error) error, address string, size int) (packets uint64) {
	t.Helper()
	var listener net.Listener
	if err := listen(func() (err error) {
		listener, err = net.Listen("tcp4", address)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	received := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			var n int64
			n, err = io.Copy(io.Discard, struct{ io.Reader }{conn})
			if err == nil && n != int64(size) {
				err = errors.New("not all bytes arrived")
			}
			err = errors.Join(err, conn.Close())
		}
		received <- err
	}()
	sent := func() uint64 {
		link, err := r.workers[1].link.LinkByName(hostInterface)
		if err != nil {
			t.Fatal(err)
		}
		return link.Attrs().Statistics.TxPackets
	}
	before := sent()
	var conn net.Conn
	if err := r.InWorker(1, func() (err error) {
		conn, err = net.DialTimeout("tcp4", address, 10*time.Second)
		return err
	}); err != nil {
		t.Fatal(errors.Join(err, listener.Close(), <-received))
	}
	_, err := conn.Write(make([]byte, size))
	if err := errors.Join(err, conn.Close(), <-received, listener.Close()); err != nil {
		t.Error(err)
	}
	return sent() - before
}

// TCP crosses the rack in large packets while it has the offloads for it, and in packets of the links' size otherwise; from worker to worker, and to the server.
func TestOrdinaryOffloads(t *testing.T) {
	const size = 8 << 20
	for _, c := range []struct {
		name   string
		config Config
	}{
		{"unshaped", Config{}}, {"shaped", Config{Rate: 500_000_000}}, {"long packets, hooks", Config{Elements: 832, Hooks: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Workers, c.config.Server = 2, true
			r := build(t, c.config)
			inServer := func(f func() error) error { return r.server.do(f) }
			for range 2 {
				for _, ordinary := range []bool{true, false} {
					if err := r.Ordinary(ordinary); err != nil {
						t.Fatal(err)
					}
					for to, packets := range map[string]uint64{
						"worker": stream(t, r, inWorker(r, 0), WorkerAddr(0).String()+":5002", size), "server": stream(t, r, inServer, ServerAddr().String()+":5003", size),
					} {
						one := uint64(size / r.config.MTU()) // at the least, if each is on its own
						if ordinary && packets > one/2 || !ordinary && packets < one {
							t.Errorf("ordinary: %t: %d bytes to the %s left in %d packets, of which %d would be full ones of the links' size", ordinary, size, to, packets, one)
						}
					}
				}
			}
		})
	}
}

func TestServerNeedsBridge(t *testing.T) {
	config := Config{Workers: 2, Server: true, Tor: softTor(4)}
	if err := config.Validate(); err == nil {
		t.Error("a server behind a ToR is taken")
	}
	r := build(t, Config{Workers: 1})
	if _, err := r.StartServer(Command{}); err == nil {
		t.Error("a process was started at a server that is not there")
	}
}
