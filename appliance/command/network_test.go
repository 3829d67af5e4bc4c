package command_test

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestWithoutNetwork: an interface that is down, and has not the address that the API is to listen on, keeps nobody from asking why; when it
// is as it should be, so is everything.
func TestWithoutNetwork(t *testing.T) {
	l := newLab(t)
	l.configure()
	text := strings.Replace(l.text(), "api:", "api:\n  listen: "+homeAddress+":9690\n  plaintext: anyone-who-reaches-this-port-may-join", 1)
	l.write(text)
	at := l.handle(l.home)
	data, err := at.LinkByName(homeLink)
	l.must(err)
	address, err := netlink.ParseAddr(homeAddress + "/24")
	l.must(err)
	l.must(at.AddrDel(data, address))
	l.must(at.LinkSetDown(data))

	d := l.launch("/proc/self/exe", nil, "run", "--config", l.config())
	d.hear("STATUS=waiting for")
	d.hear("READY=1")
	if warnings := l.node().GetWarnings(); len(warnings) == 0 || !strings.Contains(warnings[0], "interface data is down") {
		t.Errorf("warnings: %v", warnings)
	}
	l.must(at.LinkSetUp(data))
	d.hear("does not have the home's address")
	l.must(at.AddrAdd(data, address))
	l.eventually("no warning is left", func() bool { return len(l.node().GetWarnings()) == 0 })
	l.create("train")
	workers := l.join("train")
	progress(workers, 2)
	finish(l, workers)
}

// TestMadeAgain: the interface is removed and made again under its name, as a virtual machine's host does it. The aggregator is on it again.
func TestMadeAgain(t *testing.T) {
	l := newLab(t)
	l.configure()
	l.run()
	l.create("train")
	workers := l.join("train")
	progress(workers, 2)
	finish(l, workers)

	at := l.handle(l.home)
	data, err := at.LinkByName(homeLink)
	l.must(err)
	l.must(at.LinkDel(data))
	l.eventually("it is missed", func() bool { return l.warned("interface data is down, or gone") })
	l.connect(l.handle(l.bridge), "rack", "port0", l.home, homeLink, homeAddress)
	l.pass(l.bridge, "port0")
	l.eventually("the program is on it", func() bool { return l.attached() != 0 })
	l.eventually("no warning is left", func() bool { return len(l.node().GetWarnings()) == 0 })
	if !l.event("interface-restored") {
		t.Error("no event says so")
	}
	workers = l.join("train")
	progress(workers, 2)
	finish(l, workers)
	if job := l.job("train"); job.GetGeneration() != 2 {
		t.Errorf("generation %d", job.GetGeneration())
	}
}
