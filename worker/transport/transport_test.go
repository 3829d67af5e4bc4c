package transport

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// kinds are the transports that every test of a Conn is for.
var kinds = []Kind{UDP, AFXDP}

// A cable is two network namespaces with a veth between them: the worker's at workerAddr, in which the test's thread is, and the home's at homeAddr.
type cable struct {
	worker, home netns.NsHandle
	near, far    netlink.Link // the worker's end and the home's, each in its namespace
	farHandle    *netlink.Handle
}

var (
	workerAddr = netip.MustParseAddr("10.77.3.2")
	homeAddr   = netip.MustParseAddr("10.77.3.1")
	groupAddr  = netip.MustParseAddr("239.77.3.1")
)

// newCable makes one. It needs root.
func newCable(t *testing.T) *cable {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, for network namespaces and XDP")
	}
	// Goes with the goroutine if the thread does not get back to where it was.
	runtime.LockOSThread()
	before := must[netns.NsHandle](t)(netns.Get())
	c := &cable{}
	t.Cleanup(func() {
		if err := netns.Set(before); err != nil {
			t.Error(err)
			return
		}
		runtime.UnlockOSThread()
		c.farHandle.Close()
		if err := errors.Join(before.Close(), c.worker.Close(), c.home.Close()); err != nil {
			t.Error(err)
		}
	})
	c.home = must[netns.NsHandle](t)(netns.New())
	c.worker = must[netns.NsHandle](t)(netns.New())
	c.farHandle = must[*netlink.Handle](t)(netlink.NewHandleAt(c.home, unix.NETLINK_ROUTE))
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "near", 3498
	check(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "far", PeerNamespace: netlink.NsFd(int(c.home)), PeerMTU: 3498}))
	c.near, c.far = must[netlink.Link](t)(netlink.LinkByName("near")), must[netlink.Link](t)(c.farHandle.LinkByName("far"))
	check(t, netlink.LinkSetUp(c.near))
	check(t, c.farHandle.LinkSetUp(c.far))
	check(t, netlink.AddrAdd(c.near, &netlink.Addr{IPNet: &net.IPNet{IP: workerAddr.AsSlice(), Mask: net.CIDRMask(24, 32)}}))
	for _, last := range []byte{1, 9} {
		check(t, c.farHandle.AddrAdd(c.far, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 77, 3, last).To4(), Mask: net.CIDRMask(24, 32)}}))
	}
	check(t, c.farHandle.RouteAdd(&netlink.Route{LinkIndex: c.far.Attrs().Index, Dst: &net.IPNet{IP: net.IPv4(224, 0, 0, 0).To4(), Mask: net.CIDRMask(4, 32)}}))
	return c
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		check(t, err)
		return value
	}
}

// listen makes a plain socket on the home's side.
func (c *cable) listen(t *testing.T, addr string, port int) *net.UDPConn {
	t.Helper()
	check(t, netns.Set(c.home))
	home, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(addr), Port: port})
	check(t, errors.Join(err, netns.Set(c.worker)))
	t.Cleanup(func() { check(t, home.Close()) })
	return home
}

// pair is a Conn whose home is a plain socket.
func pair(t *testing.T, kind Kind, change func(*Config)) (Conn, *net.UDPConn) {
	c, _, home := cabled(t, kind, change)
	return c, home
}

func cabled(t *testing.T, kind Kind, change func(*Config)) (Conn, *cable, *net.UDPConn) {
	t.Helper()
	between := newCable(t)
	home := between.listen(t, homeAddr.String(), 0)
	at := home.LocalAddr().(*net.UDPAddr).AddrPort()
	cfg := Config{Kind: kind, Homes: []Home{{Addr: at, Ports: 1}}, Addr: workerAddr, WorkerPort: at.Port(), Elements: 256, Window: 64}
	if change != nil {
		change(&cfg)
	}
	c, err := Open(cfg)
	check(t, err)
	t.Cleanup(func() { check(t, c.Close()) })
	if got := c.Stats().Kind; got != kind {
		t.Fatalf("a transport of kind %s instead of %s", got, kind)
	}
	return c, between, home
}

// udpPair is a pair whose Conn is made of sockets.
func udpPair(t *testing.T, change func(*Config)) (*sockets, *net.UDPConn) {
	t.Helper()
	c, home := pair(t, UDP, change)
	return c.(*sockets), home
}

// of runs a test for every kind of transport.
func of(t *testing.T, test func(t *testing.T, kind Kind)) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) { test(t, kind) })
	}
}

// write puts packets of the given sizes into the Conn, each filled with its number.
func write(t *testing.T, c Conn, sizes []int) {
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
		if n != size || !bytes.Equal(b[:n], bytes.Repeat([]byte{byte(i)}, size)) || from.Addr() != workerAddr {
			t.Fatalf("packet %d has %d bytes from %s, want %d", i, n, from, size)
		}
	}
}

func flush(t *testing.T, c Conn) {
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
			conn, home := udpPair(t, func(cfg *Config) { cfg.NoOffload = !offload })
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
		conn, home := udpPair(t, nil)
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
	conn, _ := udpPair(t, nil)
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
	of(t, func(t *testing.T, kind Kind) {
		conn, home := pair(t, kind, nil)
		check(t, home.SetReadBuffer(8<<20))
		write(t, conn, []int{28}) // by the sockets: the neighbour is not known yet
		flush(t, conn)
		expect(t, home, []int{28})
		settle(t, conn)
		written := 0
		for conn.Packet(0, 1052) != nil {
			written++
		}
		if want := map[Kind]int{UDP: sendBuffer / 1052, AFXDP: leastFrames}[kind]; written != want {
			t.Errorf("%d packets fit, want %d", written, want)
		}
		for n := 0; n < written; n++ {
			if n == 0 {
				flushAll(t, conn)
			}
			check(t, home.SetReadDeadline(time.Now().Add(5*time.Second)))
			if _, _, err := home.ReadFromUDPAddrPort(make([]byte, 2000)); err != nil {
				t.Fatalf("packet %d of %d: %v", n, written, err)
			}
		}
		flush(t, conn)
		if conn.Packet(0, 1052) == nil {
			t.Error("full after a flush")
		}
	})
}

// settle lets a Conn take in what the kernel has learnt by the packets before.
func settle(t *testing.T, c Conn) {
	t.Helper()
	r, ok := c.(*rings)
	for deadline := time.Now().Add(5 * time.Second); ok && !r.paths.resolved[0]; {
		check(t, c.Wait(int64(time.Second), false))
		if _, err := c.Receive(&collector{}); err != nil || time.Now().After(deadline) {
			t.Fatalf("the neighbour is not found: %v", err)
		}
	}
}

// flushAll flushes until all is sent.
func flushAll(t *testing.T, c Conn) {
	t.Helper()
	for blocked := true; blocked; {
		var err error
		if blocked, err = c.Flush(); err != nil {
			t.Fatal(err)
		}
		if blocked {
			check(t, c.Wait(int64(time.Second), true))
		}
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
func receive(t *testing.T, c Conn, n int) *collector {
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
	of(t, func(t *testing.T, kind Kind) {
		conn, between, home := cabled(t, kind, nil)
		stranger, otherPort := between.listen(t, "10.77.3.9", 0), between.listen(t, homeAddr.String(), 0)
		to := netip.AddrPortFrom(workerAddr, home.LocalAddr().(*net.UDPAddr).AddrPort().Port())
		for _, from := range []*net.UDPConn{stranger, otherPort, home} {
			if _, err := from.WriteToUDPAddrPort([]byte{1, 2, 3}, to); err != nil {
				t.Fatal(err)
			}
		}
		if got := receive(t, conn, 1); !bytes.Equal(got.payloads[0], []byte{1, 2, 3}) || got.ce[0] || conn.Stats().Strangers != 2 {
			t.Errorf("received %v, %+v", got, conn.Stats())
		}
		if stats := conn.Stats(); kind == AFXDP && stats.RingsReceived != 3 {
			t.Errorf("%d packets came by the rings, want 3", stats.RingsReceived)
		}
	})
}

// TestGroup: what is sent to the job's group is received, what to another is not.
func TestGroup(t *testing.T) {
	of(t, func(t *testing.T, kind Kind) {
		conn, home := pair(t, kind, func(cfg *Config) { cfg.Group = groupAddr })
		port := home.LocalAddr().(*net.UDPAddr).AddrPort().Port()
		for i, group := range []netip.Addr{netip.MustParseAddr("239.77.3.2"), groupAddr} {
			if _, err := home.WriteToUDPAddrPort([]byte{byte(i)}, netip.AddrPortFrom(group, port)); err != nil {
				t.Fatal(err)
			}
		}
		if got := receive(t, conn, 1); !bytes.Equal(got.payloads[0], []byte{1}) {
			t.Errorf("received %v", got.payloads)
		}
	})
}

// TestBothWays: packets of all sizes, many of them, each way, by what the transport is there for.
func TestBothWays(t *testing.T) {
	of(t, func(t *testing.T, kind Kind) {
		conn, home := pair(t, kind, func(cfg *Config) { cfg.Elements = 832 })
		check(t, home.SetReadBuffer(8<<20))
		port := home.LocalAddr().(*net.UDPAddr).AddrPort().Port()
		for round := range 40 {
			sizes := []int{28, 3356, 156, 3356, 29, 3356, 1052, 31}
			write(t, conn, sizes)
			flushAll(t, conn)
			expect(t, home, sizes)
			settle(t, conn)
			for i, size := range sizes {
				if _, err := home.WriteToUDPAddrPort(bytes.Repeat([]byte{byte(round + i)}, size), netip.AddrPortFrom(workerAddr, port)); err != nil {
					t.Fatal(err)
				}
			}
			for i, payload := range receive(t, conn, len(sizes)).payloads {
				if !bytes.Equal(payload, bytes.Repeat([]byte{byte(round + i)}, sizes[i])) {
					t.Fatalf("round %d: packet %d has %d bytes, or wrong ones; want %d", round, i, len(payload), sizes[i])
				}
			}
		}
		stats := conn.Stats()
		if stats.SendDropped+stats.Strangers+stats.BadChecksums != 0 {
			t.Errorf("%+v", stats)
		}
		if kind == AFXDP && (stats.RingsSent < 39*8 || stats.RingsReceived != 40*8) {
			t.Errorf("%d packets went by the rings and %d came by them", stats.RingsSent, stats.RingsReceived)
		}
	})
}

// TestReceiveMarkedRun: a run that the sender's kernel segments, and the receiver's may put together, arrives as its packets, marks and all.
func TestReceiveMarkedRun(t *testing.T) {
	for _, c := range []struct {
		kind    Kind
		offload bool
	}{{UDP, true}, {UDP, false}, {AFXDP, true}} {
		conn, home := pair(t, c.kind, func(cfg *Config) { cfg.NoOffload = !c.offload })
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
		if _, err := home.WriteToUDPAddrPort(b, netip.AddrPortFrom(workerAddr, home.LocalAddr().(*net.UDPAddr).AddrPort().Port())); err != nil {
			t.Fatal(err)
		}
		got := receive(t, conn, 3)
		if !bytes.Equal(bytes.Join(got.payloads, nil), b) || len(got.payloads[2]) != 3 || !got.ce[0] || !got.ce[2] || conn.Stats().CEMarks != 3 {
			t.Errorf("%v: received %d packets, marks %v, %+v", c, len(got.payloads), got.ce, conn.Stats())
		}
	}
}

func TestWake(t *testing.T) {
	for _, spin := range []time.Duration{0, 10 * time.Millisecond} {
		of(t, func(t *testing.T, kind Kind) {
			conn, _ := pair(t, kind, func(cfg *Config) { cfg.BusyPoll = spin })
			if err := conn.Wake(); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			// What the kernel tells of neighbours may end a Wait as well.
			if err := conn.Wait(int64(time.Minute), false); err != nil || time.Since(begin) > 30*time.Second {
				t.Errorf("woken after %s: %v", time.Since(begin), err)
			}
			if err := conn.Wait(0, false); err != nil {
				t.Error(err)
			}
		})
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
