package systemdtest

import (
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The network: a bridge, the appliance at it, and workers.
const (
	rackInterface = "rack0"
	homeAddress   = "10.99.0.1"
	mtu           = 1500
)

func workerAddress(rank int) string { return fmt.Sprintf("10.99.0.%d", 10+rank) }

// network is a bridge in a namespace of its own, and those of the appliance and of the workers around it. They are anonymous: what
// holds them is this process, and the processes in them.
type network struct {
	bridge, appliance netns.NsHandle
	workers           []netns.NsHandle
}

// newNetwork makes it; the test's end takes it away.
func newNetwork(t *testing.T, workers int) *network {
	t.Helper()
	n := &network{bridge: newNamespace(t), appliance: newNamespace(t)}
	must(t, in(n.bridge, func() error {
		snooping := false
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = "br0", mtu
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}); err != nil {
			return fmt.Errorf("bridge: %w", err)
		}
		bridge, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(bridge)
	}))
	n.plug(t, n.appliance, rackInterface, "home", homeAddress)
	n.receive(t, "home")
	for rank := range workers {
		n.workers = append(n.workers, newNamespace(t))
		n.plug(t, n.workers[rank], "eth0", fmt.Sprintf("w%d", rank), workerAddress(rank))
	}
	return n
}

// receive puts an XDP program that lets everything pass on a port of the bridge: a veth that is sent to with XDP_TX queues the packets, and
// is woken up for them only if it has one (veth_xdp_flush in drivers/net/veth.c).
func (n *network) receive(t *testing.T, port string) {
	t.Helper()
	const pass = 2 // XDP_PASS of linux/bpf.h
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, pass), asm.Return()}, License: "Dual MIT/GPL",
	})
	must(t, err)
	t.Cleanup(func() { must(t, program.Close()) })
	must(t, in(n.bridge, func() error {
		inside, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		attached, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: inside.Attrs().Index, Flags: link.XDPDriverMode})
		if err == nil {
			t.Cleanup(func() { must(t, attached.Close()) })
		}
		return err
	}))
}

// plug joins a host to the bridge.
func (n *network) plug(t *testing.T, host netns.NsHandle, name, port, address string) {
	t.Helper()
	must(t, in(n.bridge, func() error {
		bridge, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU, attrs.MasterIndex = port, mtu, bridge.Attrs().Index
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: name, PeerNamespace: netlink.NsFd(int(host)), PeerMTU: mtu}
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("link to %s: %w", port, err)
		}
		if err := netlink.LinkSetUp(veth); err != nil {
			return err
		}
		return gro(port)
	}))
	must(t, in(host, func() error {
		inside, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		ip, err := netlink.ParseAddr(address + "/24")
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(inside, ip); err != nil {
			return fmt.Errorf("address %s: %w", address, err)
		}
		if err := netlink.LinkSetUp(inside); err != nil {
			return err
		}
		return gro(name)
	}))
}

func gro(name string) error {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return err
	}
	defer e.Close()
	return e.Change(name, map[string]bool{"rx-gro": true})
}

// newNamespace is a fresh network namespace with lo up. The thread that is in it for a moment ends afterwards.
func newNamespace(t *testing.T) netns.NsHandle {
	t.Helper()
	type made struct {
		handle netns.NsHandle
		err    error
	}
	result := make(chan made)
	go func() {
		runtime.LockOSThread() // and never unlocks: the thread must not be used again
		handle, err := netns.New()
		if err == nil {
			var lo netlink.Link
			if lo, err = netlink.LinkByName("lo"); err == nil {
				err = netlink.LinkSetUp(lo)
			}
		}
		result <- made{handle, err}
	}()
	m := <-result
	must(t, m.err)
	t.Cleanup(func() { must(t, m.handle.Close()) })
	return m.handle
}

// in runs f on a thread that is in the namespace. What f starts, be it a process or a socket, stays there.
func in(namespace netns.NsHandle, f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(namespace); err != nil {
			result <- fmt.Errorf("enter the namespace: %w", err)
			return
		}
		result <- f()
	}()
	return <-result
}

// start begins a command in the namespace.
func start(namespace netns.NsHandle, cmd *exec.Cmd) error { return in(namespace, cmd.Start) }

// dial connects from within the namespace.
func dial(namespace netns.NsHandle, kind, address string) (conn net.Conn, err error) {
	err = in(namespace, func() (err error) {
		conn, err = net.Dial(kind, address)
		return err
	})
	return conn, err
}

// duplicate is a descriptor of the namespace to give away.
func duplicate(t *testing.T, namespace netns.NsHandle) int {
	t.Helper()
	fd, err := unix.FcntlInt(uintptr(namespace), unix.F_DUPFD_CLOEXEC, 0)
	must(t, err)
	return fd
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
