package rack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// A namespace is an anonymous network namespace and the OS thread that lives in
// it. Cost: one thread (some 10 kB of kernel memory and 8 MB of address space
// for its stack) and two descriptors.
//
// The thread stays for as long as the namespace does, because the kernel sends
// a child's parent-death signal when the *thread* that started it ends.
type namespace struct {
	name   string
	handle netns.NsHandle  // holds the namespace
	link   *netlink.Handle // netlink inside the namespace
	calls  chan func()     // closed to end the thread
	done   chan struct{}   // closed when the thread's goroutine has ended
}

// newNamespace unshares a network namespace on a new locked thread, brings lo
// up and switches IPv6 off, whose address discovery is noise on a rack's links.
func newNamespace(name string) (*namespace, error) {
	n := &namespace{name: name, calls: make(chan func()), done: make(chan struct{})}
	ready := make(chan error)
	go n.live(ready)
	if err := <-ready; err != nil {
		<-n.done
		return nil, fmt.Errorf("make the network namespace of %s: %w", name, err)
	}
	if err := n.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the network namespace of %s: %w", name, err), n.close())
	}
	return n, nil
}

// live is the goroutine of the namespace's thread.
func (n *namespace) live(ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The runtime parks the process's first thread instead of ending it, and that
		// thread stands for the process in /proc. Keep it busy until another has the job.
		locked := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(locked)
			n.serve(ready)
		}()
		<-locked
		runtime.UnlockOSThread()
		return
	}
	n.serve(ready)
}

// serve runs calls on its thread, which is locked. It never unlocks: the
// runtime then ends the thread with the goroutine, and nothing else ever runs
// in the wrong namespace.
func (n *namespace) serve(ready chan<- error) {
	defer close(n.done)
	if err := n.unshare(); err != nil {
		ready <- err
		return
	}
	ready <- nil
	for call := range n.calls {
		call()
	}
}

func (n *namespace) unshare() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	handle, err := netns.Get()
	if err != nil {
		return fmt.Errorf("open the new namespace: %w", err)
	}
	link, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return errors.Join(fmt.Errorf("open netlink: %w", err), handle.Close())
	}
	n.handle, n.link = handle, link
	return nil
}

func (n *namespace) prepare() error {
	lo, err := n.link.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := n.link.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	for _, setting := range []string{
		"ipv6/conf/all/disable_ipv6",
		"ipv6/conf/default/disable_ipv6",
	} {
		value := "1"
		if err := n.sysctl(setting, value); err != nil {
			return err
		}
	}
	return nil
}

// do runs f on the namespace's thread and returns what it returns. f must not
// start goroutines that expect to be in the namespace.
func (n *namespace) do(f func() error) error {
	result := make(chan error, 1)
	n.calls <- func() { result <- f() }
	return <-result
}

// sysctl sets /proc/sys/net/NAME, which the kernel resolves in the namespace of
// the thread that opens it. A setting that this kernel does not have is skipped.
func (n *namespace) sysctl(name, value string) error {
	return n.do(func() error {
		err := os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("set net/%s to %s in %s: %w", name, value, n.name, err)
		}
		return nil
	})
}

// close ends the thread and drops the namespace. The kernel removes it, and all
// that is in it, when no process and no other descriptor is left inside.
func (n *namespace) close() error {
	close(n.calls)
	<-n.done
	n.link.Close()
	if err := n.handle.Close(); err != nil {
		return fmt.Errorf("close the network namespace of %s: %w", n.name, err)
	}
	return nil
}
