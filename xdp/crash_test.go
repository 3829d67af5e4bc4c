package xdp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
)

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

	// The record of attachments is missing: the program and its filter still come off.
	if err := os.Remove(filepath.Join(dir, stateName, "attachments")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, small, KeepOut); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v", err)
	}
	if err := Detach(dir); err != nil {
		t.Fatal(err)
	}
	if filters, err := netlink.FilterList(byIndex(c.index), netlink.HANDLE_MIN_INGRESS); err != nil || len(filters) != 0 {
		t.Errorf("filters %v, error %v", filters, err)
	}
	if err := netlink.QdiscDel(newClsact(c.index)); err != nil { // whose it was is not known any more
		t.Error(err)
	}

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
