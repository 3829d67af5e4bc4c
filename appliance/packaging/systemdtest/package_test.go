package systemdtest

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/appliance/packaging"
)

// packages are made once for all tests, by version.
var packages struct {
	sync.Mutex
	paths map[string]string
}

// debianPackage makes the package, for this machine's architecture.
func debianPackage(t *testing.T, version string) string {
	t.Helper()
	packages.Lock()
	defer packages.Unlock()
	if path, ok := packages.paths[version]; ok {
		return path
	}
	repository, err := filepath.Abs("../../..")
	must(t, err)
	path, err := packaging.Build(t.Context(), packaging.Options{Repository: repository, Out: packageDir, Architecture: runtime.GOARCH, Version: version})
	must(t, err)
	if packages.paths == nil {
		packages.paths = map[string]string{}
	}
	packages.paths[version] = path
	return path
}

// install has dpkg install a version of the package, and returns what was said.
func (m *machine) install(version string) string {
	m.t.Helper()
	m.put(debianPackage(m.t, version), "/root/spillway.deb")
	return m.run("dpkg", "--install", "/root/spillway.deb")
}

// configuration is that of the appliance in the tests' network.
const configuration = `name: appliance
interfaces:
  - name: ` + rackInterface + `
    address: ` + homeAddress + `
api:
  listen: ` + homeAddress + `:9690
  tls:
    certificate: /etc/spillway/tls/server.crt
    key: /etc/spillway/tls/server.key
    ca: /etc/spillway/tls/ca.crt
metrics:
  listen: 127.0.0.1:9691
`

// TestInstall: a package with the configuration that it comes with leaves everything ready and nothing running.
func TestInstall(t *testing.T) {
	m := newMachine(t, newNetwork(t, 1))
	said := m.install("1.0.0")
	for _, want := range []string{
		"/etc/spillway/spillwayd.yaml:1: interfaces: the aggregator has no interface; name those that the workers are behind",
		"the daemon was not started: write /etc/spillway/spillwayd.yaml",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("dpkg said\n%s\nand not: %s", said, want)
		}
	}
	if out, _ := m.try("systemctl", "is-active", "spillwayd"); out != "inactive\n" {
		t.Errorf("the service is %s", out)
	}
	if out := m.run("systemctl", "is-enabled", "spillwayd"); out != "enabled\n" {
		t.Errorf("the service is %s", out)
	}
	for path, want := range map[string]string{
		"/sys/fs/bpf":                  "1711 root root",
		"/sys/fs/bpf/spillway":         "750 spillway spillway",
		"/run/spillway":                "750 spillway spillway",
		"/var/lib/spillway":            "750 spillway spillway",
		"/etc/spillway":                "755 root root",
		"/etc/spillway/tls":            "750 root spillway",
		"/etc/spillway/spillwayd.yaml": "644 root root",
	} {
		if got := strings.TrimSpace(m.run("stat", "-c", "%a %U %G", path)); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	if got := m.run("spillctl", "version"); !strings.HasPrefix(got, "spillctl 1.0.0,") {
		t.Errorf("spillctl version: %s", got)
	}
	if out := m.run("systemd-analyze", "verify", "--man=no", "/usr/lib/systemd/system/spillwayd.service"); out != "" {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	// Who starts it all the same hears why it does not, and systemd gives it up in the end.
	if out, err := m.try("systemctl", "start", "spillwayd"); err == nil {
		t.Errorf("it starts without an interface: %s", out)
	}
	poll(t, time.Minute, "systemd to give it up", func() error {
		if got := strings.TrimSpace(m.run("systemctl", "show", "--property=ActiveState", "--value", "spillwayd")); got != "failed" {
			return errors.New(got)
		}
		return nil
	})
	m.journalSays("/etc/spillway/spillwayd.yaml:1: interfaces: the aggregator has no interface")

	m.write("/etc/spillway/spillwayd.yaml", configuration, "0644")
	m.run("dpkg", "--remove", "spillway")
	if got := m.run("cat", "/etc/spillway/spillwayd.yaml"); got != configuration {
		t.Errorf("a removal changed the configuration to\n%s", got)
	}
	m.run("dpkg", "--purge", "spillway")
	m.purged()
}

// purged checks that nothing of the package is left but its user.
func (m *machine) purged() {
	m.t.Helper()
	for _, path := range []string{"/sys/fs/bpf/spillway", "/run/spillway", "/var/lib/spillway", "/etc/spillway", "/usr/sbin/spillwayd", "/etc/systemd/system/multi-user.target.wants/spillwayd.service"} {
		if out, err := m.try("ls", "-ld", path); err == nil {
			m.t.Errorf("a purge left %s", out)
		}
	}
	if out, _ := m.try("dpkg-query", "--list", "*spillway*"); strings.Contains(out, "\nii") || strings.Contains(out, "\nrc") {
		m.t.Errorf("a purge left\n%s", out)
	}
}
