package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netns"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/p4/softtor"
)

// torLab is a lab whose hosts are at the ports of a software ToR, which is configured and not started, and the daemon for it: with switch, the last of whose
// lines is the host of rank 1.
func torLab(t *testing.T) (l *lab, tor netns.NsHandle, file string, switches []string) {
	t.Helper()
	l = bareLab(t)
	tor = l.namespace()
	l.plug(l.handle(tor), "")
	of := softtor.Config{Listen: "unix:" + filepath.Join(l.dir, "p4"), DeviceID: 1, Slots: 512, Elements: 256}
	for port := range 3 {
		of.Ports = append(of.Ports, softtor.Port{Port: uint16(port + 1), Interface: fmt.Sprintf("port%d", port)})
	}
	text, err := json.Marshal(of)
	l.must(err)
	file = filepath.Join(l.dir, "tor.json")
	l.must(os.WriteFile(file, text, 0o600))

	lines := []string{"switch:", "  target: " + of.Listen, "  device: 1", "  program: software", "  address: 10.9.0.254", "  home_port: 1", "  check: 1s", "  hosts:"}
	for rank, ns := range l.workers {
		l.pass(ns, "eth0") // a veth takes what is redirected to it only if it has an XDP program of its own
		link, err := l.handle(ns).LinkByName("eth0")
		l.must(err)
		lines = append(lines, fmt.Sprintf("    - {address: %s, mac: %s, port: %d}", workerAddress(rank), link.Attrs().HardwareAddr, rank+2))
	}
	return l, tor, file, lines
}

func (l *lab) startTor(tor netns.NsHandle, file string) *process {
	l.Helper()
	p := l.start(tor, "tor", "/proc/self/exe", nil, file)
	p.line("ready")
	return p
}

// TestTor: sums are made in the ToR; the daemon is killed and comes again; then the ToR is, and is told everything again, while workers reduce.
func TestTor(t *testing.T) {
	l, ns, file, lines := torLab(t)
	l.configure(lines[:len(lines)-1]...)
	d := l.launch("/proc/self/exe", nil, "run", "--config", l.config())
	d.hear("ToR away")
	d.hear("READY=1") // it needs no ToR for that
	tor := l.startTor(ns, file)
	d.hear("ToR in sync")
	l.configure(lines...) // another host was plugged in
	d.signal(syscall.SIGHUP)
	d.hear("READY=1")
	if warnings := l.node().GetWarnings(); len(warnings) != 0 && !strings.Contains(warnings[0], "in sync") {
		t.Errorf("warnings: %v", warnings)
	}
	l.create("train")
	workers := l.join("train")
	progress(workers, 2)
	if job := l.job("train"); job.GetPath() != v1.JobPath_JOB_PATH_TOR {
		t.Fatalf("the job goes %v: %s", job.GetPath(), job.GetReason())
	}

	d.signal(syscall.SIGKILL)
	d.code()
	progress(workers, 3)
	d = l.run()
	l.eventually("the ToR is in sync", func() bool { return l.node().GetSwitch() == v1.SwitchState_SWITCH_STATE_IN_SYNC })
	l.eventually("both workers are present again", func() bool { return l.job("train").GetPresent() == 2 })
	progress(workers, 2)

	tor.kill()
	d.hear("ToR away")
	l.startTor(ns, file)
	d.hear("ToR in sync")
	for _, w := range workers { // what was said before does not count
		for range len(w.lines) {
			<-w.lines
		}
	}
	progress(workers, 2)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	levels, err := v1.NewNodeServiceClient(l.dial()).ListLevels(ctx, &v1.ListLevelsRequest{Job: "train"})
	l.must(err)
	if of := levels.GetLevels(); len(of) != 2 || of[0].GetLevel() != "tor" || of[0].GetContributions() == 0 || of[0].GetPublished() == 0 || of[0].GetShare() <= 0 || of[0].GetShare()+of[1].GetShare() < 0.999 {
		t.Errorf("levels: %v", of)
	}
	described, err := v1.NewNodeServiceClient(l.dial()).GetSwitch(ctx, &v1.GetSwitchRequest{})
	l.must(err)
	if of := described.GetGroups(); !strings.Contains(fmt.Sprint(of), `job:"train"`) {
		t.Errorf("groups: %v", of)
	}
	if code, body := l.get("/metrics"); code != 200 || !strings.Contains(body, `spillway_tor_state{state="in_sync"} 1`) ||
		!strings.Contains(body, `spillway_contributions_total{job="train",level="tor"}`) || !strings.Contains(body, "spillway_read_failures 0") {
		t.Errorf("metrics: %d\n%s", code, body)
	}
	finish(l, workers)
	d.signal(syscall.SIGTERM)
	if code := d.code(); code != 0 {
		t.Errorf("code %d", code)
	}
}
