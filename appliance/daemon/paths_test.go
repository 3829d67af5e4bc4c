package daemon

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"spillway/appliance/refusal"
)

// TestPaths asks the kernel for ways: to a neighbour that answers, one that is known, one that does not answer, and to addresses that no way of ours
// leads to.
func TestPaths(t *testing.T) {
	done := make(chan struct{})
	go func() { // the thread is in other namespaces from now on, and ends with the goroutine
		defer close(done)
		runtime.LockOSThread()
		testPaths(t)
	}()
	<-done
}

func testPaths(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
			runtime.Goexit()
		}
	}
	far, err := netns.New()
	must(err)
	defer far.Close()
	there, err := netlink.NewHandleAt(far)
	must(err)
	defer there.Close()
	here, err := netns.New()
	must(err)
	defer here.Close()

	add := func(name, address string, peer bool) *netlink.Veth {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = name, 3498
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: name + "peer", PeerNamespace: netlink.NsFd(far), PeerMTU: 3498}
		must(netlink.LinkAdd(veth))
		parsed, err := netlink.ParseAddr(address)
		must(err)
		must(netlink.AddrAdd(veth, parsed))
		must(netlink.LinkSetUp(veth))
		at, err := there.LinkByName(veth.PeerName)
		must(err)
		must(there.LinkSetUp(at))
		if peer {
			parsed, err := netlink.ParseAddr(strings.Replace(address, ".1/", ".2/", 1))
			must(err)
			must(there.AddrAdd(at, parsed))
		}
		return veth
	}
	data, other := add("data", "10.3.0.1/24", true), add("other", "10.4.0.1/24", true)
	dataPeer, err := there.LinkByName("datapeer")
	must(err)
	_, behind, err := net.ParseCIDR("10.5.0.0/16")
	must(err)
	must(netlink.RouteAdd(&netlink.Route{LinkIndex: data.Attrs().Index, Dst: behind, Gw: net.IPv4(10, 3, 0, 2), MTU: 1500}))
	lo, err := netlink.LinkByName("lo")
	must(err)
	must(netlink.LinkSetUp(lo))

	p := &paths{&interfaces{homes: []home{{name: "data", address: netip.MustParseAddr("10.3.0.1"), index: data.Attrs().Index}}}}
	for address, mtu := range map[string]int{"10.3.0.2": 3498, "10.5.6.7": 1500} {
		path, err := p.To(t.Context(), netip.MustParseAddr(address))
		if err != nil || path.Ifindex != data.Attrs().Index || path.Interface != "data" || path.Home.String() != "10.3.0.1" || path.MTU != mtu ||
			path.MAC.String() != dataPeer.Attrs().HardwareAddr.String() {
			t.Errorf("to %s: %+v, %v", address, path, err)
		}
	}
	begun := time.Now()
	path, err := p.To(t.Context(), netip.MustParseAddr("10.3.0.99"))
	if err != nil || path.MAC != nil || time.Since(begun) > 2*resolution {
		t.Errorf("to nobody: %+v, %v after %v", path, err, time.Since(begun))
	}
	for address, says := range map[string]string{"10.4.0.2": other.Name, "10.3.0.1": "another host", "10.99.0.1": "no route"} {
		_, err := p.To(t.Context(), netip.MustParseAddr(address))
		var refused *refusal.Error
		if !errors.As(err, &refused) || refused.Reason != refusal.Unreachable || !strings.Contains(err.Error(), says) {
			t.Errorf("to %s: %v", address, err)
		}
	}
}
