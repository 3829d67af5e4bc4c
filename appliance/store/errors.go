package store

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// LockedError: another process has the file open.
type LockedError struct {
	Path string
	// Holder is who has it, as far as can be seen; else empty.
	Holder string
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.Holder != "" {
		who = e.Holder
	}
	return fmt.Sprintf("the state file %s is in use by %s: stop it first (systemctl stop spillwayd), or give this daemon a state file of its own", e.Path, who)
}

// CorruptError: the file is there and cannot be read.
type CorruptError struct {
	Path  string
	Cause error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("the state file %s is damaged (%v): restore it from a backup, or move it away and start without jobs (mv %s %s.damaged); then create the jobs again, and start their workers again",
		e.Path, e.Cause, e.Path, e.Path)
}

func (e *CorruptError) Unwrap() error { return e.Cause }

// NewerError: a newer daemon has written the file.
type NewerError struct {
	Path string
	Has  int
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("the state file %s has schema %d, and this daemon knows %d: install the newer version again, or move the file away and start without jobs",
		e.Path, e.Has, Schema)
}

// holder names the process that has a lock on the file, from /proc/locks: lines like "1: FLOCK  ADVISORY  WRITE 321 08:01:1311 0 EOF".
func holder(path string) string {
	stat, err := os.Stat(path)
	if err != nil {
		return ""
	}
	inode, ok := stat.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(inode.Dev), unix.Minor(inode.Dev), inode.Ino)
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return ""
	}
	for lines := bufio.NewScanner(bytes.NewReader(locks)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[1] != "FLOCK" || fields[5] != file {
			continue
		}
		pid := fields[4]
		if name, err := os.ReadFile("/proc/" + pid + "/comm"); err == nil {
			return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(name)))
		}
		return "process " + pid
	}
	return ""
}
