package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace and the one thread that is in it. What is
// started there, processes and sockets, stays there.
type namespace struct {
	calls chan func()
	done  chan struct{}
}

func newNamespace() (*namespace, error) {
	n := &namespace{calls: make(chan func()), done: make(chan struct{})}
	ready := make(chan error)
	go n.serve(ready)
	if err := <-ready; err != nil {
		<-n.done
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	return n, nil
}

// serve never unlocks its thread, so that the runtime ends it with the goroutine
// and nothing else ever runs in the wrong namespace.
func (n *namespace) serve(ready chan<- error) {
	defer close(n.done)
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		ready <- err
		return
	}
	// The kernel itself would speak IPv6 on links that come up.
	for _, which := range []string{"all", "default"} {
		err := os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", which, "disable_ipv6"), []byte("1"), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without IPv6 says nothing
			ready <- err
			return
		}
	}
	ready <- nil
	for call := range n.calls {
		call()
	}
}

// do runs f in the namespace.
func (n *namespace) do(f func() error) error {
	result := make(chan error, 1)
	n.calls <- func() { result <- f() }
	return <-result
}

// close ends the thread. The kernel removes the namespace when no process and
// no socket is left in it.
func (n *namespace) close() {
	close(n.calls)
	<-n.done
}
