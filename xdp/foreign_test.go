package xdp

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// anothersFilter is at the replicator's priority, and not called as it is.
func anothersFilter(ifindex int, parent uint32) netlink.Filter {
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: ifindex, Parent: parent, Priority: replicatorPriority, Protocol: unix.ETH_P_ALL},
		Fd:          shared.objects.Replicator.FD(), Name: "anothers", DirectAction: true,
	}
}

// TestForeign: what is not Spillway's, on the interface and in the directory.
func TestForeign(t *testing.T) {
	c, dir := newCable(t), bpffs(t)
	var foreign *ForeignError
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, name := range []string{"somebodys", filepath.Join(stateName, "description")} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), m.Pin(path)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, small, KeepOut); !errors.As(err, &foreign) {
			t.Errorf("%s: got %v", name, err)
		}
		a, err := Open(dir, small, TakeOver)
		if inside := filepath.Dir(name) == stateName; inside && !errors.As(err, &foreign) {
			t.Errorf("%s: got %v", name, err)
		} else if !inside {
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := Detach(dir); (err == nil) != (filepath.Dir(name) == ".") {
			t.Errorf("%s: detach: %v", name, err)
		}
		if err := m.Unpin(); err != nil {
			t.Errorf("%s was removed: %v", name, err)
		}
		if err := os.RemoveAll(filepath.Join(dir, stateName)); err != nil {
			t.Fatal(err)
		}
	}

	// Another's programs on the interface: by netlink, by a link, and another filter at tc.
	other, err := Load(Config{MaxJobs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	data := byIndex(c.index)
	for name, occupy := range map[string]func() error{
		"by netlink": func() error {
			return netlink.LinkSetXdpFdWithFlags(data, other.objects.Aggregator.FD(), unix.XDP_FLAGS_SKB_MODE)
		},
		"by a link": func() error { _, err := other.Attach(c.index); return err },
		"at tc": func() error {
			return errors.Join(netlink.QdiscAdd(newClsact(c.index)), netlink.FilterAdd(anothersFilter(c.index, netlink.HANDLE_MIN_INGRESS)))
		},
	} {
		if err := occupy(); err != nil {
			t.Fatal(name, err)
		}
		a := openPinned(t, dir, small, KeepOut)
		if _, err := a.Attach(c.index); !errors.As(err, &foreign) {
			t.Errorf("%s: got %v", name, err)
		}
		if got := a.Attachments(); len(got) != 0 {
			t.Errorf("%s: attachments %v", name, got)
		}
		release(t, a)
		a = openPinned(t, dir, small, TakeOver)
		attachTo(t, a, c.index, Native)
		if err := a.Close(); err != nil {
			t.Error(name, err)
		}
		if name == "at tc" {
			if q, err := (&attachment{ifindex: c.index, handle: &netlink.Handle{}}).clsact(); err != nil || q == nil {
				t.Errorf("another's qdisc was removed: %v", err)
			}
			if err := netlink.QdiscDel(newClsact(c.index)); err != nil {
				t.Error(err)
			}
		}
		if err := other.Withdraw(c.index); err != nil { // its qdisc, and a link that is broken
			t.Error(name, err)
		}
		expectClean(t, dir, c.index)
	}
}
