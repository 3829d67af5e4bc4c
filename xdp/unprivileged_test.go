package xdp

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

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
	request := childRequest{Dir: dir, Config: small, Ifindex: c.index, Job: &job, End: "release", Older: true}
	report := runChild(t, request, nobody)
	if report.Error != "" || report.Uid != 65534 || report.Caps != "000000c000001000" || report.Mode != Native || report.Adopted {
		t.Fatalf("%+v", report)
	}
	const elems = 10
	c.contribute(t, 0, until(3), elems)
	c.contribute(t, 1, until(3), elems)
	// An upgrade needs no more.
	request.Job, request.Older = nil, false
	tag, program := report.Tag, idOf(t, c.index)
	report = runChild(t, request, nobody)
	if report.Error != "" || !report.Adopted || report.Tag == tag || len(report.Jobs) != 1 || len(report.Attachments) != 1 {
		t.Fatalf("%+v", report)
	}
	if len(report.Slots) != 3 || report.Slots[2].Bitmap != 3 || report.Members[1].Packets != 3 {
		t.Errorf("slots %+v, members %+v", report.Slots, report.Members)
	}
	expectGone(t, program)
	c.contribute(t, 2, until(3), elems)
	c.results(t, 3, until(3), elems)
	// And neither does the end.
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
	// Root takes off what is the user's, who can start again after that.
	request.End = "release"
	for range 2 {
		if report = runChild(t, request, nobody); report.Error != "" || report.Adopted {
			t.Fatalf("%+v", report)
		}
		if err := Detach(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(dir); err != nil {
		t.Error(err)
	}
	expectClean(t, dir, c.index)
}
