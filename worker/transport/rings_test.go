package transport

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// exchange sends packets until all have gone by the rings, and so the neighbour is known, and expects them at the home.
func exchange(t *testing.T, conn Conn, home *net.UDPConn) {
	t.Helper()
	write(t, conn, []int{28})
	flushAll(t, conn)
	expect(t, home, []int{28})
	settle(t, conn)
	before := conn.Stats().RingsSent
	write(t, conn, []int{1052, 600})
	flushAll(t, conn)
	expect(t, home, []int{1052, 600})
	if conn.Stats().RingsSent != before+2 {
		t.Errorf("%d packets went by the rings, want %d", conn.Stats().RingsSent, before+2)
	}
}

// until takes in what the kernel tells until something holds.
func until(t *testing.T, conn Conn, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
		check(t, conn.Wait(int64(100*time.Millisecond), false))
		if _, err := conn.Receive(&collector{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNeighbourChanges: the home gets another hardware address, and says so.
func TestNeighbourChanges(t *testing.T) {
	conn, between, home := cabled(t, AFXDP, nil)
	exchange(t, conn, home)
	other := net.HardwareAddr{2, 0, 0, 0, 0, 77}
	check(t, between.farHandle.LinkSetHardwareAddr(between.far, other))
	neighbour := &netlink.Neigh{LinkIndex: between.near.Attrs().Index, Family: unix.AF_INET, State: netlink.NUD_REACHABLE, IP: homeAddr.AsSlice(), HardwareAddr: other}
	check(t, netlink.NeighSet(neighbour))
	r := conn.(*rings)
	until(t, conn, func() bool { return r.paths.resolved[0] && bytes.Equal(r.paths.headers[0].bytes[:6], other) })
	exchange(t, conn, home)
}

// TestRouteChanges: the way to the home leads by another interface for a while; packets go there, by the sockets, and back to the rings afterwards.
func TestRouteChanges(t *testing.T) {
	conn, between, home := cabled(t, AFXDP, nil)
	exchange(t, conn, home)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "near2", 3498
	check(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "far2", PeerNamespace: netlink.NsFd(int(between.home)), PeerMTU: 3498}))
	near2, far2 := must[netlink.Link](t)(netlink.LinkByName("near2")), must[netlink.Link](t)(between.farHandle.LinkByName("far2"))
	check(t, errors.Join(netlink.LinkSetUp(near2), between.farHandle.LinkSetUp(far2)))
	detour := &netlink.Route{LinkIndex: near2.Attrs().Index, Scope: netlink.SCOPE_LINK, Src: workerAddr.AsSlice(), Dst: &net.IPNet{IP: homeAddr.AsSlice(), Mask: net.CIDRMask(32, 32)}}
	check(t, netlink.RouteAdd(detour))
	r := conn.(*rings)
	until(t, conn, func() bool { return !r.paths.resolved[0] })
	before := conn.Stats().RingsSent
	write(t, conn, []int{300})
	flushAll(t, conn)
	expect(t, home, []int{300})
	if conn.Stats().RingsSent != before {
		t.Error("a packet for another interface went by the rings")
	}
	check(t, netlink.RouteDel(detour))
	until(t, conn, func() bool { return r.paths.resolved[0] })
	exchange(t, conn, home)
}

// TestInterfaceGoesDown: packets count as lost, and all goes on when it is back.
func TestInterfaceGoesDown(t *testing.T) {
	conn, between, home := cabled(t, AFXDP, nil)
	exchange(t, conn, home)
	check(t, between.farHandle.LinkSetDown(between.far))
	check(t, netlink.LinkSetDown(between.near))
	write(t, conn, []int{100, 100})
	if _, err := conn.Flush(); err != nil {
		t.Fatalf("an interface that is down is an error: %v", err)
	}
	check(t, netlink.LinkSetUp(between.near))
	check(t, between.farHandle.LinkSetUp(between.far))
	r := conn.(*rings)
	until(t, conn, func() bool {
		write(t, conn, []int{33}) // makes the kernel look for the neighbour again
		if _, err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
		return r.paths.resolved[0]
	})
	sent := conn.Stats().RingsSent
	write(t, conn, []int{777})
	flushAll(t, conn)
	check(t, home.SetReadDeadline(time.Now().Add(5*time.Second)))
	for b := make([]byte, 2000); ; {
		n, _, err := home.ReadFromUDPAddrPort(b)
		if err != nil {
			t.Fatalf("nothing arrives any more, %d were sent by the rings before: %v", sent, err)
		}
		if n == 777 {
			return
		}
	}
}

// TestAutoSaysWhy: a veth has no way without copies, so its workers use UDP, and nothing is put on the interface.
func TestAutoSaysWhy(t *testing.T) {
	between := newCable(t)
	home := between.listen(t, homeAddr.String(), 0)
	at := home.LocalAddr().(*net.UDPAddr).AddrPort()
	conn, err := Open(Config{Homes: []Home{{Addr: at, Ports: 1}}, Addr: workerAddr, WorkerPort: at.Port(), Elements: 256, Window: 64})
	check(t, err)
	if stats := conn.Stats(); stats.Kind != UDP || !strings.Contains(stats.Reason, "near") || !strings.Contains(stats.Reason, "without copies") {
		t.Errorf("auto came to %q for the reason %q", stats.Kind, stats.Reason)
	}
	expectProgram(t, between.near, false)
	check(t, conn.Close())
}

func expectProgram(t *testing.T, device netlink.Link, want bool) {
	t.Helper()
	now, err := netlink.LinkByIndex(device.Attrs().Index)
	check(t, err)
	if xdp := now.Attrs().Xdp; (xdp != nil && xdp.Attached) != want {
		t.Errorf("an XDP program at %s: %v, want %v", device.Attrs().Name, !want, want)
	}
}

// TestOneAnInterface: a second worker is refused by name of the reason, and finds room when the first has closed, which leaves nothing behind.
func TestOneAnInterface(t *testing.T) {
	conn, between, home := cabled(t, AFXDP, nil)
	expectProgram(t, between.near, true)
	at := home.LocalAddr().(*net.UDPAddr).AddrPort()
	cfg := Config{Kind: AFXDP, Homes: []Home{{Addr: at, Ports: 1}}, Addr: workerAddr, WorkerPort: at.Port() ^ 1, Elements: 256, Window: 64}
	if second, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "XDP program already") {
		t.Errorf("a second worker at an interface: %v", err)
		if err == nil {
			check(t, second.Close())
		}
	}
	exchange(t, conn, home)
	check(t, conn.Close())
	expectProgram(t, between.near, false)
	third, err := Open(cfg)
	check(t, err)
	check(t, third.Close())
}

// TestWithoutItsInterface: what cannot be is refused with a reason.
func TestWithoutItsInterface(t *testing.T) {
	between := newCable(t)
	check(t, netns.Set(between.worker))
	lo := must[netlink.Link](t)(netlink.LinkByName("lo"))
	check(t, netlink.LinkSetUp(lo))
	_, err := Open(Config{Kind: AFXDP, Homes: []Home{{Addr: netip.MustParseAddrPort("127.0.0.1:9000"), Ports: 1}}, Addr: netip.MustParseAddr("127.0.0.2"), WorkerPort: 9001, Elements: 256, Window: 64})
	if err == nil || !strings.Contains(err.Error(), "no interface has the address 127.0.0.2") {
		t.Errorf("an address of no interface: %v", err)
	}
}

// TestNothingAllocates: sending and receiving, by either transport.
func TestNothingAllocates(t *testing.T) {
	of(t, func(t *testing.T, kind Kind) {
		conn, home := pair(t, kind, nil)
		write(t, conn, []int{28})
		flushAll(t, conn)
		expect(t, home, []int{28})
		settle(t, conn)
		var nobody discarder
		payload, to := make([]byte, 1052), netip.AddrPortFrom(workerAddr, home.LocalAddr().(*net.UDPAddr).AddrPort().Port())
		if n := testing.AllocsPerRun(200, func() {
			for range 8 {
				if b := conn.Packet(0, 1052); b != nil {
					b[0] = 1
				}
			}
			if _, err := conn.Flush(); err != nil {
				t.Fatal(err)
			}
			if _, err := home.WriteToUDPAddrPort(payload, to); err != nil {
				t.Fatal(err)
			}
			for before := nobody; nobody == before; {
				if err := conn.Wait(int64(time.Second), false); err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Receive(&nobody); err != nil {
					t.Fatal(err)
				}
			}
		}); n != 0 {
			t.Errorf("%.1f allocations", n)
		}
	})
}

type discarder int

func (d *discarder) Receive([]byte, bool) { *d++ }
