package transport

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair is a Conn at 127.0.0.2 whose home is a plain socket at 127.0.0.1.
func pair(t *testing.T, change func(*Config)) (*Conn, *net.UDPConn) {
	t.Helper()
	home, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	at := home.LocalAddr().(*net.UDPAddr).AddrPort()
	cfg := Config{Homes: []Home{{Addr: at, Ports: 1}}, Addr: netip.AddrFrom4([4]byte{127, 0, 0, 2}), WorkerPort: at.Port(), Elements: 256, Window: 64}
	if change != nil {
		change(&cfg)
	}
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), home.Close()); err != nil {
			t.Error(err)
		}
	})
	return c, home
}

// write puts packets of the given sizes into the Conn, each filled with its number.
func write(t *testing.T, c *Conn, sizes []int) {
	t.Helper()
	for i, size := range sizes {
		b := c.Packet(0, size)
		if len(b) != size || cap(b) != size {
			t.Fatalf("a buffer of %d of %d bytes for %d", len(b), cap(b), size)
		}
		for j := range b {
			b[j] = byte(i)
		}
	}
}

// expect reads packets of the given sizes at the home.
func expect(t *testing.T, home *net.UDPConn, sizes []int) {
	t.Helper()
	if err := home.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<16)
	for i, size := range sizes {
		n, from, err := home.ReadFromUDPAddrPort(b)
		if err != nil {
			t.Fatal(err)
		}
		if n != size || !bytes.Equal(b[:n], bytes.Repeat([]byte{byte(i)}, size)) || from.Addr() != netip.AddrFrom4([4]byte{127, 0, 0, 2}) {
			t.Fatalf("packet %d has %d bytes from %s, want %d", i, n, from, size)
		}
	}
}

func flush(t *testing.T, c *Conn) {
	t.Helper()
	if blocked, err := c.Flush(); blocked || err != nil {
		t.Fatalf("flush: blocked %v, %v", blocked, err)
	}
}

func TestRunsBecomeOneMessage(t *testing.T) {
	for _, c := range []struct {
		name     string
		sizes    []int
		messages int
	}{
		{"one", []int{100}, 1},
		{"equal", []int{100, 100, 100}, 1},
		{"a shorter one ends the run", []int{100, 100, 60, 60, 100}, 3},
		{"a longer one begins another", []int{28, 100, 100}, 2},
		{"at most 64", repeat(100, 70), 2},
		{"at most a datagram", repeat(3356, 20), 2},
	} {
		for _, offload := range []bool{true, false} {
			conn, home := pair(t, func(cfg *Config) { cfg.NoOffload = !offload })
			write(t, conn, c.sizes)
			if want := c.messages; offload && len(conn.send.messages) != want || !offload && len(conn.send.messages) != len(c.sizes) {
				t.Errorf("%s: %d messages, want %d with offload", c.name, len(conn.send.messages), want)
			}
			flush(t, conn)
			expect(t, home, c.sizes)
		}
	}
}

func repeat(size, n int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = size
	}
	return sizes
}

func TestRefusedRunIsSentPacketByPacket(t *testing.T) {
	for _, refusal := range []error{unix.EIO, unix.EINVAL, unix.EOPNOTSUPP} {
		conn, home := pair(t, nil)
		sizes := []int{28, 1052, 1052, 1052, 500}
		write(t, conn, sizes)
		conn.send.sent = 1 // the first went out before the refusal
		if err := conn.refused(refusal); err != nil || conn.Stats().GSO {
			t.Errorf("%v: %v, offload %v", refusal, err, conn.Stats().GSO)
		}
		if len(conn.send.messages) != 4 {
			t.Fatalf("%v: %d messages left", refusal, len(conn.send.messages))
		}
		conn.send.messages = append([]message{{size: 28, segment: 28, packets: 1, addr: conn.homes[0].addr, port: conn.homes[0].port}}, conn.send.messages...)
		flush(t, conn)
		expect(t, home, sizes)
		write(t, conn, []int{100, 100})
		if len(conn.send.messages) != 2 {
			t.Errorf("%v: runs are still made", refusal)
		}
	}
	conn, _ := pair(t, nil)
	write(t, conn, []int{100, 100})
	if err := conn.refused(unix.ENETUNREACH); err != nil || conn.Stats().SendDropped != 2 || !conn.Stats().GSO {
		t.Errorf("no route: %v, %+v", err, conn.Stats())
	}
	flush(t, conn) // nothing is left
	write(t, conn, []int{28})
	if err := conn.refused(unix.EMSGSIZE); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("too long for the path: %v", err)
	}
}

func TestFullBuffer(t *testing.T) {
	conn, home := pair(t, nil)
	written := 0
	for conn.Packet(0, 1052) != nil {
		written++
	}
	if written != sendBuffer/1052 {
		t.Errorf("%d packets fit", written)
	}
	if err := home.SetReadBuffer(4 << 20); err != nil {
		t.Fatal(err)
	}
	flush(t, conn)
	if conn.Packet(0, 1052) == nil {
		t.Error("full after a flush")
	}
}

// collector keeps copies of what is received.
type collector struct {
	payloads [][]byte
	ce       []bool
}

func (r *collector) Receive(payload []byte, ce bool) {
	r.payloads, r.ce = append(r.payloads, bytes.Clone(payload)), append(r.ce, ce)
}

// receive waits for a number of packets.
func receive(t *testing.T, c *Conn, n int) *collector {
	t.Helper()
	var got collector
	for deadline := time.Now().Add(5 * time.Second); len(got.payloads) < n && time.Now().Before(deadline); {
		if err := c.Wait(int64(time.Second), false); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Receive(&got); err != nil {
			t.Fatal(err)
		}
	}
	if len(got.payloads) != n {
		t.Fatalf("received %d packets, want %d", len(got.payloads), n)
	}
	return &got
}

func TestReceiveOnlyFromTheHome(t *testing.T) {
	conn, home := pair(t, nil)
	stranger, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 9)})
	if err != nil {
		t.Fatal(err)
	}
	otherPort, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	to := netip.AddrPortFrom(conn.cfg.Addr, conn.cfg.WorkerPort)
	for _, from := range []*net.UDPConn{stranger, otherPort, home} {
		if _, err := from.WriteToUDPAddrPort([]byte{1, 2, 3}, to); err != nil {
			t.Fatal(err)
		}
	}
	if got := receive(t, conn, 1); !bytes.Equal(got.payloads[0], []byte{1, 2, 3}) || got.ce[0] || conn.Stats().Strangers != 2 {
		t.Errorf("received %v, %+v", got, conn.Stats())
	}
	if err := errors.Join(stranger.Close(), otherPort.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestReceiveMarkedRun: a run that the sender's kernel segments, and the receiver's may put together, arrives as its packets, marks and all.
func TestReceiveMarkedRun(t *testing.T) {
	for _, offload := range []bool{true, false} {
		conn, home := pair(t, func(cfg *Config) { cfg.NoOffload = !offload })
		raw, err := home.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var failed error
		if err := raw.Control(func(fd uintptr) {
			failed = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, congestion),
				unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, 1000))
		}); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		b := append(append(bytes.Repeat([]byte{1}, 1000), bytes.Repeat([]byte{2}, 1000)...), 3, 3, 3)
		if _, err := home.WriteToUDPAddrPort(b, netip.AddrPortFrom(conn.cfg.Addr, conn.cfg.WorkerPort)); err != nil {
			t.Fatal(err)
		}
		got := receive(t, conn, 3)
		if !bytes.Equal(bytes.Join(got.payloads, nil), b) || len(got.payloads[2]) != 3 || !got.ce[0] || !got.ce[2] || conn.Stats().CEMarks != 3 {
			t.Errorf("offload %v: received %d packets, marks %v, %+v", offload, len(got.payloads), got.ce, conn.Stats())
		}
	}
}

func TestWake(t *testing.T) {
	conn, _ := pair(t, nil)
	if err := conn.Wake(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := conn.Wait(int64(time.Minute), false); err != nil || time.Since(begin) > 30*time.Second {
		t.Errorf("woken after %s: %v", time.Since(begin), err)
	}
	if err := conn.Wait(0, false); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, cfg := range []Config{
		{},
		{Addr: netip.MustParseAddr("::1"), Homes: []Home{{Addr: netip.MustParseAddrPort("127.0.0.1:1"), Ports: 1}}},
		{Addr: netip.MustParseAddr("127.0.0.2"), Homes: []Home{{Addr: netip.MustParseAddrPort("127.0.0.1:1"), Ports: 1}}, Group: netip.MustParseAddr("10.0.0.1")},
		{Addr: netip.MustParseAddr("203.0.113.77"), Homes: []Home{{Addr: netip.MustParseAddrPort("127.0.0.1:1"), Ports: 1}}, WorkerPort: 9},
	} {
		if c, err := Open(cfg); err == nil {
			t.Errorf("%+v was opened", cfg)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
