package server_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"spillway/appliance/server"
)

func TestSocket(t *testing.T) {
	group, err := user.LookupGroup("daemon")
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, func(config *server.Config) { config.Group = "daemon" })
	info, err := os.Lstat(r.config.Socket)
	if err != nil {
		t.Fatal(err)
	}
	if owner := strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Gid)); info.Mode() != fs.ModeSocket|0o660 || owner != group.Gid {
		t.Errorf("mode %v, group %s; want srw-rw----, %s", info.Mode(), owner, group.Gid)
	}

	if _, err := server.New(r.config); err == nil || !strings.Contains(err.Error(), "somebody listens") {
		t.Errorf("a second daemon: %v", err)
	}
	if err := getNode(within(t), r.overSocket(t)); err != nil {
		t.Errorf("the first, after the second has tried: %v", err)
	}
	r.stop()
	r.gone(t)

	// A process that was killed leaves its socket behind.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: r.config.Socket})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	again := start(t, func(config *server.Config) { config.Socket = r.config.Socket })
	if err := getNode(within(t), again.overSocket(t)); err != nil {
		t.Errorf("in the place of a dead socket: %v", err)
	}
	entries, err := filepath.Glob(r.config.Socket + ".*")
	if err != nil || len(entries) != 0 {
		t.Errorf("beside the socket: %v, %v", entries, err)
	}
	// Who took its name keeps it.
	if err := os.Remove(r.config.Socket); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.config.Socket, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	again.stop()
	again.gone(t)
	if text, err := os.ReadFile(r.config.Socket); err != nil || string(text) != "mine" {
		t.Errorf("the file in its place: %q, %v", text, err)
	}
}

func TestNewRefuses(t *testing.T) {
	r := start(t, nil)
	file := filepath.Join(r.dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*server.Config)
		want   string
	}{
		"plain TCP unsaid": {func(c *server.Config) { c.TLS = nil }, "api.plaintext"},
		"both":             {func(c *server.Config) { c.Plaintext = true }, "take api.tls or api.plaintext away"},
		"TLS without TCP":  {func(c *server.Config) { c.Listen = "" }, "give api.listen"},
		"nowhere":          {func(c *server.Config) { c.Listen, c.Socket, c.TLS = "", "", nil }, "nowhere to serve"},
		"nothing":          {func(c *server.Config) { c.Jobs = nil }, "nothing to serve"},
		"no such file": {func(c *server.Config) {
			c.TLS = &server.TLS{Certificate: "/nowhere", Key: c.TLS.Key, Authorities: c.TLS.Authorities}
		}, "/nowhere"},
		"another's key": {func(c *server.Config) {
			c.TLS = &server.TLS{Certificate: c.TLS.Certificate, Key: filepath.Join(r.dir, "ca.key"), Authorities: c.TLS.Authorities}
		}, "ca.key"},
		"no such group":     {func(c *server.Config) { c.Group = "no-such-group" }, "groupadd"},
		"a file":            {func(c *server.Config) { c.Socket = file }, "is no socket"},
		"no such directory": {func(c *server.Config) { c.Socket = filepath.Join(r.dir, "x", "s") }, "is its directory there"},
		"port in use":       {func(c *server.Config) { c.Listen = r.Addr() }, "api.listen"},
	} {
		t.Run(name, func(t *testing.T) {
			config := r.config
			config.Socket = filepath.Join(r.dir, "t")
			test.change(&config)
			made, err := server.New(config)
			if err == nil || made != nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if left, err := filepath.Glob(filepath.Join(r.dir, "t*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		t.Error("the file that is no socket was removed")
	}
}
