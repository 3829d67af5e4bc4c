package acceptance

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namespace is a fresh network namespace with an OS thread that lives in it.
type namespace struct {
	handle netns.NsHandle
	link   *netlink.Handle
	calls  chan func()
	done   chan struct{}
}

// newNamespace makes one that ends with the test. Its thread stays, because processes are started from it, and is thrown away with it.
func newNamespace(t *testing.T) *namespace {
	t.Helper()
	n := &namespace{calls: make(chan func()), done: make(chan struct{})}
	ready := make(chan error)
	go n.live(ready)
	if err := <-ready; err != nil {
		t.Fatalf("make a network namespace (root is needed): %v", err)
	}
	t.Cleanup(func() {
		close(n.calls)
		<-n.done
		n.link.Close()
		if err := n.handle.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func (n *namespace) live(ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The process's first thread is never thrown away: it must not change its namespace.
		go n.live(ready)
		runtime.UnlockOSThread()
		return
	}
	defer close(n.done)
	if err := n.open(); err != nil {
		ready <- err
		return
	}
	ready <- nil
	for call := range n.calls {
		call()
	}
}

func (n *namespace) open() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	var err error
	if n.handle, err = netns.Get(); err != nil {
		return err
	}
	if n.link, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return err
	}
	lo, err := n.link.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := n.link.LinkSetUp(lo); err != nil {
		return err
	}
	return os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
}

// do runs f on the namespace's thread.
func (n *namespace) do(f func() error) error {
	result := make(chan error, 1)
	n.calls <- func() { result <- f() }
	return <-result
}

// macOf is an Ethernet address that says which IPv4 address it belongs to.
func macOf(addr netip.Addr) net.HardwareAddr {
	b := addr.As4()
	return net.HardwareAddr{0x02, 0, b[0], b[1], b[2], b[3]}
}

// plug joins a host to the switch: eth0 of the host, with its address, and a port of the switch, on the bridge if there is one.
func plug(host *namespace, addr netip.Addr, sw *namespace, port string, bridge netlink.Link, mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = port, mtu
	if bridge != nil {
		attrs.MasterIndex = bridge.Attrs().Index
	}
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerHardwareAddr: macOf(addr), PeerNamespace: netlink.NsFd(int(host.handle)),
		PeerMTU: uint32(mtu)}
	if err := sw.link.LinkAdd(veth); err != nil {
		return fmt.Errorf("port %s: %w", port, err)
	}
	eth0, err := host.link.LinkByName("eth0")
	if err != nil {
		return err
	}
	if err := host.link.AddrAdd(eth0, &netlink.Addr{IPNet: &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(24, 32)}}); err != nil {
		return err
	}
	if err := errors.Join(sw.link.LinkSetUp(veth), host.link.LinkSetUp(eth0)); err != nil {
		return err
	}
	multicast := &net.IPNet{IP: net.IPv4(224, 0, 0, 0), Mask: net.CIDRMask(4, 32)}
	if err := host.link.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Dst: multicast, Scope: netlink.SCOPE_LINK}); err != nil {
		return err
	}
	return errors.Join(sw.do(func() error { return handOverInRing(port) }), host.do(func() error { return handOverInRing("eth0") }))
}

// handOverInRing makes a veth take what XDP sends to it: it needs NAPI, which GRO brings.
func handOverInRing(name string) error {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return err
	}
	defer e.Close()
	want := map[string]bool{"rx-gro": true, "tx-tcp-segmentation": false, "tx-tcp-ecn-segmentation": false, "tx-tcp-mangleid-segmentation": false,
		"tx-tcp6-segmentation": false}
	if err := e.Change(name, want); err != nil {
		return err
	}
	now, err := e.Features(name)
	if err != nil {
		return err
	}
	for feature, on := range want {
		if now[feature] != on {
			return fmt.Errorf("%s of %s stays %t", feature, name, now[feature])
		}
	}
	return nil
}

// introduce tells a host the Ethernet address of another.
func (n *namespace) introduce(addr netip.Addr) error {
	eth0, err := n.link.LinkByName("eth0")
	if err != nil {
		return err
	}
	return n.link.NeighSet(&netlink.Neigh{LinkIndex: eth0.Attrs().Index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT, IP: addr.AsSlice(),
		HardwareAddr: macOf(addr)})
}
