package server

import (
	"context"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// listenTCP listens on an address that the host may not have yet: one that comes late, or goes and comes back, is no reason not to serve the operators'
// socket (IP_FREEBIND, ip(7)).
func listenTCP(address string) (net.Listener, error) {
	free := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_FREEBIND, 1) })
		return errors.Join(err, set)
	}}
	return free.Listen(context.Background(), "tcp", address)
}
