package dataplane

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// host is the far end of a port: a raw socket on a veth in another namespace.
type host struct {
	testing.TB
	ifindex, socket int
}

// cable makes a veth pair between the current namespace and hosts', and returns
// the index of the near end. The far end has an XDP program that passes everything on:
// without one, a veth is not polled and what is redirected to it is lost.
func cable(t testing.TB, hosts netns.NsHandle, port Port) (near int, far host) {
	t.Helper()
	name, peer := fmt.Sprintf("port%d", port), fmt.Sprintf("host%d", port)
	here, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: 3498}, PeerName: peer, PeerMTU: 3498, PeerNamespace: netlink.NsFd(hosts)}
	if err := netlink.LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	up := func(name string) int {
		t.Helper()
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			t.Fatal(err)
		}
		return l.Attrs().Index
	}
	near = up(name)
	if err := netns.Set(hosts); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := netns.Set(here); err != nil {
			t.Fatal(err)
		}
	}()
	far = host{TB: t, ifindex: up(peer)}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "pass", Type: ebpf.XDP, License: "Dual MIT/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, // XDP_PASS
	})
	if err != nil {
		t.Fatal(err)
	}
	attached, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: far.ifindex, Flags: link.XDPDriverMode})
	if err != nil {
		t.Fatal(err)
	}
	const all = 0x0300 // ETH_P_ALL in network order
	if far.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(far.socket, &unix.SockaddrLinklayer{Protocol: all, Ifindex: far.ifindex}); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptTimeval(far.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Close(far.socket), attached.Close(), program.Close()); err != nil {
			t.Error(err)
		}
	})
	return near, far
}

func (h host) send(frame []byte) {
	h.Helper()
	if err := unix.Sendto(h.socket, frame, 0, &unix.SockaddrLinklayer{Ifindex: h.ifindex}); err != nil {
		h.Fatal(err)
	}
}

// expect wants that frame next, but for what the kernel sends by itself.
func (h host) expect(what string, want []byte) {
	h.Helper()
	buffer := make([]byte, 4096)
	for {
		n, from, err := unix.Recvfrom(h.socket, buffer, 0)
		if err != nil {
			h.Fatalf("%s: %v", what, err)
		}
		got := buffer[:n]
		if from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING || binary.BigEndian.Uint16(got[12:]) == unix.ETH_P_IPV6 {
			continue
		}
		if !bytes.Equal(got, want) {
			h.Fatalf("%s: got\n%x, want\n%x", what, got, want)
		}
		return
	}
}

// TestPorts: the program on veths in a namespace of its own.
func TestPorts(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread dies with the goroutine, and the namespace with it
		hosts, err := netns.New()
		if err != nil {
			t.Error(err)
			return
		}
		defer hosts.Close()
		switchSpace, err := netns.New()
		if err != nil {
			t.Error(err)
			return
		}
		defer switchSpace.Close()
		testPorts(t, hosts)
	}()
	<-done
}

func testPorts(t *testing.T, hosts netns.NsHandle) {
	r := setUp(t, 832, jobA)
	far := map[Port]host{}
	index := map[Port]int{}
	for _, port := range []Port{1, 2, 3, homePort} {
		index[port], far[port] = cable(t, hosts, port)
		r.must(r.AttachPort(port, index[port]))
		t.Cleanup(func() {
			if slices.Contains(r.Ports(), port) {
				r.must(r.DetachPort(port))
			}
		})
	}
	if got := r.Ports(); !slices.Equal(got, []Port{1, 2, 3, homePort}) {
		t.Errorf("ports %v", got)
	}
	if err := r.AttachPort(4, index[1]); err == nil {
		t.Error("an interface is two ports")
	}
	if err := r.AttachPort(1, index[2]); err == nil {
		t.Error("a port is two interfaces")
	}
	if err := r.AttachPort(5, 9999); err == nil {
		t.Error("there is no interface 9999")
	}
	// As a server does it: by another thread, in whatever namespace.
	changed := make(chan error)
	go func() {
		changed <- errors.Join(r.SetMulticast(jobA.group, nil), r.SetMulticast(jobA.group, []Port{1, 2, 3}))
	}()
	r.must(<-changed)

	reduce := func(what string, seq uint32, elems int, receivers ...Port) {
		t.Helper()
		for w := range 3 {
			p := jobA.data(w, seq, elems)
			far[p.port].send(p.frame())
			// So that the last to arrive is the last that was sent.
			waitFor(r, 69, func(s Slot) bool { return s.Urgency == 0 == (w == 2) && (w == 2 || s.Bitmap == 1<<(w+1)-1) })
			if w == 2 {
				for _, port := range receivers {
					far[port].expect(what, jobA.result(p, 0, sum(seq, elems, 0, 1, 2))[0].frame())
				}
			}
		}
	}
	reduce("RESULT for all", 5, 32, 1, 2, 3)
	reduce("long RESULT for all", 5, 832, 1, 2, 3)

	resent := jobA.data(1, 5, 256).resend()
	far[2].send(resent.frame())
	far[homePort].expect("RESEND for the home", resent.passed()[0].frame())

	broadcast := append([]byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6}, make([]byte, 46)...)
	far[1].send(broadcast)
	for _, port := range []Port{2, 3, homePort} {
		far[port].expect("flood", broadcast)
	}
	direct := append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6}, make([]byte, 46)...)
	far[2].send(direct)
	far[1].expect("what comes after the flood, which does not go back", direct)

	r.must(r.DetachPort(2))
	if err := r.DetachPort(2); err == nil {
		t.Error("detached twice")
	}
	if got := r.Ports(); !slices.Equal(got, []Port{1, 3, homePort}) {
		t.Errorf("ports %v", got)
	}
	broadcast[20] = 1
	far[1].send(broadcast)
	for _, port := range []Port{3, homePort} {
		far[port].expect("flood without the detached port", broadcast)
	}
	r.must(r.AttachPort(2, index[2]))
	reduce("RESULT for all again", 5, 64, 1, 2, 3)
	r.must(r.Wipe())
	r.install(jobA)
	reduce("RESULT for all after a wipe", 5, 64, 1, 2, 3)
}

// waitFor returns when a slot is as it should be.
func waitFor(r tor, slot uint32, holds func(Slot) bool) {
	r.Helper()
	for began := time.Now(); ; runtime.Gosched() {
		s, err := r.Slot(slot)
		r.must(err)
		if holds(s) {
			return
		}
		if time.Since(began) > 5*time.Second {
			r.Fatalf("slot %d is %+v", slot, s)
		}
	}
}
