package xdp

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// small is the config of the tests of pinning.
var small = Config{MaxJobs: 16, Slots: Slots{256, 256, 256, 64}}

var compareJobs = cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{})}

// TestAdoption runs sums through one process's end, nobody's time, another process and a third, and loses nothing.
func TestAdoption(t *testing.T) {
	c, dir := newCable(t), bpffs(t)
	c.listen(t)
	const n, elems = 4, 40
	seqs := until(8)
	a := openPinned(t, dir, small, KeepOut)
	if a.Adopted() {
		t.Error("a new aggregator says it was adopted")
	}
	attachTo(t, a, c.index, Native)
	jobs := []Job{testJob(n, 64), unicastJob(9, c.index)}
	place := uint32(128)
	jobs[1].Place = &place
	for _, j := range jobs {
		if err := a.AddJob(j); err != nil {
			t.Fatal(err)
		}
	}
	before := a.Jobs()
	program, filter := idOf(t, c.index), filterID(t, c.index)
	c.contribute(t, 0, seqs, elems)
	await(t, "the first contributions arrived", func() bool { return counters(t, a)["claimed"] == uint64(len(seqs)) })
	if _, err := Open(dir, small, TakeOver); !errors.Is(err, ErrInUse) {
		t.Errorf("a second owner: %v", err)
	}
	if err := Detach(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("detach under the owner: %v", err)
	}
	release(t, a)
	c.contribute(t, 1, seqs, elems) // while nobody is there

	report := runChild(t, childRequest{Dir: dir, Config: small, Ifindex: c.index, End: "die"}, nil)
	if report.Error != "" || !report.Adopted || report.Mode != Native || report.Tag != a.Tag() {
		t.Fatalf("%+v", report)
	}
	if diff := cmp.Diff(before, report.Jobs, compareJobs); diff != "" {
		t.Errorf("the other process read other jobs:\n%s", diff)
	}
	if want := []Attachment{{c.index, Native}}; !cmp.Equal(want, report.Attachments) {
		t.Errorf("attachments %v", report.Attachments)
	}
	if got := report.Counters; got["claimed"] != 8 || got["data"] < 8 {
		t.Errorf("counters %v", got)
	}
	c.contribute(t, 2, seqs, elems)

	a = openPinned(t, dir, small, KeepOut)
	attachTo(t, a, c.index, Native)
	if idOf(t, c.index) != program || filterID(t, c.index) != filter {
		t.Error("the programs were replaced by the same ones")
	}
	await(t, "all contributions but the last arrived", func() bool { return counters(t, a)["merged"] == 2*uint64(len(seqs)) })
	states, err := a.Slots(7)
	if err != nil || len(states) != len(seqs) || states[3].Seq != 3 || states[3].Bitmap != 7 || states[3].Complete {
		t.Errorf("slots %+v, error %v", states, err)
	}
	members, err := a.Members(7)
	if err != nil || len(members) != n || members[1].Packets != uint64(len(seqs)) || members[3].Packets != 0 {
		t.Errorf("members %+v, error %v", members, err)
	}
	c.contribute(t, 3, seqs, elems)
	c.results(t, n, seqs, elems)
	if got := counters(t, a); got["data"] != 4*8 || got["published"] != 8 {
		t.Errorf("counters %v", got)
	}

	// Jobs of the processes before are accounted for, and go as this one's own do.
	next := testJob(2, 64)
	next.ID = 1
	if err := a.AddJob(jobs[0]); !errors.Is(err, ErrJobExists) {
		t.Errorf("add again: %v", err)
	}
	if err := a.AddJob(next); err != nil {
		t.Fatal(err)
	}
	if got := *a.Jobs()[0].Place; got != 16 {
		t.Errorf("the next job of the class lies at %d, want 16", got)
	}
	for _, id := range []uint16{7, 9, 1} {
		if err := a.RemoveJob(id); err != nil {
			t.Error(err)
		}
	}
	for class, r := range a.regions {
		if r.Free() != small.Slots[class] || r.Largest() != r.Free() {
			t.Errorf("class %d: %v", class, r.free)
		}
	}
	release(t, a)
	if err := Detach(dir); err != nil {
		t.Fatal(err)
	}
	expectClean(t, dir, c.index)
	expectGone(t, program)
	expectGone(t, filter)
	if err := Detach(dir); err != nil {
		t.Errorf("again: %v", err)
	}
}

// older is a build like this one whose programs begin with another instruction, and are of the version before.
func older(layout uint32) *build {
	return &build{layout: layout, version: programVersion - 1, spec: func() (*ebpf.CollectionSpec, error) {
		spec, err := loadAggregator()
		if err != nil {
			return nil, err
		}
		for _, p := range spec.Programs {
			first := asm.Mov.Imm(asm.R0, 1).WithMetadata(p.Instructions[0].Metadata)
			p.Instructions[0].Metadata = asm.Metadata{}
			p.Instructions = append(asm.Instructions{first}, p.Instructions...)
		}
		return spec, nil
	}}
}

// TestUpgrade replaces an older program under sums in flight.
func TestUpgrade(t *testing.T) {
	c, dir := newCable(t), bpffs(t)
	c.listen(t)
	const n, elems = 3, 64
	seqs := until(6)
	config, err := small.completed()
	if err != nil {
		t.Fatal(err)
	}
	old, err := older(layoutVersion).open(dir, config, KeepOut)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	attachTo(t, old, c.index, Native)
	if err := old.AddJob(testJob(n, 64)); err != nil {
		t.Fatal(err)
	}
	c.contribute(t, 0, seqs, elems)
	await(t, "the contributions arrived", func() bool { return counters(t, old)["claimed"] == uint64(len(seqs)) })
	program, filter, tag := idOf(t, c.index), filterID(t, c.index), old.Tag()
	release(t, old)

	a := openPinned(t, dir, small, KeepOut)
	if !a.Adopted() || a.Tag() == tag {
		t.Errorf("adopted %t, tag %s, was %s", a.Adopted(), a.Tag(), tag)
	}
	c.contribute(t, 1, seqs, elems) // through the old program still
	attachTo(t, a, c.index, Native)
	if idOf(t, c.index) == program || filterID(t, c.index) == filter {
		t.Error("an old program is still there")
	}
	c.contribute(t, 2, seqs, elems)
	c.results(t, n, seqs, elems)
	expectGone(t, program)
	expectGone(t, filter)
	release(t, a)

	// The older build finds what is newer than itself, and puts its own in place only when told to.
	var newer *NewerError
	if _, err := older(layoutVersion).open(dir, config, KeepOut); !errors.As(err, &newer) || newer.Version != programVersion || newer.OurVersion != programVersion-1 {
		t.Errorf("want a NewerError, got %v", err)
	}
	if old, err = older(layoutVersion).open(dir, config, TakeOver); err != nil {
		t.Fatal(err)
	}
	if !old.Adopted() || len(old.Jobs()) != 1 || old.Tag() != tag {
		t.Errorf("after the way back: adopted %t, jobs %v", old.Adopted(), old.Jobs())
	}
	// The owner may go without having attached: who comes next still updates the link.
	release(t, old)
	a = openPinned(t, dir, small, KeepOut)
	attachTo(t, a, c.index, Native)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	expectClean(t, dir, c.index)
}

// TestOtherSizes: a change of the configuration and another layout of maps are refused, or start over.
func TestOtherSizes(t *testing.T) {
	c, dir := newCable(t), bpffs(t)
	config, err := small.completed()
	if err != nil {
		t.Fatal(err)
	}
	larger := small
	larger.Slots[1], larger.Ports = 512, 4
	next := &build{layout: layoutVersion + 1, version: programVersion, spec: loadAggregator}
	for _, step := range []struct {
		name   string
		first  func() (*Aggregator, error)
		then   func(Takeover) (*Aggregator, error)
		newer  bool
		wanted string
	}{
		{"sizes", func() (*Aggregator, error) { return Open(dir, small, KeepOut) }, func(t Takeover) (*Aggregator, error) { return Open(dir, larger, t) }, false,
			"ports 1 where the configuration says 4, slots of 64 elements: 256 where the configuration says 512"},
		{"older layout", func() (*Aggregator, error) { return older(layoutVersion-1).open(dir, config, KeepOut) }, func(t Takeover) (*Aggregator, error) { return Open(dir, small, t) }, false,
			"older than this build's"},
		{"newer layout", func() (*Aggregator, error) { return next.open(dir, config, KeepOut) }, func(t Takeover) (*Aggregator, error) { return Open(dir, small, t) }, true,
			"newer than this build's"},
	} {
		a, err := step.first()
		if err != nil {
			t.Fatal(step.name, err)
		}
		attachTo(t, a, c.index, Native)
		if err := a.AddJob(testJob(2, 64)); err != nil {
			t.Fatal(err)
		}
		program := idOf(t, c.index)
		release(t, a)
		_, err = step.then(KeepOut)
		var newer *NewerError
		var sizes *SizesError
		if errors.As(err, &newer) != step.newer || errors.As(err, &sizes) == step.newer || !strings.Contains(err.Error(), step.wanted) || !strings.Contains(err.Error(), "aggregator.upgrade") {
			t.Errorf("%s: got %v", step.name, err)
		}
		if idOf(t, c.index) != program {
			t.Errorf("%s: the refusal changed the program", step.name)
		}
		if a, err = step.then(TakeOver); err != nil {
			t.Fatal(step.name, err)
		}
		if a.Adopted() || len(a.Jobs()) != 0 {
			t.Errorf("%s: adopted %t, jobs %v", step.name, a.Adopted(), a.Jobs())
		}
		attachTo(t, a, c.index, Native)
		expectGone(t, program)
		if err := a.Close(); err != nil {
			t.Fatal(step.name, err)
		}
		expectClean(t, dir, c.index)
	}
}

// anothersFilter is at the replicator's priority, and not called as it is.
func anothersFilter(ifindex int, parent uint32) netlink.Filter {
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: ifindex, Parent: parent, Priority: replicatorPriority, Protocol: unix.ETH_P_ALL},
		Fd:          shared.objects.Replicator.FD(), Name: "anothers", DirectAction: true,
	}
}

// TestForeign: what is not Spillway's, on the interface and in the directory.
func TestForeign(t *testing.T) {
	c, dir := newCable(t), bpffs(t)
	var foreign *ForeignError
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, name := range []string{"somebodys", filepath.Join(stateName, "description")} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), m.Pin(path)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, small, KeepOut); !errors.As(err, &foreign) {
			t.Errorf("%s: got %v", name, err)
		}
		a, err := Open(dir, small, TakeOver)
		if inside := filepath.Dir(name) == stateName; inside && !errors.As(err, &foreign) {
			t.Errorf("%s: got %v", name, err)
		} else if !inside {
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := Detach(dir); (err == nil) != (filepath.Dir(name) == ".") {
			t.Errorf("%s: detach: %v", name, err)
		}
		if err := m.Unpin(); err != nil {
			t.Errorf("%s was removed: %v", name, err)
		}
		if err := os.RemoveAll(filepath.Join(dir, stateName)); err != nil {
			t.Fatal(err)
		}
	}

	// Another's programs on the interface: by netlink, by a link, and another filter at tc.
	other, err := Load(Config{MaxJobs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	data := byIndex(c.index)
	for name, occupy := range map[string]func() error{
		"by netlink": func() error {
			return netlink.LinkSetXdpFdWithFlags(data, other.objects.Aggregator.FD(), unix.XDP_FLAGS_SKB_MODE)
		},
		"by a link": func() error { _, err := other.Attach(c.index); return err },
		"at tc": func() error {
			return errors.Join(netlink.QdiscAdd(newClsact(c.index)), netlink.FilterAdd(anothersFilter(c.index, netlink.HANDLE_MIN_INGRESS)))
		},
	} {
		if err := occupy(); err != nil {
			t.Fatal(name, err)
		}
		a := openPinned(t, dir, small, KeepOut)
		if _, err := a.Attach(c.index); !errors.As(err, &foreign) {
			t.Errorf("%s: got %v", name, err)
		}
		if got := a.Attachments(); len(got) != 0 {
			t.Errorf("%s: attachments %v", name, got)
		}
		release(t, a)
		a = openPinned(t, dir, small, TakeOver)
		attachTo(t, a, c.index, Native)
		if err := a.Close(); err != nil {
			t.Error(name, err)
		}
		if name == "at tc" {
			if q, err := (&attachment{ifindex: c.index, handle: &netlink.Handle{}}).clsact(); err != nil || q == nil {
				t.Errorf("another's qdisc was removed: %v", err)
			}
			if err := netlink.QdiscDel(newClsact(c.index)); err != nil {
				t.Error(err)
			}
		}
		if err := other.Withdraw(c.index); err != nil { // its qdisc, and a link that is broken
			t.Error(name, err)
		}
		expectClean(t, dir, c.index)
	}
}

// TestCrash: what is left of a process that ended at any point of making, replacing and removing.
func TestCrash(t *testing.T) {
	c, dir := newCable(t), bpffs(t)
	config, err := small.completed()
	if err != nil {
		t.Fatal(err)
	}
	// Between the pins and the rename.
	p, err := lockPins(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	a, err := thisBuild().load(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.create(a, thisBuild().describe(config)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p.state(), p.unfinished()); err != nil {
		t.Fatal(err)
	}
	program, err := programID(a.objects.Aggregator)
	if err := errors.Join(err, a.objects.Close(), p.close()); err != nil {
		t.Fatal(err)
	}
	a = openPinned(t, dir, small, KeepOut)
	if a.Adopted() {
		t.Error("an unfinished attempt was adopted")
	}
	expectGone(t, program)
	if _, err := os.Lstat(a.pins.unfinished()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the unfinished attempt is still there: %v", err)
	}

	// Inside AddJob and RemoveJob: members of no job, slots of none.
	orphan := aggregatorMemberKey{Addr: networkOrder(workerAddr(3)), Job: 5}
	if err := a.objects.Members.Put(orphan, aggregatorMember{Bits: 1}); err != nil {
		t.Fatal(err)
	}
	// Inside Attach: written down, and nothing done; the program linked, and no replicator.
	if err := a.pins.attachments.Put(uint32(c.peer), attachmentRecord{Netns: 1, Flags: recordClsact}); err != nil {
		t.Fatal(err)
	}
	attachTo(t, a, c.index, Native)
	if err := a.attached[c.index].detachReplicator(); err != nil {
		t.Fatal(err)
	}
	release(t, a)
	a = openPinned(t, dir, small, KeepOut)
	if err := a.objects.Members.Lookup(orphan, &aggregatorMember{}); !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Errorf("a member of no job is still there: %v", err)
	}
	if got := a.Attachments(); !cmp.Equal(got, []Attachment{{c.index, Native}}) {
		t.Errorf("attachments %v", got)
	}
	attachTo(t, a, c.index, Native)
	filterID(t, c.index)
	if err := a.pins.forget(c.peer); err != nil {
		t.Fatal(err)
	}

	// Inside the replacement of a program: the new one pinned beside the old.
	if err := a.pins.replaceProgram("aggregator", a.objects.Aggregator); err != nil {
		t.Fatal(err)
	}
	clone, err := a.objects.Replicator.Clone()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(clone.Pin(filepath.Join(a.pins.state(), "replicator"+programSuffix+"_new")), clone.Close()); err != nil {
		t.Fatal(err)
	}
	release(t, a)
	old, err := older(layoutVersion).open(dir, config, TakeOver)
	if err != nil || !old.Adopted() {
		t.Fatal(err)
	}
	release(t, old)

	// A pin that is missing.
	if err := os.Remove(filepath.Join(dir, stateName, "slots")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, small, KeepOut); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v", err)
	}
	a = openPinned(t, dir, small, TakeOver)
	if a.Adopted() {
		t.Error("what was damaged was adopted")
	}
	attachTo(t, a, c.index, Native)
	release(t, a)

	// Inside Detach: after the rename.
	if err := Detach(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, unfinishedName), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Detach(dir); err != nil {
		t.Fatal(err)
	}
	expectClean(t, dir, c.index)
}

// TestDetachInBadState: the interface is down, stripped, or gone; and one of two is withdrawn.
func TestDetachInBadState(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, c *cable) error{
		"down":     func(t *testing.T, c *cable) error { return netlink.LinkSetDown(byIndex(c.index)) },
		"no qdisc": func(t *testing.T, c *cable) error { return netlink.QdiscDel(newClsact(c.index)) },
		"filter of another besides": func(t *testing.T, c *cable) error {
			return netlink.FilterAdd(anothersFilter(c.index, netlink.HANDLE_MIN_EGRESS))
		},
		"gone": func(t *testing.T, c *cable) error {
			err := netlink.LinkDel(byIndex(c.index))
			c.index = 0
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, dir := newCable(t), bpffs(t)
			a := openPinned(t, dir, small, KeepOut)
			attachTo(t, a, c.index, Native)
			attachTo(t, a, c.peer, Native)
			program := idOf(t, c.index)
			release(t, a)
			if err := harm(t, c); err != nil {
				t.Fatal(err)
			}
			a = openPinned(t, dir, small, KeepOut)
			if c.index != 0 {
				if err := a.Withdraw(c.peer); err != nil {
					t.Error(err)
				}
				if err := a.Withdraw(c.peer); err != nil {
					t.Errorf("again: %v", err)
				}
				if got := a.Attachments(); len(got) != 1 || got[0].Ifindex != c.index {
					t.Errorf("attachments %v", got)
				}
			} else if got := a.Attachments(); len(got) != 0 {
				t.Errorf("attachments %v", got)
			}
			release(t, a)
			if err := Detach(dir); err != nil {
				t.Fatal(err)
			}
			if name == "filter of another besides" {
				if err := netlink.QdiscDel(newClsact(c.index)); err != nil {
					t.Errorf("another's qdisc is gone: %v", err)
				}
			}
			expectClean(t, dir, c.index)
			expectGone(t, program)
		})
	}
}

// TestOtherNamespace: from another network namespace the interface is not mistaken for one with the same index.
func TestOtherNamespace(t *testing.T) {
	c, dir := newCable(t), bpffs(t)
	a := openPinned(t, dir, small, KeepOut)
	attachTo(t, a, c.index, Native)
	release(t, a)
	failed := make(chan error)
	go func() {
		inNamespace(t)
		failed <- Detach(dir)
	}()
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "another network namespace") {
		t.Errorf("got %v", err)
	}
	idOf(t, c.index)
	if err := Detach(dir); err != nil {
		t.Fatal(err)
	}
	expectClean(t, dir, c.index)
}

// Capabilities of linux/capability.h.
const (
	capNetAdmin = 12
	capPerfmon  = 38
	capBPF      = 39
)

// TestUnprivileged does all of it as a user who has the three capabilities and nothing else.
func TestUnprivileged(t *testing.T) {
	c, dir := newCable(t), bpffs(t)
	c.listen(t)
	nobody := &unix.SysProcAttr{
		Credential:  &syscall.Credential{Uid: 65534, Gid: 65534},
		AmbientCaps: []uintptr{capBPF, capNetAdmin, capPerfmon},
	}
	// As a service has it: the directory is his, the one above is not.
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 65534, 65534), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	job := testJob(3, 64)
	request := childRequest{Dir: dir, Config: small, Ifindex: c.index, Job: &job, End: "release"}
	report := runChild(t, request, nobody)
	if report.Error != "" || report.Uid != 65534 || report.Caps != "000000c000001000" || report.Mode != Native || report.Adopted {
		t.Fatalf("%+v", report)
	}
	const elems = 10
	c.contribute(t, 0, until(3), elems)
	c.contribute(t, 1, until(3), elems)
	request.Job = nil
	report = runChild(t, request, nobody)
	if report.Error != "" || !report.Adopted || len(report.Jobs) != 1 || len(report.Attachments) != 1 {
		t.Fatalf("%+v", report)
	}
	c.contribute(t, 2, until(3), elems)
	c.results(t, 3, until(3), elems)
	// An upgrade needs no more, and neither does the end.
	config, err := small.completed()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := older(layoutVersion).open(dir, config, KeepOut); err == nil {
		t.Error("older over newer")
	}
	request.End = "close"
	if report = runChild(t, request, nobody); report.Error != "" {
		t.Fatalf("%+v", report)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("the directory that was given: %v, error %v", entries, err)
	}
	request.End = "release"
	request.Job = &job
	if report = runChild(t, request, nobody); report.Error != "" {
		t.Fatalf("%+v", report)
	}
	request.End = "detach"
	if report = runChild(t, request, nobody); report.Error != "" {
		t.Fatalf("%+v", report)
	}
	if err := os.Remove(dir); err != nil {
		t.Error(err)
	}
	expectClean(t, dir, c.index)
}

// TestDescriptors: nothing stays open.
func TestDescriptors(t *testing.T) {
	c, dir := newCable(t), bpffs(t)
	cycle := func() {
		a := openPinned(t, dir, small, KeepOut)
		attachTo(t, a, c.index, Native)
		if _, err := Open(dir, small, KeepOut); !errors.Is(err, ErrInUse) {
			t.Error(err)
		}
		release(t, a)
		if _, err := Open(dir, Config{MaxJobs: 3}, KeepOut); err == nil {
			t.Error("other sizes were accepted")
		}
		if err := Detach(dir); err != nil {
			t.Error(err)
		}
	}
	cycle() // what the runtime and libraries open once
	before := descriptors(t)
	for range 3 {
		cycle()
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
	a, err := Load(small)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Release(); err == nil {
		t.Error("an aggregator that is not pinned was released")
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestOpenRefuses: directories that cannot be.
func TestOpenRefuses(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "spillway"), small, KeepOut); err == nil || !strings.Contains(err.Error(), "not in a BPF file system") {
		t.Errorf("got %v", err)
	}
	if _, err := Open(bpffs(t)+"/a.b", small, KeepOut); err == nil || !strings.Contains(err.Error(), "no dots") {
		t.Errorf("got %v", err)
	}
	if _, err := Open(bpffs(t), Config{Ports: 3}, KeepOut); err == nil {
		t.Error("3 ports were accepted")
	}
	if err := Detach("/nowhere/at/all"); err != nil {
		t.Errorf("detach of nothing: %v", err)
	}
}
