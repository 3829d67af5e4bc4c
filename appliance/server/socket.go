package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socketMode lets the owner and the group call, and nobody else.
const socketMode = 0o660

// socket is a listening Unix socket in the place of a name.
type socket struct {
	*net.UnixListener
	path string
	// made is what was bound, to tell it from what another process may have put there since.
	made fs.FileInfo
}

// listenSocket binds a Unix socket. One that a dead process left is replaced; one that somebody listens on, and a file that is no socket, are
// refused. It gets its mode and group under another name, and then its own by rename, so that nobody finds it with wrong ones.
func listenSocket(path, group string) (_ *socket, err error) {
	if err := vacant(path); err != nil {
		return nil, err
	}
	beside := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("server: socket: %w", err)
	}
	// The mode of the socket becomes that of the file, less the umask: never wider than it will be, not even before the chmod.
	narrow := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) { set = unix.Fchmod(int(fd), socketMode) })
		return errors.Join(err, set)
	}}
	listening, err := narrow.Listen(context.Background(), "unix", beside)
	if err != nil {
		return nil, fmt.Errorf("server: socket %s (is its directory there, and is the path below 100 bytes?): %w", path, err)
	}
	inner := listening.(*net.UnixListener)
	inner.SetUnlinkOnClose(false) // it would remove the wrong name
	defer func() {
		if err != nil {
			err = errors.Join(err, inner.Close(), removeIfThere(beside))
		}
	}()
	if group != "" {
		if err := giveToGroup(beside, group); err != nil {
			return nil, fmt.Errorf("server: socket %s: %w", path, err)
		}
	}
	if err := os.Chmod(beside, socketMode); err != nil {
		return nil, fmt.Errorf("server: socket: %w", err)
	}
	made, err := os.Lstat(beside)
	if err != nil {
		return nil, fmt.Errorf("server: socket: %w", err)
	}
	if err := os.Rename(beside, path); err != nil {
		return nil, fmt.Errorf("server: socket: %w", err)
	}
	return &socket{UnixListener: inner, path: path, made: made}, nil
}

// vacant fails when the name of a socket is in use.
func vacant(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("server: socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("server: %s is there and is no socket; remove it, or name another path for api.socket", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		_ = conn.Close() // it was only to see whether anybody answers
		return fmt.Errorf("server: somebody listens on %s already: another spillwayd? Stop it, or name another path for api.socket", path)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil // left by a process that is dead; the rename replaces it
	default:
		return fmt.Errorf("server: is %s in use? Remove it if not: %w", path, err)
	}
}

func giveToGroup(path, name string) error {
	group, err := user.LookupGroup(name)
	if err != nil {
		return fmt.Errorf("group of the socket (make it with groupadd --system %s): %w", name, err)
	}
	id, err := strconv.Atoi(group.Gid)
	if err != nil {
		return fmt.Errorf("group %s has the id %q: %w", name, group.Gid, err)
	}
	if err := unix.Lchown(path, -1, id); err != nil {
		return fmt.Errorf("give it to group %s (whose member must the process be, or root): %w", name, err)
	}
	return nil
}

// Close stops listening, and takes the name away if it is still this socket's.
func (s *socket) Close() error {
	var removed error
	if info, err := os.Lstat(s.path); err == nil && os.SameFile(info, s.made) {
		removed = removeIfThere(s.path)
	}
	return errors.Join(s.UnixListener.Close(), removed)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
