package systemdtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// operator is a user in group spillway.
const operator = "olga"

// asOperator runs a command as the operator.
func (m *machine) asOperator(args ...string) (string, error) {
	return m.try("setpriv", append([]string{"--reuid=" + operator, "--regid=" + operator, "--init-groups"}, args...)...)
}

// mainPID is the daemon's process id.
func (m *machine) mainPID() string {
	m.t.Helper()
	return strings.TrimSpace(m.run("systemctl", "show", "--property=MainPID", "--value", "spillwayd"))
}

// active waits until the service is.
func (m *machine) active() {
	m.t.Helper()
	poll(m.t, time.Minute, "spillwayd to be active", func() error {
		out, _ := m.try("systemctl", "is-active", "spillwayd")
		if out != "active\n" {
			return fmt.Errorf("it is %s%s", out, m.journal(20))
		}
		return nil
	})
}

// journal is the last lines that the service logged.
func (m *machine) journal(lines int) string {
	out, err := m.try("journalctl", "--no-pager", "--unit=spillwayd", "--output=cat", fmt.Sprintf("--lines=%d", lines))
	if err != nil {
		return err.Error()
	}
	return out
}

// configure writes the configuration and makes certificates, as an operator of a lab would, and takes the workers' out of the machine.
func (m *machine) configure(job string) workerOrder {
	m.t.Helper()
	m.write("/etc/spillway/spillwayd.yaml", configuration, "0644")
	m.run("spillctl", "certs", "ca", "--dir", "/root")
	m.run("spillctl", "certs", "server", "--dir", "/root", "--ip", homeAddress)
	m.run("spillctl", "certs", "worker", "--dir", "/root", "--job", job)
	m.run("install", "--group=spillway", "--mode=0640", "-t", "/etc/spillway/tls", "/root/ca.crt", "/root/server.crt", "/root/server.key")
	dir := m.t.TempDir()
	for _, name := range []string{"ca.crt", "worker.crt", "worker.key"} {
		must(m.t, os.WriteFile(filepath.Join(dir, name), []byte(m.run("cat", "/root/"+name)), 0o600))
	}
	return workerOrder{Addr: homeAddress + ":9690", Job: job, Certificate: filepath.Join(dir, "worker.crt"), Key: filepath.Join(dir, "worker.key"), Authority: filepath.Join(dir, "ca.crt")}
}

// TestService: what an operator does with the package, and what happens to the service, while workers reduce through it.
func TestService(t *testing.T) {
	network := newNetwork(t, workers)
	m := newMachine(t, network)
	m.install("1.0.0")
	m.run("useradd", "--groups", "spillway", operator)
	m.run("useradd", "stranger")
	order := m.configure("train")
	m.run("systemctl", "start", "spillwayd")
	m.active()

	if out, err := m.asOperator("spillctl", "job", "create", "train", "--workers", strconv.Itoa(workers), "--elements", "256"); err != nil {
		t.Fatalf("spillctl job create as an operator: %v\n%s", err, out)
	}
	if out, err := m.try("setpriv", "--reuid=stranger", "--regid=stranger", "--clear-groups", "spillctl", "jobs"); err == nil {
		t.Errorf("a stranger may list jobs: %s", out)
	}
	r := startWorkers(t, network, order)
	within := func(what string, change func()) {
		t.Helper()
		var back time.Duration
		steps := r.during(func() {
			pid, at, began := m.mainPID(), r.reached(), time.Now()
			change()
			poll(t, time.Minute, "another process to be active", func() error {
				if now := m.mainPID(); now == pid || now == "0" {
					return fmt.Errorf("it is process %s, and was %s", now, pid)
				}
				return nil
			})
			m.active()
			back = time.Since(began)
			if r.reached() == at {
				t.Errorf("%s: no step was done in %s", what, back)
			}
		})
		t.Logf("%s: active again after %s, and %d steps were done around it", what, back.Round(time.Millisecond), steps)
	}
	within("systemctl restart", func() { m.run("systemctl", "restart", "spillwayd") })
	within("kill -9", func() { m.run("kill", "-9", m.mainPID()) })
	r.finish(256)
}
