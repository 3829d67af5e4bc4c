package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// programID is what the kernel calls the program wherever it is attached.
func programID(p *ebpf.Program) (ebpf.ProgramID, error) {
	info, err := p.Info()
	if err != nil {
		return 0, err
	}
	id, ok := info.ID()
	if !ok {
		return 0, errors.New("the kernel does not tell the program's id")
	}
	return id, nil
}

// netnsCookie names the thread's network namespace as no other until the next boot is named.
func netnsCookie() (cookie uint64, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open a socket to tell the network namespace by: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err != nil {
		return 0, fmt.Errorf("read the network namespace's cookie (Linux 5.14): %w", err)
	}
	return cookie, nil
}
