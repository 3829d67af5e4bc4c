package xdp

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// inNamespace runs the rest of the test in a fresh network namespace. The OS
// thread stays locked and dies with the test's goroutine.
func inNamespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
}

// TestAttach: native on a veth, generic on loopback, and nothing left behind.
func TestAttach(t *testing.T) {
	var log bytes.Buffer
	previous := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(previous)
	done := make(chan struct{})
	go func() {
		defer close(done)
		inNamespace(t)
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "data"}, PeerName: "peer"}
		if err := netlink.LinkAdd(veth); err != nil {
			t.Error(err)
			return
		}
		for name, want := range map[string]Mode{"data": Native, "lo": Generic} {
			link, err := netlink.LinkByName(name)
			if err != nil {
				t.Error(err)
				return
			}
			index := link.Attrs().Index
			a, err := Load(Config{MaxJobs: 1})
			if err != nil {
				t.Errorf("%+v", err)
				return
			}
			mode, err := a.Attach(index)
			if err != nil || mode != want {
				t.Errorf("%s: mode %q, error %v; want %q", name, mode, err, want)
			}
			if warned := strings.Contains(log.String(), "generic mode"); warned != (mode == Generic) {
				t.Errorf("%s: mode %s, and the log says %q", name, mode, log.String())
			}
			log.Reset()
			if link, err = netlink.LinkByIndex(index); err != nil || link.Attrs().Xdp == nil || !link.Attrs().Xdp.Attached {
				t.Errorf("%s: not attached: %v", name, err)
			}
			if again, err := a.Attach(index); err != nil || again != mode {
				t.Errorf("%s: attach again: mode %q, error %v", name, again, err)
			}
			if err := a.Close(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if link, err = netlink.LinkByIndex(index); err != nil || link.Attrs().Xdp != nil && link.Attrs().Xdp.Attached {
				t.Errorf("%s: still attached: %v", name, err)
			}
			qdiscs, err := netlink.QdiscList(link)
			if err != nil {
				t.Error(err)
			}
			for _, q := range qdiscs {
				if q.Type() == "clsact" {
					t.Errorf("%s: the clsact qdisc was left behind", name)
				}
			}
		}
	}()
	<-done
}
