package xdp

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestDetachInBadState: the interface is down, stripped, or gone; and one of two is withdrawn.
func TestDetachInBadState(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, c *cable) error{
		"down":     func(t *testing.T, c *cable) error { return netlink.LinkSetDown(byIndex(c.index)) },
		"no qdisc": func(t *testing.T, c *cable) error { return netlink.QdiscDel(newClsact(c.index)) },
		"filter of another besides": func(t *testing.T, c *cable) error {
			return netlink.FilterAdd(anothersFilter(c.index, netlink.HANDLE_MIN_EGRESS))
		},
		"link broken": func(t *testing.T, c *cable) error { return breakLink(c.index, idOf(t, c.index)) },
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
				if got := a.Attachments(); name != "link broken" && (len(got) != 1 || got[0].Ifindex != c.index) {
					t.Errorf("attachments %v", got)
				}
			} else if got := a.Attachments(); len(got) != 0 {
				t.Errorf("attachments %v", got)
			}
			if name == "link broken" {
				if got := a.Attachments(); len(got) != 0 {
					t.Errorf("attachments %v", got)
				}
				attachTo(t, a, c.index, Native)
				idOf(t, c.index)
				if err := breakLink(c.index, idOf(t, c.index)); err != nil {
					t.Fatal(err)
				}
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
