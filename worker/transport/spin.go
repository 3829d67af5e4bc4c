package transport

import (
	"time"

	"golang.org/x/sys/unix"
)

// spinner bounds how long a Wait looks again and again. Between two looks it gives its core to whoever else wants it: on a host with more
// ranks than cores those are the others, without whom nothing arrives.
type spinner struct {
	limit  int64 // ns; 0: it does not
	start  time.Time
	budget int64
	now    int64 // since start
	looked bool
}

// begin starts a Wait of a timeout.
func (s *spinner) begin(timeout int64) {
	s.now, s.looked, s.budget = 0, false, min(s.limit, timeout)
	if s.budget > 0 {
		s.start = time.Now()
	}
}

// again reports whether to look once more.
func (s *spinner) again() bool {
	if s.budget <= 0 {
		return false
	}
	if !s.looked {
		s.looked = true
		return true
	}
	if s.now = int64(time.Since(s.start)); s.now >= s.budget {
		return false
	}
	_, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // it has no way to fail
	return true
}

// spent is how much of the timeout is over, ns.
func (s *spinner) spent() int64 { return s.now }
