package config

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"spillway/appliance/certs"
)

// host is a machine for a configuration: a network namespace, a mount namespace with a bpffs, and directories. f runs in it, on a thread of
// its own, as root.
func host(t *testing.T, f func() error) {
	t.Helper()
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocks: the thread ends with its namespaces
		result <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return fmt.Errorf("this test needs root: %w", err)
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			handle, err := netns.New()
			if err != nil {
				return err
			}
			defer handle.Close()
			return f()
		}()
	}()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

// addLink makes an interface: a bridge without ports, which every kernel that can run the project has.
func addLink(name, address string, mtu int, up bool) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, mtu
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return err
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if address != "" {
		ip, err := netlink.ParseAddr(address)
		if err == nil {
			err = netlink.AddrAdd(link, ip)
		}
		if err != nil {
			return err
		}
	}
	if up {
		return netlink.LinkSetUp(link)
	}
	return nil
}

func TestCheckHost(t *testing.T) {
	dir := t.TempDir()
	host(t, func() error {
		bpffs := filepath.Join(dir, "bpf")
		if err := errors.Join(os.Mkdir(bpffs, 0o755), unix.Mount("bpf", bpffs, "bpf", 0, "")); err != nil {
			return err
		}
		defer unix.Unmount(bpffs, 0)
		if err := errors.Join(addLink("rack0", "10.0.0.1/24", 1500, true), addLink("rack1", "10.0.1.1/24", 9000, false), addLink("rack2", "", 1500, true)); err != nil {
			return err
		}
		for _, name := range []string{"server", "other"} {
			if err := makeCertificate(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		good := func() string {
			return fmt.Sprintf(`interfaces:
  - name: rack0
    address: 10.0.0.1
aggregator: {pin: %[1]s/bpf/spillway}
state: %[1]s/state/state.db
jobs: {elements: 256}
api:
  socket: %[1]s/run/s.sock
  group: root
  listen: 10.0.0.1:9690
  tls:
    certificate: %[1]s/server/server.crt
    key: %[1]s/server/server.key
    ca: %[1]s/server/ca.crt
`, dir)
		}
		check := func(replace, with string) string {
			c, err := Parse("f", []byte(strings.Replace(good(), replace, with, 1)))
			if err != nil {
				t.Fatalf("%s → %s: %v", replace, with, err)
			}
			return strings.ReplaceAll(fmt.Sprint(c.CheckHost()), dir, "DIR")
		}
		if got := check("", ""); got != "<nil>" {
			t.Errorf("good: %s", got)
		}
		for _, made := range []string{"bpf/spillway", "state", "run"} {
			if _, err := os.Stat(filepath.Join(dir, made)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the check made %s (%v)", made, err)
			}
		}
		for _, wrong := range []struct{ replace, with, want string }{
			{"name: rack0", "name: eth7", "f:2: interfaces[0].name: there is no interface eth7; write one that this host has: rack0, rack1 or rack2"},
			{"address: 10.0.0.1", "address: 10.0.0.2", "f:3: interfaces[0].address: rack0 does not have the address 10.0.0.2; write one that it has: 10.0.0.1"},
			{"name: rack0", "name: rack2", "f:3: interfaces[0].address: rack2 does not have the address 10.0.0.1; it has no IPv4 address: ip address add 10.0.0.1/24 dev rack2"},
			{"elements: 256", "elements: 832", "f:2: interfaces[0].name: rack0 has an MTU of 1500, and chunks of 832 elements (jobs.elements) need 3384; give the interface an MTU of 3384, or write a smaller jobs.elements"},
			{dir + "/bpf/spillway", dir + "/spillway", "f:4: aggregator.pin: DIR/spillway is not on a bpffs; write a directory of a bpffs, such as /sys/fs/bpf/spillway (mount -t bpf bpf /sys/fs/bpf, where systemd has not)"},
			{dir + "/state/", dir + "/server/ca.crt/", "f:5: state: DIR/server/ca.crt is not a directory; make DIR/server/ca.crt for user root"},
			{"group: root", "group: nobody-has-it", "f:9: api.group: there is no group nobody-has-it; make it (groupadd --system nobody-has-it), or write one that is there"},
			{"key: " + dir + "/server/server.key", "key: " + dir + "/other/server.key", "f:12: api.tls.certificate: DIR/server/server.crt and DIR/other/server.key do not go together: "},
			{"server/server.crt", "server/none.crt", "f:12: api.tls.certificate: open DIR/server/none.crt: no such file or directory; write the path of a file that is there (spillctl certs makes some for a lab)"},
			{"ca: " + dir + "/server/ca.crt", "ca: " + dir + "/server/server.key", "f:14: api.tls.ca: there is no certificate in DIR/server/server.key; write a file of PEM certificates"},
		} {
			if got := check(wrong.replace, wrong.with); !strings.HasPrefix(got, wrong.want) || strings.Contains(got, "\n") {
				t.Errorf("%s → %s\n got %s\nwant %s", wrong.replace, wrong.with, got, wrong.want)
			}
		}
		if got := check("name: rack0\n    address: 10.0.0.1", "name: rack1\n    address: 10.0.1.1"); got != "f:2: interfaces[0].name: rack1 is down; take it up: ip link set rack1 up" {
			t.Error(got)
		}
		if err := os.Chmod(filepath.Join(dir, "server/server.key"), 0o644); err != nil {
			return err
		}
		if got := check("", ""); got != "f:13: api.tls.key: everybody can read or write DIR/server/server.key (mode 0644); chmod o= DIR/server/server.key" {
			t.Error(got)
		}
		return os.Chmod(filepath.Join(dir, "server/server.key"), 0o600)
	})
}

// TestCheckHostAsNobody: what another user lacks is found with that user's rights.
func TestCheckHostAsNobody(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	host(t, func() error {
		bpffs := filepath.Join(dir, "bpf")
		if err := errors.Join(os.Mkdir(bpffs, 0o755), os.Mkdir(filepath.Join(dir, "state"), 0o700), unix.Mount("bpf", bpffs, "bpf", 0, "mode=0755")); err != nil {
			return err
		}
		if err := addLink("rack0", "10.0.0.1/24", 1500, true); err != nil {
			return err
		}
		c := Default()
		c.Interfaces = []Interface{{"rack0", netip.MustParseAddr("10.0.0.1")}}
		c.Aggregator.Pin, c.State, c.API.Socket = bpffs+"/spillway", dir+"/state/state.db", dir+"/s.sock"
		// Of this thread alone, which nobody uses afterwards.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
			return errno
		}
		var invalid *Error
		if err := c.CheckHost(); !errors.As(err, &invalid) {
			t.Errorf("%v", err)
			return nil
		}
		found := map[string]bool{}
		for _, p := range invalid.Problems {
			found[p.Key] = true
		}
		for _, key := range []string{"aggregator.pin", "state", "api.socket"} {
			if !found[key] {
				t.Errorf("nothing is said of %s: %v", key, invalid)
			}
		}
		return nil
	})
}

// makeCertificate makes a lab's authority and a server's certificate.
func makeCertificate(dir string) error {
	authority, err := certs.NewAuthority("test", certs.AuthorityLifetime)
	if err != nil {
		return err
	}
	pair, err := authority.Issue(certs.Request{Name: "server", Server: true, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Lifetime: time.Hour})
	if err != nil {
		return err
	}
	return pair.Write(dir, "server", false)
}
