package rack

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"spillway/loadtest/faults"
)

// Where TCP meets the dice, each of its packets does so by itself, as it would be lost on a wire; and a stream is whole in spite of that.
func TestFaultsOfTCP(t *testing.T) {
	const length, segment = 8 << 20, 1448 // bytes; a segment of 1500 less headers and time stamps
	for _, c := range []struct {
		name   string
		config Config
	}{
		{"bridge", Config{Faults: faults.Rates{Loss: 0.01, TCP: true}}},
		{"bridge, shaped", Config{Rate: 500_000_000, Faults: faults.Rates{Loss: 0.01, TCP: true}}},
		{"ToR", Config{Tor: softTor(4), Faults: faults.Rates{Loss: 0.01, TCP: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Workers = 2
			r := build(t, c.config)
			var listener net.Listener
			err := r.InWorker(0, func() (err error) {
				listener, err = net.Listen("tcp4", WorkerAddr(0).String()+":5001")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			written := make(chan error, 1)
			go func() {
				conn, err := listener.Accept()
				if err == nil {
					_, err = conn.Write(make([]byte, length))
					err = errors.Join(err, conn.Close())
				}
				written <- err
			}()
			var conn net.Conn
			err = r.InWorker(1, func() (err error) {
				conn, err = net.DialTimeout("tcp4", WorkerAddr(0).String()+":5001", 10*time.Second)
				return err
			})
			if err != nil {
				t.Fatal(errors.Join(err, listener.Close(), <-written))
			}
			if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
			got, err := io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn})
			if err := errors.Join(err, conn.Close(), <-written, listener.Close()); err != nil || got != length {
				t.Errorf("%d bytes of %d arrived: %v", got, length, err)
			}
			all, err := r.Faults()
			if err != nil {
				t.Fatal(err)
			}
			for name, e := range map[string]faults.Events{"uplink": all.Uplink, "downlink": all.Downlink} {
				if e.Packets < length/segment {
					t.Errorf("%s: %d packets met the dice, at least %d crossed", name, e.Packets, length/segment)
				}
				near(t, name+" dropped", e.Dropped, float64(e.Packets)/100)
			}
		})
	}
}

// The API's TCP crosses whatever is at the top of the rack, beside the XDP programs and whatever happens to UDP.
func TestTCPReachesTheHome(t *testing.T) {
	const port = ":5001"
	for _, c := range []struct {
		name   string
		config Config
	}{
		{"bridge", Config{}},
		{"bridge, long packets", Config{Elements: 832, Rate: 500_000_000}},
		{"bridge, faults", Config{Faults: faults.Rates{Loss: 0.5}}},
		{"ToR", Config{Tor: softTor(4)}},
		{"ToR, cables", Config{Tor: softTor(4), Rate: 500_000_000, HomeRate: 500_000_000}},
		{"ToR, faults", Config{Tor: softTor(4), Elements: 832, Rate: 500_000_000, Faults: faults.Rates{Loss: 0.5}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Workers = 2
			r := build(t, c.config)
			var listener net.Listener
			err := r.InHome(func() (err error) {
				listener, err = net.Listen("tcp4", HomeAddr().String()+port)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			echoed := make(chan error, 1)
			go func() {
				conn, err := listener.Accept()
				if err == nil {
					// Not spliced: that would keep a pipe open until the collector comes round to it.
					_, err = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
					err = errors.Join(err, conn.Close())
				}
				echoed <- err
			}()
			var conn net.Conn
			err = r.InWorker(1, func() (err error) {
				conn, err = net.DialTimeout("tcp4", HomeAddr().String()+port, 10*time.Second)
				return err
			})
			if err != nil {
				t.Fatal(errors.Join(err, listener.Close(), <-echoed))
			}
			if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Error(err)
			}
			sent := bytes.Repeat([]byte("spillway"), 50_000)
			written := make(chan error, 1)
			go func() {
				_, err := conn.Write(sent)
				written <- errors.Join(err, conn.(*net.TCPConn).CloseWrite())
			}()
			got, err := io.ReadAll(conn)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d bytes of %d came back: %v", len(got), len(sent), err)
			}
			if err := errors.Join(<-written, conn.Close(), <-echoed, listener.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
