package command_test

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	v1 "spillway/appliance/api/spillway/v1"
)

// event tells whether something of a kind happened.
func (l *lab) event(kind string) bool {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	stream, err := v1.NewNodeServiceClient(l.dial()).StreamEvents(ctx, &v1.StreamEventsRequest{})
	l.must(err)
	for {
		response, err := stream.Recv()
		if err != nil {
			return false
		}
		if response.GetEvent().GetKind() == kind {
			return true
		}
	}
}

func (l *lab) warned(about string) bool {
	l.Helper()
	return strings.Contains(strings.Join(l.node().GetWarnings(), "\n"), about)
}

// TestInterface: the interface goes down and up, loses its address and gets it again, and the program is taken off it.
func TestInterface(t *testing.T) {
	l := newLab(t)
	l.configure()
	d := l.run()
	at := l.handle(l.home)
	data, err := at.LinkByName(homeLink)
	l.must(err)

	l.must(at.LinkSetDown(data))
	d.hear("interface data is down")
	if !l.warned("interface data is down") {
		t.Errorf("warnings: %v", l.node().GetWarnings())
	}
	address, err := netlink.ParseAddr(homeAddress + "/24")
	l.must(err)
	l.must(at.LinkSetUp(data))
	l.eventually("no warning is left", func() bool { return len(l.node().GetWarnings()) == 0 })

	l.must(at.AddrDel(data, address))
	d.hear("does not have the home's address")
	l.must(at.AddrAdd(data, address))
	l.eventually("no warning is left", func() bool { return len(l.node().GetWarnings()) == 0 })

	program := l.attached()
	l.detachLink(data.Attrs().Index)
	l.eventually("the program is back", func() bool { return l.attached() == program })
	l.eventually("the event is there", func() bool { return l.event("interface-restored") })

	l.create("train") // and it works
	workers := l.join("train")
	progress(workers, 2)
	finish(l, workers)
}

// detachLink takes the program off an interface as `bpftool link detach` does, which the kernel tells nobody about.
func (l *lab) detachLink(ifindex int) {
	l.Helper()
	var links link.Iterator
	defer links.Close()
	for links.Next() {
		info, err := links.Link.Info()
		l.must(err)
		if x := info.XDP(); x != nil && int(x.Ifindex) == ifindex && uint32(info.Program) == l.attached() {
			l.must(links.Link.Detach())
			return
		}
	}
	l.Fatalf("no link is on interface %d: %v", ifindex, links.Err())
}

// TestDown: an interface that does not come up keeps nobody from asking why.
func TestDown(t *testing.T) {
	l := newLab(t)
	l.configure()
	at := l.handle(l.home)
	data, err := at.LinkByName(homeLink)
	l.must(err)
	l.must(at.LinkSetDown(data))
	d := l.launch("/proc/self/exe", nil, "run", "--config", l.config())
	d.hear("STATUS=waiting for interface data to come up")
	l.must(at.LinkSetUp(data))
	d.hear("READY=1")
	if warnings := l.node().GetWarnings(); len(warnings) != 0 {
		t.Errorf("warnings: %v", warnings)
	}
}

// TestReload: what can change does, what cannot says so, and a configuration with errors changes nothing.
func TestReload(t *testing.T) {
	l := newLab(t)
	l.configure()
	d := l.run()
	reload := func(more ...string) {
		t.Helper()
		l.configure(more...)
		d.signal(syscall.SIGHUP)
		d.hear("RELOADING=1")
		d.hear("READY=1")
	}
	reload("log: {level: debug}", "jobs: {window: 50, quota: {window: 100}}")
	if warnings := l.node().GetWarnings(); len(warnings) != 0 {
		t.Errorf("warnings: %v", warnings)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := v1.NewJobServiceClient(l.dial()).CreateJob(ctx, &v1.CreateJobRequest{Spec: &v1.JobSpec{Name: "wide", Workers: 2, Window: 200}})
	if err == nil || !strings.Contains(err.Error(), "100") {
		t.Errorf("a window above the new quota: %v", err)
	}
	reload("log: {levle: debug}")
	if !l.warned("not reloaded") {
		t.Errorf("warnings: %v", l.node().GetWarnings())
	}
	l.write(strings.Replace(strings.Replace(l.text(), "log: {levle: debug}", "", 1), "aggregator:", "aggregator:\n  max_jobs: 16", 1))
	d.signal(syscall.SIGHUP)
	d.hear("READY=1")
	if !l.warned("aggregator.max_jobs") || l.warned("not reloaded") {
		t.Errorf("warnings: %v", l.node().GetWarnings())
	}
	d.signal(syscall.SIGTERM)
	if code := d.code(); code != 0 {
		t.Errorf("code %d", code)
	}
}
