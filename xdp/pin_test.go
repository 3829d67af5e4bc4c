package xdp

import (
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"
)

// small is the config of the tests of pinning.
var small = Config{MaxJobs: 16, Slots: Slots{256, 256, 256, 64}, Ports: 4}

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
	jobs[1].Policy, jobs[1].Resumed = Policy{Quorum: 2, After: 1500 * time.Microsecond, MaxLag: 30}, true
	inner := innerJob(2, 64)
	inner.ID = 11
	jobs = append(jobs, inner)
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
	if got := *a.Jobs()[0].Place; got != 32 {
		t.Errorf("the next job of the class lies at %d, want 32", got)
	}
	for _, id := range []uint16{7, 9, 11, 1} {
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

// TestGenericIsAdopted: the mode of a link that is found is the kernel's, not a guess.
func TestGenericIsAdopted(t *testing.T) {
	inNamespace(t)
	dir := bpffs(t)
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	index := lo.Attrs().Index
	for range 2 {
		a := openPinned(t, dir, small, KeepOut)
		attachTo(t, a, index, Generic)
		release(t, a)
		a = openPinned(t, dir, small, KeepOut)
		if got := a.Attachments(); !cmp.Equal(got, []Attachment{{index, Generic}}) {
			t.Errorf("attachments %v", got)
		}
		release(t, a)
	}
	if err := Detach(dir); err != nil {
		t.Fatal(err)
	}
	expectClean(t, dir, index)
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
	larger.Slots[1], larger.Ports = 512, 8
	next := &build{layout: layoutVersion + 1, version: programVersion, spec: loadAggregator}
	for _, step := range []struct {
		name   string
		first  func() (*Aggregator, error)
		then   func(Takeover) (*Aggregator, error)
		newer  bool
		wanted string
	}{
		{"sizes", func() (*Aggregator, error) { return Open(dir, small, KeepOut) }, func(t Takeover) (*Aggregator, error) { return Open(dir, larger, t) }, false,
			"ports 4 where the configuration says 8, slots of 64 elements: 256 where the configuration says 512"},
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
