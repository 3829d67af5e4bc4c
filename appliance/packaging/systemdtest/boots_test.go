package systemdtest

import (
	"strings"
	"testing"
)

// TestMachine: the machine is what the other tests take it for.
func TestMachine(t *testing.T) {
	m := newMachine(t, newNetwork(t, 1))
	if out := m.run("stat", "-f", "-c", "%T", "/sys/fs/bpf"); out != "bpf_fs\n" {
		t.Errorf("/sys/fs/bpf: %s", out)
	}
	if out := m.run("stat", "-c", "%a", "/sys/fs/bpf"); strings.TrimSpace(out) != "700" && strings.TrimSpace(out) != "1700" {
		t.Errorf("/sys/fs/bpf: mode %s", out)
	}
	m.write("/root/kept", "kept", "0600")
	m.run("mkdir", "/sys/fs/bpf/lost")
	before := m.leader
	m.reboot()
	if m.leader == before || m.run("cat", "/root/kept") != "kept" {
		t.Errorf("leader %d, then %d", before, m.leader)
	}
	if out, err := m.try("ls", "/sys/fs/bpf/lost"); err == nil {
		t.Errorf("a reboot kept what was pinned: %s", out)
	}
}
