package transport

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is struct mmsghdr of sendmmsg(2) and recvmmsg(2). The compiler pads it as C does.
type mmsghdr struct {
	header unix.Msghdr
	length uint32 // bytes received
}

// mmsg makes one of the two system calls; messages must not be empty.
func mmsg(call uintptr, fd int, messages []mmsghdr) (n int, err error) {
	r, _, errno := unix.Syscall6(call, uintptr(fd), uintptr(unsafe.Pointer(&messages[0])), uintptr(len(messages)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}

// putPort writes the port of a socket address, which is big-endian.
func putPort(a *unix.RawSockaddrInet4, port uint16) {
	p := (*[2]byte)(unsafe.Pointer(&a.Port))
	p[0], p[1] = byte(port>>8), byte(port)
}

func getPort(a *unix.RawSockaddrInet4) uint16 {
	p := (*[2]byte)(unsafe.Pointer(&a.Port))
	return uint16(p[0])<<8 | uint16(p[1])
}
