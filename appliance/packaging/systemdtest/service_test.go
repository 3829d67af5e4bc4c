package systemdtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
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
	for _, version := range []string{"1.0.0", "1.0.1"} { // before the clock of any step runs
		debianPackage(t, version)
	}
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
	within("kill -9", func() { m.run("sh", "-c", "kill -9 "+m.mainPID()) })
	if got := m.run("systemctl", "show", "--property=NRestarts", "--value", "spillwayd"); got != "1\n" {
		t.Errorf("systemd restarted the service %s times, want 1", got)
	}
	within("the watchdog", func() {
		pid := m.mainPID()
		m.write("/etc/systemd/system/spillwayd.service.d/watchdog.conf", "[Service]\nWatchdogSec=2\n", "0644")
		m.run("systemctl", "daemon-reload")
		m.run("systemctl", "restart", "spillwayd")
		if now := m.mainPID(); now == pid {
			t.Fatal("it was not restarted")
		}
		hung := m.mainPID()
		m.run("sh", "-c", "kill -STOP "+hung)
		poll(t, time.Minute, "systemd to end a daemon that hangs", func() error {
			if now := m.mainPID(); now == hung || now == "0" {
				return fmt.Errorf("it is process %s", now)
			}
			return nil
		})
		m.run("rm", "/etc/systemd/system/spillwayd.service.d/watchdog.conf")
		m.run("systemctl", "daemon-reload")
	})
	within("an upgrade", func() { m.install("1.0.1") })
	if got := m.run("spillctl", "status", "--output", "json"); !strings.Contains(got, `"1.0.1"`) {
		t.Errorf("after the upgrade spillctl status says\n%s", got)
	}
	pid := m.mainPID()
	r.during(func() { m.run("systemctl", "reload", "spillwayd") })
	m.active()
	if now := m.mainPID(); now != pid {
		t.Errorf("a reload exchanged process %s for %s", pid, now)
	}
	poll(t, time.Minute, "all workers to have resumed", func() error {
		if metrics := m.metrics(network); !strings.Contains(metrics, `spillway_workers{job="train",state="present"} 3`) {
			return errors.New(metrics)
		}
		return nil
	})
	m.look(network)
	within("a reboot", m.reboot)
	r.finish(256)
	m.journalSays("generation 1 of job train is running", "generation 1 of job train goes on", "has resumed its part in generation 1", "has left", "signal=terminated", "Watchdog timeout")

	m.run("dpkg", "--purge", "spillway")
	m.purged()
	m.detached(network)
}

// look has operators and Prometheus look at the service while it works.
func (m *machine) look(network *network) {
	t := m.t
	t.Helper()
	out, err := m.asOperator("spillctl", "jobs", "--output", "json")
	var jobs struct {
		Jobs []struct {
			Spec  struct{ Name string }
			State string
		}
	}
	if err := errors.Join(err, json.Unmarshal([]byte(out), &jobs)); err != nil || len(jobs.Jobs) != 1 || jobs.Jobs[0].Spec.Name != "train" {
		t.Errorf("spillctl jobs as an operator: %v\n%s", err, out)
	}
	if out, err := m.asOperator("spillctl", "doctor"); err != nil {
		t.Errorf("spillctl doctor as an operator: %v\n%s", err, out)
	}
	if got := m.run("systemctl", "show", "--property=StatusText", "--value", "spillwayd"); strings.TrimSpace(got) == "" {
		t.Error("systemctl status has no text of the daemon's")
	} else {
		t.Logf("status: %s", strings.TrimSpace(got))
	}
	for property, want := range map[string]string{"User": "spillway", "Type": "notify", "WatchdogUSec": "30s"} {
		if got := strings.TrimSpace(m.run("systemctl", "show", "--property="+property, "--value", "spillwayd")); got != want {
			t.Errorf("%s of the unit is %s, want %s", property, got, want)
		}
	}
	m.exposure()
	metrics := m.metrics(network)
	for _, want := range []string{
		`spillway_jobs{state="running"} 1`,
		`spillway_data_plane_adopted 1`,
		`spillway_interface_info{address="10.99.0.1",interface="rack0",mode="native"} 1`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("/metrics does not have %s:\n%s", want, metrics)
		}
	}
}

// most is the exposure that the unit may have, of 10.
const most = 3.0

var overall = regexp.MustCompile(`Overall exposure level for spillwayd\.service: ([0-9.]+)`)

// exposure asks systemd how much of the system the unit could reach.
func (m *machine) exposure() {
	m.t.Helper()
	out := m.run("systemd-analyze", "security", "--no-pager", "spillwayd.service")
	match := overall.FindStringSubmatch(out)
	if match == nil {
		m.t.Fatalf("systemd-analyze security says\n%s", out)
	}
	m.t.Log(match[0])
	if level, err := strconv.ParseFloat(match[1], 64); err != nil || level > most {
		m.t.Errorf("%s, and at most %.1f is allowed (%v)\n%s", match[0], most, err, out)
	}
}

// metrics is what Prometheus would get, on the appliance's loopback.
func (m *machine) metrics(network *network) string {
	m.t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(_ context.Context, kind, address string) (net.Conn, error) {
			return dial(network.appliance, kind, address)
		},
	}}
	response, err := client.Get("http://127.0.0.1:9691/metrics")
	must(m.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(m.t, err)
	if response.StatusCode != http.StatusOK {
		m.t.Fatalf("/metrics: %s\n%s", response.Status, text)
	}
	return string(text)
}

// journalSays checks that all of it was logged.
func (m *machine) journalSays(wants ...string) {
	m.t.Helper()
	journal := m.journal(10000)
	for _, want := range wants {
		if !strings.Contains(journal, want) {
			m.t.Errorf("the journal does not say %q:\n%s", want, journal)
		}
	}
}

// detached checks that nothing of the data plane is on the interface.
func (m *machine) detached(network *network) {
	m.t.Helper()
	must(m.t, in(network.appliance, func() error {
		inside, err := netlink.LinkByName(rackInterface)
		if err != nil {
			return err
		}
		if xdp := inside.Attrs().Xdp; xdp != nil && xdp.Attached {
			m.t.Errorf("an XDP program, %d, is still on %s", xdp.ProgId, rackInterface)
		}
		for _, where := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			found, err := link.QueryPrograms(link.QueryOptions{Target: inside.Attrs().Index, Attach: where})
			if err != nil {
				return err
			}
			if len(found.Programs) > 0 {
				m.t.Errorf("%d programs are still at %v of %s", len(found.Programs), where, rackInterface)
			}
		}
		return nil
	}))
}
